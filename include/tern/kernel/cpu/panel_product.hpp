// Panels of eight rows times a few tokens in 8 bits, in the order that linear_q8 states. A register holds one number of
// each of eight rows, so nothing is added across it; the eight chains of each row and token stay in memory.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <tern/kernel/cpu/panel_q8.hpp>

namespace tern::kernel::cpu {

/// What a product goes over: `count` panels of each of some groups of eight rows, and as many blocks of some tokens.
template <code_kind Kind> struct panel_args {
    const panel<Kind>* panels; ///< of group g: panels + g * group_stride
    std::size_t group_stride;
    std::size_t count;
    const q8_block* x; ///< of token t: x + t * token_stride
    std::size_t token_stride;
    float* chains; ///< [chain][token][group][row], 32-byte aligned; added to
    int offset = 0;
};

namespace detail {

/// Four bytes of x in each lane.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256i each_lane(const void* from) {
    int word;
    std::memcpy(&word, from, 4);
    return _mm256_set1_epi32(word);
}

[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256i words_at(const void* from) {
    return _mm256_load_si256(static_cast<const __m256i*>(from));
}

/// Keeps the additions so far in a register of their own: compilers regroup long sums of whole numbers into trees, and
/// then have too few registers.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void settle(__m256i& sum) { __asm__("" : "+x"(sum)); }

/// Where panel number i of each group and block number i of each token lie.
template <code_kind Kind, int Groups, int Tokens> struct panel_step {
    const panel<Kind>* w[Groups];
    const q8_block* x[Tokens];
    float* chains;

    panel_step(const panel_args<Kind>& a, std::size_t i) noexcept : chains(a.chains) {
        for (std::size_t g = 0; g < Groups; ++g) w[g] = a.panels + g * a.group_stride + i;
        for (std::size_t t = 0; t < Tokens; ++t) x[t] = a.x + t * a.token_stride + i;
    }
};

/// Some steps of one part, whose sums fit into 16 bits.
template <int Steps, int Groups, int Tokens>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void
small_steps(const panel_step<code_kind::small, Groups, Tokens>& at, int part, int first,
            __m256i (&sums)[Groups][Tokens]) {
    __m256i narrow[Groups][Tokens];
#pragma GCC unroll 8
    for (int s = 0; s < Steps; ++s) {
        __m256i w[Groups];
#pragma GCC unroll 2
        for (int g = 0; g < Groups; ++g) w[g] = words_at(at.w[g]->codes[part][first + s]);
#pragma GCC unroll 4
        for (int t = 0; t < Tokens; ++t) {
            const __m256i x = each_lane(at.x[t]->codes + 32 * part + 4 * (first + s));
#pragma GCC unroll 2
            for (int g = 0; g < Groups; ++g) {
                const __m256i both = _mm256_maddubs_epi16(w[g], x);
                narrow[g][t] = s == 0 ? both : _mm256_add_epi16(narrow[g][t], both);
                settle(narrow[g][t]);
            }
        }
    }
    const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 2
    for (int g = 0; g < Groups; ++g)
#pragma GCC unroll 4
        for (int t = 0; t < Tokens; ++t) {
            const __m256i wide = _mm256_madd_epi16(narrow[g][t], ones);
            sums[g][t] = first == 0 ? wide : _mm256_add_epi32(sums[g][t], wide);
        }
}

/// One part of codes up to 15 (Steps 8) or 31 (Steps 4).
template <int Lows, int Steps, int Groups, int Tokens>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void
multiply_part(const panel_step<code_kind::small, Groups, Tokens>& at, int part, __m256i offset) {
    __m256i sums[Groups][Tokens];
    small_steps<Steps, Groups, Tokens>(at, part, 0, sums);
    if constexpr (Steps == 4) small_steps<Steps, Groups, Tokens>(at, part, 4, sums);
    float* chain = at.chains + part * (Tokens * Groups * 8);
#pragma GCC unroll 4
    for (int t = 0; t < Tokens; ++t) {
        const q8_block& x = *at.x[t];
        const __m256 step = _mm256_set1_ps(x.scale[part]);
#pragma GCC unroll 2
        for (int g = 0; g < Groups; ++g, chain += 8) {
            __m256i sum = sums[g][t];
            if constexpr (Lows == 0)
                sum = _mm256_sub_epi32(sum, _mm256_madd_epi16(each_lane(x.sums + 2 * part), offset));
            const __m256 scale = _mm256_mul_ps(_mm256_load_ps(at.w[g]->scale[part]), step);
            __m256 to = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sum), _mm256_load_ps(chain));
            if constexpr (Lows == 1)
                to = _mm256_fnmadd_ps(_mm256_load_ps(at.w[g]->low[part]), _mm256_set1_ps(x.scaled_sum[part]), to);
            _mm256_store_ps(chain, to);
        }
    }
}

