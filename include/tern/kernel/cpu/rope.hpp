// rope with AVX2.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>

#include <tern/kernel/cpu/elementwise.hpp>
#include <tern/kernel/rope.hpp>

namespace tern::kernel::cpu {

namespace detail {

/// a c - b s and b c + a s of one pair, with the same fused operation as the vectors.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void turn(float a, float b, float c, float s, float& first,
                                                                      float& second) {
    first = __builtin_fmaf(a, c, -(b * s));
    second = __builtin_fmaf(b, c, a * s);
}

[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void
turn_halves(const float* x, const float* cos, const float* sin, std::size_t pairs, float* y) {
    for (std::size_t i = 0; i < pairs; i += 8) {
        const part p = part_at(i, pairs);
        const __m256 a = p.load(x), b = p.load(x + pairs), c = p.load(cos), s = p.load(sin);
        p.store(y, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
        p.store(y + pairs, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
    }
}

[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void
turn_neighbours(const float* x, const float* cos, const float* sin, std::size_t pairs, float* y) {
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    const std::size_t whole = pairs / 4 * 4;
    for (std::size_t i = 0; i < whole; i += 4) {
        const __m256 v = _mm256_loadu_ps(x + 2 * i);
        const __m256 c = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(cos + i)), twice);
        const __m256 s = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(sin + i)), twice);
        const __m256 swapped = _mm256_permute_ps(v, 0xB1); // b a b a ...
        // Even lanes a c - b s, odd lanes b c + a s.
        _mm256_storeu_ps(y + 2 * i, _mm256_fmaddsub_ps(v, c, _mm256_mul_ps(swapped, s)));
    }
    for (std::size_t i = whole; i < pairs; ++i) {
        const float a = x[2 * i], b = x[2 * i + 1];
        turn(a, b, cos[i], sin[i], y[2 * i], y[2 * i + 1]);
    }
}

} // namespace detail

/// Error below 1.2e-7 of |a| + |b| of a pair.
[[gnu::target("avx2,fma,f16c")]] inline void rope_avx2(const rope::args& a, std::size_t begin, std::size_t end) {
    const std::size_t pairs = a.dims / 2;
    for (std::size_t item = begin; item < end; ++item) {
        const std::size_t t = item / a.heads, h = item % a.heads;
        const float* x = a.x + t * a.x_stride + h * a.head_dim;
        float* y = a.y + t * a.y_stride + h * a.head_dim;
        const float* cos = a.cos + t * pairs;
        const float* sin = a.sin + t * pairs;
        if (a.pairing.value == rope_pairing::adjacent)
            detail::turn_neighbours(x, cos, sin, pairs, y);
        else
            detail::turn_halves(x, cos, sin, pairs, y);
        for (std::size_t i = a.dims; i < a.head_dim; ++i) y[i] = x[i];
    }
}

} // namespace tern::kernel::cpu

#endif
