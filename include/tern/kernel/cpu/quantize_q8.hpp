// Activations to 8 bits with AVX2: the bits of the reference.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <limits>

#include <tern/kernel/quantize_q8.hpp>

namespace tern::kernel::cpu {

namespace detail {

/// The largest of eight whole numbers.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline int largest_of(__m256i v) {
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xB1)));
}

/// Group g of a block that was zero.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void quantize_group(const float* x, std::size_t g,
                                                                                q8_block& y) {
    const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
    __m256 v[4];
    __m256i most = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        v[i] = _mm256_loadu_ps(x + 8 * i);
        most = _mm256_max_epi32(most, _mm256_and_si256(magnitude, _mm256_castps_si256(v[i])));
    }
    const int peak = largest_of(most);
    if (peak >= 0x7F800000) {
        y.scale[g] = y.scaled_sum[g] = std::numeric_limits<float>::quiet_NaN();
        return;
    }
    const float largest = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(peak)));
    if (largest < 0x1p-120f) return;
    const __m256 steps = _mm256_set1_ps(127.0f / largest);
    __m256i whole[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) whole[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], steps));
    const __m256i low = _mm256_packs_epi32(whole[0], whole[1]), high = _mm256_packs_epi32(whole[2], whole[3]);
    // Packing works in halves of a register: put the eights in order.
    const __m256i codes =
        _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y.codes + 32 * g), codes);
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i first = _mm256_madd_epi16(low, ones), second = _mm256_madd_epi16(high, ones);
    __m256i sum = _mm256_hadd_epi32(first, second);
    sum = _mm256_hadd_epi32(sum, sum);
    const __m128i both = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    const int a = _mm_cvtsi128_si32(both), b = _mm_extract_epi32(both, 1);
    y.sums[2 * g] = static_cast<std::int16_t>(a);
    y.sums[2 * g + 1] = static_cast<std::int16_t>(b);
    y.scale[g] = largest / 127.0f;
    y.scaled_sum[g] = y.scale[g] * static_cast<float>(a + b);
}

} // namespace detail

[[gnu::target("avx2,fma,f16c")]] inline void quantize_q8_avx2(const quantize_q8::args& a, std::size_t begin,
                                                              std::size_t end) {
    const std::size_t blocks = q8_blocks(a.cols);
    for (std::size_t t = begin; t < end; ++t)
        for (std::size_t b = 0; b < blocks; ++b) {
            const std::size_t left = (a.cols - b * 256) / 32, groups = left < 8 ? left : 8;
            q8_block& y = a.y[t * blocks + b];
            y = {};
            for (std::size_t g = 0; g < groups; ++g)
                detail::quantize_group(a.x + t * a.x_stride + b * 256 + g * 32, g, y);
        }
}

} // namespace tern::kernel::cpu

#endif