/// One part with a scale for each half, of codes up to 63 (Steps 2) or 31 (Steps 4 and more).
template <int Lows, int Steps, int Groups, int Tokens>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void
multiply_part(const panel_step<code_kind::scaled, Groups, Tokens>& at, int part, __m256i) {
    static_assert(Groups == 1);
    constexpr int steps = Steps < 4 ? Steps : 4;
    const panel<code_kind::scaled>& w = *at.w[0];
    __m256i sums[Tokens];
#pragma GCC unroll 4
    for (int t = 0; t < Tokens; ++t)
        sums[t] = _mm256_sub_epi32(_mm256_setzero_si256(),
                                   _mm256_madd_epi16(words_at(w.raised[part]), each_lane(at.x[t]->sums + 2 * part)));
#pragma GCC unroll 4
    for (int first = 0; first < 8; first += steps) {
        const __m256i factor = words_at(w.factor[part][first / 4]);
        __m256i narrow[Tokens];
#pragma GCC unroll 4
        for (int s = first; s < first + steps; ++s) {
            const __m256i codes = words_at(w.codes[part][s]);
#pragma GCC unroll 4
            for (int t = 0; t < Tokens; ++t) {
                const __m256i both = _mm256_maddubs_epi16(codes, each_lane(at.x[t]->codes + 32 * part + 4 * s));
                narrow[t] = s == first ? both : _mm256_add_epi16(narrow[t], both);
                settle(narrow[t]);
            }
        }
#pragma GCC unroll 4
        for (int t = 0; t < Tokens; ++t) {
            sums[t] = _mm256_add_epi32(sums[t], _mm256_madd_epi16(narrow[t], factor));
            settle(sums[t]);
        }
    }
    float* chain = at.chains + part * (Tokens * 8);
#pragma GCC unroll 4
    for (int t = 0; t < Tokens; ++t, chain += 8) {
        const __m256 step = _mm256_set1_ps(at.x[t]->scale[part]);
        __m256 to = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_load_ps(w.scale), step), _mm256_cvtepi32_ps(sums[t]),
                                    _mm256_load_ps(chain));
        if constexpr (Lows == 2) {
            const __m256i lows = _mm256_madd_epi16(words_at(w.lows[part]), each_lane(at.x[t]->sums + 2 * part));
            to = _mm256_fnmadd_ps(_mm256_mul_ps(_mm256_load_ps(w.low), step), _mm256_cvtepi32_ps(lows), to);
        }
        _mm256_store_ps(chain, to);
    }
}

/// One part of codes with sign, as 16 bits; `x` are the activations, widened likewise.
template <int Groups, int Tokens>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void
multiply_wide(const panel_step<code_kind::wide, Groups, Tokens>& at, int part, const std::int16_t (*x)[256]) {
    __m256i sums[Groups][Tokens];
#pragma GCC unroll 16
    for (int s = 0; s < 16; ++s) {
        __m256i w[Groups];
#pragma GCC unroll 2
        for (int g = 0; g < Groups; ++g) w[g] = words_at(at.w[g]->codes[part][s]);
#pragma GCC unroll 4
        for (int t = 0; t < Tokens; ++t) {
            const __m256i each = each_lane(x[t] + 32 * part + 2 * s);
#pragma GCC unroll 2
            for (int g = 0; g < Groups; ++g) {
                const __m256i both = _mm256_madd_epi16(w[g], each);
                sums[g][t] = s == 0 ? both : _mm256_add_epi32(sums[g][t], both);
                settle(sums[g][t]);
            }
        }
    }
    float* chain = at.chains + part * (Tokens * Groups * 8);
#pragma GCC unroll 4
    for (int t = 0; t < Tokens; ++t) {
        const __m256 step = _mm256_set1_ps(at.x[t]->scale[part]);
#pragma GCC unroll 2
        for (int g = 0; g < Groups; ++g, chain += 8) {
            const __m256 scale = _mm256_mul_ps(_mm256_load_ps(at.w[g]->scale[part]), step);
            _mm256_store_ps(chain, _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sums[g][t]), _mm256_load_ps(chain)));
        }
    }
}

} // namespace detail

/// Adds the products to the chains. Lows is the format's; Steps says how many sums of two products fit into 16 bits.
template <int Lows, int Steps, int Groups, int Tokens, code_kind Kind>
[[gnu::target("avx2,fma,f16c")]] void multiply_panels(const panel_args<Kind>& a) {
    for (std::size_t i = 0; i < a.count; ++i) {
        const detail::panel_step<Kind, Groups, Tokens> at(a, i);
        if constexpr (Kind == code_kind::wide) {
            alignas(32) std::int16_t x[Tokens][256];
            for (int t = 0; t < Tokens; ++t)
                for (int c = 0; c < 256; c += 16)
                    detail::store_words(x[t] + c, _mm256_cvtepi8_epi16(detail::load16(at.x[t]->codes + c)));
            for (int part = 0; part < 8; ++part) detail::multiply_wide<Groups, Tokens>(at, part, x);
        } else {
            const __m256i offset = _mm256_set1_epi16(static_cast<std::int16_t>(a.offset));
            for (int part = 0; part < 8; ++part) detail::multiply_part<Lows, Steps, Groups, Tokens>(at, part, offset);
        }
    }
}

} // namespace tern::kernel::cpu

#endif
