// One row of a format times one token in 8 bits, with AVX2, in the order that linear_q8 states. Eight parts are
// multiplied at a time; their sums lie side by side in one register, so that scales are applied to eight at once.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstring>

#include <tern/kernel/cpu/codes.hpp>
#include <tern/kernel/quantize_q8.hpp>

namespace tern::kernel::cpu {

namespace detail {

[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256i codes_of(const q8_block& x, int part) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x.codes + 32 * part));
}

/// Sixteen sums of two products of part `Part`, of 16 bits: at most 2 * 127 * 63, or 2 * 127 * 128 where codes have a
/// sign.
template <class Form, int Part, class Block>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256i products(const Block* b, const q8_block& x) {
    const __m256i w = Form::template codes<Part>(b);
    if constexpr (Form::kind == code_kind::wide)
        return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(codes_of(x, Part), w));
    else
        return _mm256_maddubs_epi16(w, codes_of(x, Part));
}

/// Four sums of two neighbours for each of two registers: all must fit into 16 bits.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256i fold_small(__m256i a, __m256i b) {
    return _mm256_madd_epi16(_mm256_packs_epi32(a, b), _mm256_set1_epi16(1));
}

/// Lanes of two registers of [0 1 2 3 | 0 1 2 3] and [4 5 6 7 | 4 5 6 7], added up: [0 1 ... 7].
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256i join_halves(__m256i a, __m256i b) {
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

/// Parts First and First + 1 where codes are small: the sums of 16 numbers still fit into 16 bits.
template <class Form, int First, class Block>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256i small_pair(const Block* b, const q8_block& x) {
    const __m256i ones = _mm256_set1_epi16(1);
    return fold_small(_mm256_madd_epi16(products<Form, First>(b, x), ones),
                      _mm256_madd_epi16(products<Form, First + 1>(b, x), ones));
}

/// Likewise where sums need 32 bits. `factors` are the sixteen scales of groups, or null for one.
template <class Form, int Part, class Block>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256i wide_part(const Block* b, const q8_block& x,
                                                                              const std::int16_t* factors) {
    __m256i factor = _mm256_set1_epi16(1);
    if constexpr (Form::kind == code_kind::scaled) {
        int both;
        std::memcpy(&both, factors + 2 * Part, 4);
        factor = _mm256_shuffle_epi8(_mm256_set1_epi32(both),
                                     _mm256_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, //
                                                      2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3));
    }
    return _mm256_madd_epi16(products<Form, Part>(b, x), factor);
}

template <class Form, int First, class Block>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256i wide_four(const Block* b, const q8_block& x,
                                                                              const std::int16_t* factors) {
    const __m256i a =
        _mm256_hadd_epi32(wide_part<Form, First>(b, x, factors), wide_part<Form, First + 1>(b, x, factors));
    const __m256i c =
        _mm256_hadd_epi32(wide_part<Form, First + 2>(b, x, factors), wide_part<Form, First + 3>(b, x, factors));
    return _mm256_hadd_epi32(a, c);
}

/// The sums of codes of sixteen groups.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256i sums_of(const q8_block& x) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x.sums));
}

/// Eight parts, into the eight chains; scales count only where `taken` has all bits set.
template <format F>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256
dot_small(const typename F::block* b, const q8_block& x, __m256 chains, [[maybe_unused]] __m256 taken) {
    using form = avx2_form<F>;
    __m256i sum = join_halves(fold_small(small_pair<form, 0>(b, x), small_pair<form, 2>(b, x)),
                              fold_small(small_pair<form, 4>(b, x), small_pair<form, 6>(b, x)));
    if constexpr (form::offset != 0)
        sum = _mm256_sub_epi32(sum, _mm256_madd_epi16(sums_of(x), _mm256_set1_epi16(form::offset)));
    part_scales s = form::scales(b);
    if constexpr (F::block_size == 32) s = {_mm256_and_ps(s.scale, taken), _mm256_and_ps(s.low, taken)};
    chains = _mm256_fmadd_ps(_mm256_mul_ps(s.scale, _mm256_loadu_ps(x.scale)), _mm256_cvtepi32_ps(sum), chains);
    if constexpr (form::lows == 1) chains = _mm256_fnmadd_ps(s.low, _mm256_loadu_ps(x.scaled_sum), chains);
    return chains;
}

template <format F>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256
dot_wide(const typename F::block* b, const q8_block& x, __m256 chains, [[maybe_unused]] __m256 taken) {
    using form = avx2_form<F>;
    const __m256i sum = join_halves(wide_four<form, 0>(b, x, nullptr), wide_four<form, 4>(b, x, nullptr));
    const __m256 scale = _mm256_mul_ps(_mm256_and_ps(form::scales(b).scale, taken), _mm256_loadu_ps(x.scale));
    return _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sum), chains);
}

