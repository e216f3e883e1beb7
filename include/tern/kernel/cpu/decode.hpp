// Decoding blocks with AVX2. The values are those of F::decode, bit for bit.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include <tern/format/blocks.hpp>
#include <tern/format/format.hpp>
#include <tern/format/iq4.hpp>
#include <tern/format/mxfp4.hpp>
#include <tern/format/plain.hpp>

namespace tern::kernel::cpu {

/// Decodes `count` blocks of a row. This one inlines F::decode into a function compiled for AVX2, so that the compiler
/// vectorises it where it can; specialised below where writing it by hand pays. A user may specialise it, too.
template <format F> struct avx2_decoder {
    [[gnu::target("avx2,fma,f16c"), gnu::flatten]] static void run(const typename F::block* blocks, std::size_t count,
                                                                   float* out) noexcept {
        for (std::size_t b = 0; b < count; ++b) F::decode(blocks[b], out + b * F::block_size);
    }
};

namespace detail {

/// scale * code for 16 codes with sign.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void scale_signed(__m128i codes, __m256 scale, float* out) {
    const __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes));
    const __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(codes, 8)));
    _mm256_storeu_ps(out, _mm256_mul_ps(scale, low));
    _mm256_storeu_ps(out + 8, _mm256_mul_ps(scale, high));
}

/// scale * code + offset for 16 codes without sign. Fused, which changes nothing: the product is exact.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void scale_offset(__m128i codes, __m256 scale,
                                                                              __m256 offset, float* out) {
    const __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(codes));
    const __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(codes, 8)));
    _mm256_storeu_ps(out, _mm256_fmadd_ps(scale, low, offset));
    _mm256_storeu_ps(out + 8, _mm256_fmadd_ps(scale, high, offset));
}

[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m128i load16(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

/// Bits `shift` and up of each byte, under a mask that keeps what belongs to the byte.
template <int Shift>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m128i bits_from(__m128i bytes, int mask) {
    return _mm_and_si128(_mm_srli_epi16(bytes, Shift), _mm_set1_epi8(static_cast<char>(mask)));
}

/// A broadcast binary16.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256 broadcast_half(std::uint16_t half) {
    return _mm256_cvtph_ps(_mm_set1_epi16(static_cast<short>(half)));
}

/// 16 where bit i (of 16) is set, for byte i.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m128i fifth_bit(std::uint32_t bits) {
    const __m128i spread = _mm_shuffle_epi8(_mm_cvtsi32_si128(static_cast<int>(bits)),
                                            _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));
    const __m128i select = _mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 1, 2, 4, 8, 16, 32, 64, -128);
    return _mm_and_si128(_mm_cmpeq_epi8(_mm_and_si128(spread, select), select), _mm_set1_epi8(16));
}

} // namespace detail

template <> struct avx2_decoder<f32> {
    static void run(const f32::block* blocks, std::size_t count, float* out) noexcept {
        __builtin_memcpy(out, blocks, count * sizeof(float));
    }
};

template <> struct avx2_decoder<f16> {
    [[gnu::target("avx2,fma,f16c")]] static void run(const f16::block* blocks, std::size_t count, float* out) noexcept {
        const std::size_t whole = count / 8 * 8;
        for (std::size_t i = 0; i < whole; i += 8)
            _mm256_storeu_ps(out + i, _mm256_cvtph_ps(detail::load16(blocks + i)));
        for (std::size_t i = whole; i < count; ++i) f16::decode(blocks[i], out + i);
    }
};

