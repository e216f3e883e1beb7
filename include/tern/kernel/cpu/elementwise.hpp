// gated, soft_cap, add, scale_rows and combine with AVX2.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>

#include <tern/kernel/cpu/math.hpp>
#include <tern/kernel/elementwise.hpp>
#include <tern/kernel/router.hpp>

namespace tern::kernel::cpu {

namespace detail {

/// Eight numbers of a row from `i` on, fewer at its end: the rest is 0 and is not read. Whole vectors and the last part
/// go through the same arithmetic, so where a row ends changes nothing.
struct part {
    std::size_t i;
    std::size_t count; // 1 .. 8

    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] __m256i mask() const {
        return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                                  _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    }
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] __m256 load(const float* row) const {
        return count == 8 ? _mm256_loadu_ps(row + i) : _mm256_maskload_ps(row + i, mask());
    }
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] void store(float* row, __m256 value) const {
        if (count == 8)
            _mm256_storeu_ps(row + i, value);
        else
            _mm256_maskstore_ps(row + i, mask(), value);
    }
};

[[gnu::always_inline]] inline part part_at(std::size_t i, std::size_t cols) { return {i, cols - i < 8 ? cols - i : 8}; }

/// g / (1 + e^-ag).
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256 swish(__m256 g, __m256 minus_alpha) {
    const __m256 e = exp8(_mm256_mul_ps(minus_alpha, g));
    return _mm256_div_ps(g, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
}

/// g/2 (1 + tanh u) = g / (1 + e^-2u), which keeps its precision where tanh is near -1.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256 gelu(__m256 g) {
    const __m256 cube = _mm256_mul_ps(_mm256_mul_ps(g, g), g);
    const __m256 u =
        _mm256_mul_ps(_mm256_set1_ps(-2 * 0.79788456080286536f), _mm256_fmadd_ps(_mm256_set1_ps(0.044715f), cube, g));
    return _mm256_div_ps(g, _mm256_add_ps(_mm256_set1_ps(1.0f), exp8(u)));
}

} // namespace detail

/// Error against the reference: below 2e-6 of the result plus 1e-12 (far out on the negative side, where the result is
/// next to 0, the relative error grows with the exponent). gelu_erf is computed by the reference.
[[gnu::target("avx2,fma,f16c")]] inline void gated_avx2(const gated::args& a, std::size_t begin, std::size_t end) {
    if (a.activation == activation_kind::gelu_erf) return gated::reference<no_format>(a, begin, end);
    const bool clamped = a.activation == activation_kind::silu_clamped;
    const __m256 minus_alpha = _mm256_set1_ps(clamped ? -a.alpha : -1.0f);
    const __m256 limit = _mm256_set1_ps(a.limit), minus_limit = _mm256_set1_ps(-a.limit), one = _mm256_set1_ps(1.0f);
    for (std::size_t r = begin; r < end; ++r)
        for (std::size_t i = 0; i < a.cols; i += 8) {
            const detail::part part = detail::part_at(i, a.cols);
            __m256 g = part.load(a.gate + r * a.gate_stride), u = part.load(a.up + r * a.up_stride);
            if (clamped) { // of a NaN min and max keep the second operand
                g = _mm256_min_ps(limit, g);
                u = _mm256_add_ps(_mm256_min_ps(limit, _mm256_max_ps(minus_limit, u)), one);
            }
            const __m256 act =
                a.activation == activation_kind::gelu_tanh ? detail::gelu(g) : detail::swish(g, minus_alpha);
            part.store(a.y + r * a.y_stride, _mm256_mul_ps(act, u));
        }
}

/// Relative error below 1e-6.
[[gnu::target("avx2,fma,f16c")]] inline void soft_cap_avx2(const soft_cap::args& a, std::size_t begin,
                                                           std::size_t end) {
    const __m256 cap = _mm256_set1_ps(a.cap);
    for (std::size_t r = begin; r < end; ++r)
        for (std::size_t i = 0; i < a.cols; i += 8) {
            const detail::part part = detail::part_at(i, a.cols);
            const __m256 x = _mm256_div_ps(part.load(a.x + r * a.x_stride), cap);
            part.store(a.y + r * a.y_stride, _mm256_mul_ps(cap, tanh8(x)));
        }
}

/// The same bits as the reference.
[[gnu::target("avx2,fma,f16c")]] inline void add_avx2(const add::args& a, std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r)
        for (std::size_t i = 0; i < a.cols; i += 8) {
            const detail::part part = detail::part_at(i, a.cols);
            part.store(a.y + r * a.y_stride,
                       _mm256_add_ps(part.load(a.a + r * a.a_stride), part.load(a.b + r * a.b_stride)));
        }
}

/// The same bits as the reference.
[[gnu::target("avx2,fma,f16c")]] inline void scale_rows_avx2(const scale_rows::args& a, std::size_t begin,
                                                             std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
        const __m256 factor = _mm256_set1_ps(a.factors[r]);
        for (std::size_t i = 0; i < a.cols; i += 8) {
            const detail::part part = detail::part_at(i, a.cols);
            part.store(a.y + r * a.y_stride, _mm256_mul_ps(factor, part.load(a.x + r * a.x_stride)));
        }
    }
}

/// Fused additions in f32, in the order of the ranks.
[[gnu::target("avx2,fma,f16c")]] inline void combine_avx2(const combine::args& a, std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t)
        for (std::size_t i = 0; i < a.cols; i += 8) {
            const detail::part part = detail::part_at(i, a.cols);
            __m256 sum = _mm256_setzero_ps();
            for (std::size_t r = 0; r < a.k; ++r) {
                const std::size_t row = static_cast<std::size_t>(a.row_of[t * a.k + r]);
                sum = _mm256_fmadd_ps(_mm256_set1_ps(a.weights[t * a.k + r]), part.load(a.y + row * a.y_stride), sum);
            }
            part.store(a.out + t * a.out_stride, sum);
        }
}

} // namespace tern::kernel::cpu

#endif
