// The whole numbers in blocks of k-quants, 32 at a time, for the integer products with AVX2.
#pragma once

#if defined(__x86_64__)

#include <tern/format/k_quants.hpp>
#include <tern/kernel/cpu/codes.hpp>
#include <tern/kernel/cpu/decode_k.hpp>

namespace tern::kernel::cpu {

namespace detail {

[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256i load32(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

/// The bits of `mask` of each byte, moved up by `Up` places, or down where it is negative; `mask` is that of the
/// result.
template <int Up> [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256i moved(__m256i bytes, int mask) {
    const __m256i keep = _mm256_set1_epi8(static_cast<char>(mask));
    if constexpr (Up > 0)
        return _mm256_and_si256(_mm256_slli_epi16(bytes, Up), keep);
    else if constexpr (Up < 0)
        return _mm256_and_si256(_mm256_srli_epi16(bytes, -Up), keep);
    else
        return _mm256_and_si256(bytes, keep);
}

/// The scales and lows of the eight groups of a q4_k or q5_k.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline part_scales
eight_groups(const tern::detail::packed_scales& packed, std::uint16_t d, std::uint16_t dmin) {
    std::uint32_t a, b, c;
    __builtin_memcpy(&a, packed.raw, 4);
    __builtin_memcpy(&b, packed.raw + 4, 4);
    __builtin_memcpy(&c, packed.raw + 8, 4);
    const std::uint32_t later = (c & 0x0F0F0F0Fu) | ((a >> 2) & 0x30303030u);
    const std::uint32_t later_lows = ((c >> 4) & 0x0F0F0F0Fu) | ((b >> 2) & 0x30303030u);
    return {_mm256_mul_ps(broadcast_half(d), eight_floats(a & 0x3F3F3F3Fu, later)),
            _mm256_mul_ps(broadcast_half(dmin), eight_floats(b & 0x3F3F3F3Fu, later_lows))};
}

template <int Offset, int Lows> struct scaled_form {
    static constexpr code_kind kind = code_kind::scaled;
    static constexpr int offset = Offset;
    static constexpr int lows = Lows;
};

} // namespace detail

template <> struct avx2_form<q4_k> : detail::small_form<0, 1> {
    static constexpr int most = 15;
    template <int Part>
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256i codes(const q4_k::block* b) {
        return detail::moved<-(Part % 2 * 4)>(detail::load32(b->qs + Part / 2 * 32), 15);
    }
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static part_scales scales(const q4_k::block* b) {
        return detail::eight_groups(b->scales, b->d.get(), b->dmin.get());
    }
};

template <> struct avx2_form<q5_k> : detail::small_form<0, 1> {
    static constexpr int most = 31;
    template <int Part>
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256i codes(const q5_k::block* b) {
        return _mm256_or_si256(detail::moved<-(Part % 2 * 4)>(detail::load32(b->qs + Part / 2 * 32), 15),
                               detail::moved<4 - Part>(detail::load32(b->qh), 16));
    }
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static part_scales scales(const q5_k::block* b) {
        return detail::eight_groups(b->scales, b->d.get(), b->dmin.get());
    }
};

template <> struct avx2_form<q2_k> : detail::scaled_form<0, 2> {
    static constexpr int most = 3;
    template <int Part>
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256i codes(const q2_k::block* b) {
        return detail::moved<-(Part % 4 * 2)>(detail::load32(b->qs + Part / 4 * 32), 3);
    }
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256i group_scales(const q2_k::block* b) {
        return _mm256_cvtepu8_epi16(detail::bits_from<0>(detail::load16(b->scales), 15));
    }
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256i group_lows(const q2_k::block* b) {
        return _mm256_cvtepu8_epi16(detail::bits_from<4>(detail::load16(b->scales), 15));
    }
};

template <> struct avx2_form<q3_k> : detail::scaled_form<4, 0> {
    static constexpr int most = 7;
    template <int Part>
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256i codes(const q3_k::block* b) {
        return _mm256_or_si256(detail::moved<-(Part % 4 * 2)>(detail::load32(b->qs + Part / 4 * 32), 3),
                               detail::moved<2 - Part>(detail::load32(b->hmask), 4));
    }
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256i group_scales(const q3_k::block* b) {
        long long raw;
        int top;
        __builtin_memcpy(&raw, b->scales, 8);
        __builtin_memcpy(&top, b->scales + 8, 4);
        const __m128i low = detail::bits_from<0>(_mm_set_epi64x(raw >> 4, raw), 15);
        const __m128i high = detail::bits_from<0>(_mm_srlv_epi32(_mm_set1_epi32(top), _mm_setr_epi32(0, 2, 4, 6)), 3);
        const __m128i both = _mm_or_si128(low, _mm_slli_epi16(high, 4));
        return _mm256_cvtepi8_epi16(_mm_sub_epi8(both, _mm_set1_epi8(32)));
    }
};

template <> struct avx2_form<q6_k> : detail::scaled_form<32, 0> {
    static constexpr int most = 63;
    template <int Part>
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256i codes(const q6_k::block* b) {
        const __m256i low = detail::load32(b->ql + Part / 4 * 64 + Part % 2 * 32);
        const __m256i high = detail::load32(b->qh + Part / 4 * 32);
        return _mm256_or_si256(detail::moved<-(Part % 4 / 2 * 4)>(low, 15),
                               detail::moved<4 - Part % 4 * 2>(high, 0x30));
    }
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256i group_scales(const q6_k::block* b) {
        return _mm256_cvtepi8_epi16(detail::load16(b->scales));
    }
};

} // namespace tern::kernel::cpu

#endif