template <> struct avx2_decoder<bf16> {
    [[gnu::target("avx2,fma,f16c")]] static void run(const bf16::block* blocks, std::size_t count,
                                                     float* out) noexcept {
        const std::size_t whole = count / 8 * 8;
        for (std::size_t i = 0; i < whole; i += 8) {
            const __m256i wide = _mm256_cvtepu16_epi32(detail::load16(blocks + i));
            _mm256_storeu_ps(out + i, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
        }
        for (std::size_t i = whole; i < count; ++i) bf16::decode(blocks[i], out + i);
    }
};

template <> struct avx2_decoder<q8_0> {
    [[gnu::target("avx2,fma,f16c")]] static void run(const q8_0::block* blocks, std::size_t count,
                                                     float* out) noexcept {
        for (std::size_t b = 0; b < count; ++b, out += 32) {
            const __m256 d = detail::broadcast_half(blocks[b].d.get());
            detail::scale_signed(detail::load16(blocks[b].qs), d, out);
            detail::scale_signed(detail::load16(blocks[b].qs + 16), d, out + 16);
        }
    }
};

template <> struct avx2_decoder<q4_0> {
    [[gnu::target("avx2,fma,f16c")]] static void run(const q4_0::block* blocks, std::size_t count,
                                                     float* out) noexcept {
        const __m128i eight = _mm_set1_epi8(8);
        for (std::size_t b = 0; b < count; ++b, out += 32) {
            const __m256 d = detail::broadcast_half(blocks[b].d.get());
            const __m128i qs = detail::load16(blocks[b].qs);
            detail::scale_signed(_mm_sub_epi8(detail::bits_from<0>(qs, 15), eight), d, out);
            detail::scale_signed(_mm_sub_epi8(detail::bits_from<4>(qs, 15), eight), d, out + 16);
        }
    }
};

template <> struct avx2_decoder<q4_1> {
    [[gnu::target("avx2,fma,f16c")]] static void run(const q4_1::block* blocks, std::size_t count,
                                                     float* out) noexcept {
        for (std::size_t b = 0; b < count; ++b, out += 32) {
            const __m256 d = detail::broadcast_half(blocks[b].d.get()), m = detail::broadcast_half(blocks[b].m.get());
            const __m128i qs = detail::load16(blocks[b].qs);
            detail::scale_offset(detail::bits_from<0>(qs, 15), d, m, out);
            detail::scale_offset(detail::bits_from<4>(qs, 15), d, m, out + 16);
        }
    }
};

template <> struct avx2_decoder<q5_0> {
    [[gnu::target("avx2,fma,f16c")]] static void run(const q5_0::block* blocks, std::size_t count,
                                                     float* out) noexcept {
        const __m128i sixteen = _mm_set1_epi8(16);
        for (std::size_t b = 0; b < count; ++b, out += 32) {
            const __m256 d = detail::broadcast_half(blocks[b].d.get());
            const __m128i qs = detail::load16(blocks[b].qs);
            const std::uint32_t qh = blocks[b].qh.get();
            const __m128i low = _mm_or_si128(detail::bits_from<0>(qs, 15), detail::fifth_bit(qh));
            const __m128i high = _mm_or_si128(detail::bits_from<4>(qs, 15), detail::fifth_bit(qh >> 16));
            detail::scale_signed(_mm_sub_epi8(low, sixteen), d, out);
            detail::scale_signed(_mm_sub_epi8(high, sixteen), d, out + 16);
        }
    }
};

template <> struct avx2_decoder<q5_1> {
    [[gnu::target("avx2,fma,f16c")]] static void run(const q5_1::block* blocks, std::size_t count,
                                                     float* out) noexcept {
        for (std::size_t b = 0; b < count; ++b, out += 32) {
            const __m256 d = detail::broadcast_half(blocks[b].d.get()), m = detail::broadcast_half(blocks[b].m.get());
            const __m128i qs = detail::load16(blocks[b].qs);
            const std::uint32_t qh = blocks[b].qh.get();
            detail::scale_offset(_mm_or_si128(detail::bits_from<0>(qs, 15), detail::fifth_bit(qh)), d, m, out);
            detail::scale_offset(_mm_or_si128(detail::bits_from<4>(qs, 15), detail::fifth_bit(qh >> 16)), d, m,
                                 out + 16);
        }
    }
};

template <> struct avx2_decoder<iq4_nl> {
    [[gnu::target("avx2,fma,f16c")]] static void run(const iq4_nl::block* blocks, std::size_t count,
                                                     float* out) noexcept {
        alignas(16) signed char levels[16];
        for (int i = 0; i < 16; ++i) levels[i] = static_cast<signed char>(iq4_nl::level(i));
        const __m128i table = _mm_load_si128(reinterpret_cast<const __m128i*>(levels));
        for (std::size_t b = 0; b < count; ++b, out += 32) {
            const __m256 d = detail::broadcast_half(blocks[b].d.get());
            const __m128i qs = detail::load16(blocks[b].qs);
            detail::scale_signed(_mm_shuffle_epi8(table, detail::bits_from<0>(qs, 15)), d, out);
            detail::scale_signed(_mm_shuffle_epi8(table, detail::bits_from<4>(qs, 15)), d, out + 16);
        }
    }
};

template <> struct avx2_decoder<mxfp4> {
    [[gnu::target("avx2,fma,f16c")]] static void run(const mxfp4::block* blocks, std::size_t count,
                                                     float* out) noexcept {
        const __m128i table = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
        for (std::size_t b = 0; b < count; ++b, out += 32) {
            // Half of 2^(e - 127): below 2^-126 it is a denormal.
            const int e = blocks[b].e;
            const int bits = e == 255 ? 0x7FC00000 : e < 2 ? 0x00200000 << e : (e - 1) << 23;
            const __m256 half = _mm256_castsi256_ps(_mm256_set1_epi32(bits));
            const __m128i qs = detail::load16(blocks[b].qs);
            detail::scale_signed(_mm_shuffle_epi8(table, detail::bits_from<0>(qs, 15)), half, out);
            detail::scale_signed(_mm_shuffle_epi8(table, detail::bits_from<4>(qs, 15)), half, out + 16);
        }
    }
};

} // namespace tern::kernel::cpu

#endif