template <format F>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256
dot_scaled(const typename F::block* b, const q8_block& x, __m256 chains, [[maybe_unused]] __m256 taken) {
    using form = avx2_form<F>;
    alignas(32) std::int16_t factors[16];
    const __m256i groups = form::group_scales(b);
    _mm256_store_si256(reinterpret_cast<__m256i*>(factors), groups);
    __m256i sum = join_halves(wide_four<form, 0>(b, x, factors), wide_four<form, 4>(b, x, factors));
    if constexpr (form::offset != 0) {
        const __m256i raised = _mm256_mullo_epi16(groups, _mm256_set1_epi16(form::offset));
        sum = _mm256_sub_epi32(sum, _mm256_madd_epi16(raised, sums_of(x)));
    }
    const __m256 step = _mm256_loadu_ps(x.scale);
    chains = _mm256_fmadd_ps(_mm256_mul_ps(broadcast_half(b->d.get()), step), _mm256_cvtepi32_ps(sum), chains);
    if constexpr (form::lows == 2) {
        const __m256i lows = _mm256_madd_epi16(form::group_lows(b), sums_of(x));
        const __m256 low = _mm256_mul_ps(broadcast_half(b->dmin.get()), step);
        chains = _mm256_fnmadd_ps(low, _mm256_cvtepi32_ps(lows), chains);
    }
    return chains;
}

template <format F>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256
dot_eight(const typename F::block* b, const q8_block& x, __m256 chains, [[maybe_unused]] __m256 taken) {
    if constexpr (avx2_form<F>::kind == code_kind::small)
        return dot_small<F>(b, x, chains, taken);
    else if constexpr (avx2_form<F>::kind == code_kind::wide)
        return dot_wide<F>(b, x, chains, taken);
    else
        return dot_scaled<F>(b, x, chains, taken);
}

/// Blocks of F in eight parts.
template <format F> inline constexpr std::size_t blocks_in_eight = 256 / F::block_size;

/// The eight parts that begin at a row's block `at`; those past the row's end are copied, with zeros for the rest.
template <format F>
inline const typename F::block* whole_eight(const typename F::block* row, std::size_t at, std::size_t blocks,
                                            typename F::block* room) {
    if (at + blocks_in_eight<F> <= blocks) return row + at;
    std::memset(static_cast<void*>(room), 0, blocks_in_eight<F> * sizeof *room);
    std::memcpy(static_cast<void*>(room), row + at, (blocks - at) * sizeof *room);
    return room;
}

/// ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)).
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline float sum_chains(__m256 chains) {
    const __m256 pairs = _mm256_hadd_ps(chains, chains);
    const __m256 fours = _mm256_hadd_ps(pairs, pairs);
    return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(fours), _mm256_extractf128_ps(fours, 1)));
}

} // namespace detail

/// The most rows that are multiplied side by side.
inline constexpr std::size_t most_streams = 4;

/// y[i] = row i times a token, for `count` (at most most_streams) rows of `blocks` blocks; row i begins i * `apart`
/// blocks after `row`. `end` is where the weights end: before it, what lies behind a row may be read. One row after
/// another is one stream from memory, and a processor fetches several streams faster than one: callers take rows that
/// lie far apart.
template <format F>
    requires has_avx2_form<F>
[[gnu::target("avx2,fma,f16c")]] void dot_q8_avx2(const typename F::block* row, std::size_t apart, std::size_t count,
                                                  std::size_t blocks, const typename F::block* end, const q8_block* x,
                                                  float* y) {
    constexpr std::size_t step = detail::blocks_in_eight<F>;
    __m256 chains[most_streams];
    for (__m256& chain : chains) chain = _mm256_setzero_ps();
    for (std::size_t b = 0; b < blocks; b += step, ++x) {
        const int left = blocks - b < step ? static_cast<int>(blocks - b) : 8;
        const __m256 taken =
            _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(left), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
#pragma GCC unroll 1
        for (std::size_t i = 0; i < count; ++i) {
            const typename F::block* at = row + i * apart;
            // What lies ahead is wanted, whatever row it belongs to.
            const char* ahead = reinterpret_cast<const char*>(at + b) + 1024;
#pragma GCC unroll 8
            for (std::size_t line = 0; line < sizeof(typename F::block) * step; line += 64)
                _mm_prefetch(ahead + line, _MM_HINT_T0);
            typename F::block room[step];
            const bool whole = static_cast<std::size_t>(end - at) >= b + step;
            at = whole ? at + b : detail::whole_eight<F>(at, b, blocks, room);
            chains[i] = detail::dot_eight<F>(at, *x, chains[i], taken);
        }
    }
    for (std::size_t i = 0; i < count; ++i) y[i] = detail::sum_chains(chains[i]);
}

} // namespace tern::kernel::cpu

#endif
