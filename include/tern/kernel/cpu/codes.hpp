// The whole numbers in blocks, 32 at a time, for the integer products with AVX2: integer_form in registers.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include <tern/format/blocks.hpp>
#include <tern/format/iq4.hpp>
#include <tern/format/mxfp4.hpp>
#include <tern/kernel/cpu/decode.hpp>

namespace tern::kernel::cpu {

/// How eight parts (256 numbers) of a row are multiplied.
enum class code_kind {
    small,  ///< codes 0..31, stored `offset` too high, one scale a part
    scaled, ///< codes 0..63, stored `offset` too high, a whole scale for 16 numbers and one f32 scale for all
    wide,   ///< codes -128..127, one scale a part
};

/// The f32 scales of eight parts, and their lows where the format has some.
struct part_scales {
    __m256 scale;
    __m256 low;
};

/// Specialised for each format with an integer form:
///
///     static constexpr code_kind kind;
///     static constexpr int offset, lows;                              // lows as in integer_form
///     static constexpr int most;                                      // the largest code or its negative
///     template <int Part> static __m256i codes(const block* eight);   // the codes of part 0..7, a byte each
///     static part_scales scales(const block* eight);                  // small, wide
///     static __m256i group_scales(const block* one);                  // scaled: sixteen of 16 bits
///     static __m256i group_lows(const block* one);                    // scaled, where lows is 2: likewise
template <class F> struct avx2_form;

template <class F>
concept has_avx2_form = requires { avx2_form<F>::kind; };

namespace detail {

/// The 4-bit codes of a block of 32: the low halves of 16 bytes, then the high ones.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256i nibbles(const unsigned char* qs) {
    const __m256i twice = _mm256_broadcastsi128_si256(load16(qs));
    return _mm256_and_si256(_mm256_srlv_epi64(twice, _mm256_setr_epi64x(0, 0, 4, 4)), _mm256_set1_epi8(15));
}

/// 16 where a bit of 32 is set.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256i fifth_bits_of(std::uint32_t bits) {
    const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(bits)),
                                               _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, //
                                                                2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3));
    const __m256i select = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(spread, select), select), _mm256_set1_epi8(16));
}

/// Field d of eight blocks as floats.
template <class Block> [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256 eight_scales(const Block* b) {
    const auto d = [](const Block& block) { return static_cast<short>(block.d.get()); };
    return _mm256_cvtph_ps(_mm_setr_epi16(d(b[0]), d(b[1]), d(b[2]), d(b[3]), d(b[4]), d(b[5]), d(b[6]), d(b[7])));
}

/// Field m likewise, negated.
template <class Block> [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256 eight_lows(const Block* b) {
    const auto m = [](const Block& block) { return static_cast<short>(block.m.get()); };
    return _mm256_cvtph_ps(
        _mm_xor_si128(_mm_setr_epi16(m(b[0]), m(b[1]), m(b[2]), m(b[3]), m(b[4]), m(b[5]), m(b[6]), m(b[7])),
                      _mm_set1_epi16(static_cast<short>(0x8000))));
}

template <int Offset, int Lows> struct small_form {
    static constexpr code_kind kind = code_kind::small;
    static constexpr int offset = Offset;
    static constexpr int lows = Lows;
};

} // namespace detail

template <> struct avx2_form<q4_0> : detail::small_form<8, 0> {
    static constexpr int most = 15;
    template <int Part>
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256i codes(const q4_0::block* b) {
        return detail::nibbles(b[Part].qs);
    }
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static part_scales scales(const q4_0::block* b) {
        return {detail::eight_scales(b), _mm256_setzero_ps()};
    }
};

template <> struct avx2_form<q4_1> : detail::small_form<0, 1> {
    static constexpr int most = 15;
    template <int Part>
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256i codes(const q4_1::block* b) {
        return detail::nibbles(b[Part].qs);
    }
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static part_scales scales(const q4_1::block* b) {
        return {detail::eight_scales(b), detail::eight_lows(b)};
    }
};

template <> struct avx2_form<q5_0> : detail::small_form<16, 0> {
    static constexpr int most = 31;
    template <int Part>
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256i codes(const q5_0::block* b) {
        return _mm256_or_si256(detail::nibbles(b[Part].qs), detail::fifth_bits_of(b[Part].qh.get()));
    }
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static part_scales scales(const q5_0::block* b) {
        return {detail::eight_scales(b), _mm256_setzero_ps()};
    }
};

template <> struct avx2_form<q5_1> : detail::small_form<0, 1> {
    static constexpr int most = 31;
    template <int Part>
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256i codes(const q5_1::block* b) {
        return _mm256_or_si256(detail::nibbles(b[Part].qs), detail::fifth_bits_of(b[Part].qh.get()));
    }
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static part_scales scales(const q5_1::block* b) {
        return {detail::eight_scales(b), detail::eight_lows(b)};
    }
};

template <> struct avx2_form<mxfp4> : detail::small_form<16, 0> {
    static constexpr int most = 28;
    template <int Part>
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256i codes(const mxfp4::block* b) {
        const __m256i levels = _mm256_broadcastsi128_si256(
            _mm_setr_epi8(16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4)); // 16 + twice the value
        return _mm256_shuffle_epi8(levels, detail::nibbles(b[Part].qs));
    }
    /// Half of 2^(e - 127): below 2^-126 it is a denormal; 255 stands for NaN.
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static part_scales scales(const mxfp4::block* b) {
        const __m256i e = _mm256_setr_epi32(b[0].e, b[1].e, b[2].e, b[3].e, b[4].e, b[5].e, b[6].e, b[7].e);
        const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
        const __m256i tiny = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
        const __m256i number = _mm256_blendv_epi8(normal, tiny, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e));
        const __m256i none = _mm256_cmpeq_epi32(e, _mm256_set1_epi32(255));
        const __m256i bits = _mm256_blendv_epi8(number, _mm256_set1_epi32(0x7FC00000), none);
        return {_mm256_castsi256_ps(bits), _mm256_setzero_ps()};
    }
};

template <> struct avx2_form<q8_0> {
    static constexpr int most = 128;
    static constexpr code_kind kind = code_kind::wide;
    static constexpr int lows = 0;
    template <int Part>
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256i codes(const q8_0::block* b) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b[Part].qs));
    }
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static part_scales scales(const q8_0::block* b) {
        return {detail::eight_scales(b), _mm256_setzero_ps()};
    }
};

template <> struct avx2_form<iq4_nl> {
    static constexpr int most = 128;
    static constexpr code_kind kind = code_kind::wide;
    static constexpr int lows = 0;
    template <int Part>
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256i codes(const iq4_nl::block* b) {
        const __m256i levels = _mm256_broadcastsi128_si256(
            _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113));
        return _mm256_shuffle_epi8(levels, detail::nibbles(b[Part].qs));
    }
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static part_scales scales(const iq4_nl::block* b) {
        return {detail::eight_scales(b), _mm256_setzero_ps()};
    }
};

} // namespace tern::kernel::cpu

#endif
