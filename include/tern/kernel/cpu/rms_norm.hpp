// rms_norm and embed with AVX2, for every format of the weights.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cmath>
#include <cstddef>

#include <tern/kernel/cpu/decode.hpp>
#include <tern/kernel/cpu/decode_k.hpp>
#include <tern/kernel/cpu/elementwise.hpp>
#include <tern/kernel/embed.hpp>
#include <tern/kernel/rms_norm.hpp>

namespace tern::kernel::cpu {

namespace detail {

/// The sum of squares in double precision: f32 squares would overflow above 1.8e19.
[[gnu::target("avx2,fma,f16c")]] inline double squares(const float* x, std::size_t cols) {
    __m256d sums[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()};
    std::size_t i = 0;
    for (; i + 16 <= cols; i += 16) {
#pragma GCC unroll 4
        for (std::size_t j = 0; j < 4; ++j) {
            const __m256d v = _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4 * j));
            sums[j] = _mm256_fmadd_pd(v, v, sums[j]);
        }
    }
    const __m256d sum = _mm256_add_pd(_mm256_add_pd(sums[0], sums[1]), _mm256_add_pd(sums[2], sums[3]));
    const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(sum), _mm256_extractf128_pd(sum, 1));
    double total = _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
    for (; i < cols; ++i) total = __builtin_fma(double(x[i]), double(x[i]), total);
    return total;
}

/// y = (x * factor) * w, the factor and the products in f32.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void
scale_stretch(const float* x, float factor, const float* w, std::size_t cols, float* y) {
    const __m256 factors = _mm256_set1_ps(factor);
    for (std::size_t i = 0; i < cols; i += 8) {
        const part p = part_at(i, cols);
        const __m256 scaled = _mm256_mul_ps(p.load(x), factors);
        p.store(y, w ? _mm256_mul_ps(scaled, p.load(w)) : scaled);
    }
}

} // namespace detail

/// Relative error below 3e-7 against the reference, where x times the factor is a normal number.
template <format F>
[[gnu::target("avx2,fma,f16c")]] void rms_norm_avx2(const rms_norm::args& a, std::size_t begin, std::size_t end) {
    constexpr std::size_t stretch_blocks = F::block_size < 256 ? 256 / F::block_size : 1;
    for (std::size_t r = begin; r < end; ++r) {
        const float* x = a.x + r * a.x_stride;
        float* y = a.y + r * a.y_stride;
        const double mean = detail::squares(x, a.cols) / static_cast<double>(a.cols);
        const double exact = 1 / std::sqrt(mean + double(a.eps));
        const float factor = static_cast<float>(exact);
        if (!(exact > 1e-37 && exact < 1e37)) { // not a normal f32: huge or tiny numbers, or a NaN
            rms_norm::reference<F>(a, r, r + 1);
            continue;
        }
        if (!a.weight) {
            detail::scale_stretch(x, factor, nullptr, a.cols, y);
            continue;
        }
        const auto* weight = reinterpret_cast<const typename F::block*>(a.weight);
        const std::size_t blocks = a.cols / F::block_size;
        alignas(32) float w[stretch_blocks * F::block_size];
        for (std::size_t b = 0; b < blocks; b += stretch_blocks) {
            const std::size_t count = blocks - b < stretch_blocks ? blocks - b : stretch_blocks;
            avx2_decoder<F>::run(weight + b, count, w);
            detail::scale_stretch(x + b * F::block_size, factor, w, count * F::block_size, y + b * F::block_size);
        }
    }
}

/// The same bits as the reference.
template <format F>
[[gnu::target("avx2,fma,f16c")]] void embed_avx2(const embed::args& a, std::size_t begin, std::size_t end) {
    const std::size_t blocks = a.cols / F::block_size;
    const auto* all = reinterpret_cast<const typename F::block*>(a.table);
    const __m256 scale = _mm256_set1_ps(a.scale);
    for (std::size_t t = begin; t < end; ++t) {
        float* out = a.out + t * a.out_stride;
        avx2_decoder<F>::run(all + static_cast<std::size_t>(a.ids[t]) * blocks, blocks, out);
        if (a.scale == 1) continue;
        for (std::size_t i = 0; i < a.cols; i += 8) {
            const detail::part part = detail::part_at(i, a.cols);
            part.store(out, _mm256_mul_ps(part.load(out), scale));
        }
    }
}

} // namespace tern::kernel::cpu

#endif
