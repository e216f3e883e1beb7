// y = x W^T + b with AVX2, for every format: a few rows at a time are decoded into the first-level cache, a stretch of
// columns after another, and multiplied with one to three tokens at a time.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <type_traits>

#include <tern/kernel/cpu/decode.hpp>
#include <tern/kernel/cpu/decode_k.hpp>
#include <tern/kernel/linear.hpp>

namespace tern::kernel::cpu {

namespace detail {

/// The eight sums of four accumulators, each ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)).
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m128 sum_lanes(__m256 a, __m256 b, __m256 c, __m256 d) {
    const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}

/// The first `count` (below 8) lanes.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256i first_lanes(std::size_t count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/// y[t, r] (+)= w[r] . x[t] over `cols` columns. Lane i of one accumulator takes the columns c with c % 8 == i in order,
/// whatever Rows and Tokens are: so the result of a row and a token is the same in every tile.
template <std::size_t Rows, std::size_t Tokens>
[[gnu::target("avx2,fma,f16c")]] void multiply(const float* w, std::size_t w_stride, const float* x, std::size_t x_stride,
                                               std::size_t cols, float* y, std::size_t y_stride, bool first) {
    static_assert(Rows == 1 || Rows % 4 == 0);
    __m256 sums[Rows][Tokens];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 8
        for (std::size_t t = 0; t < Tokens; ++t) sums[r][t] = _mm256_setzero_ps();
    std::size_t c = 0;
    for (; c + 8 <= cols; c += 8) {
        __m256 xs[Tokens];
#pragma GCC unroll 8
        for (std::size_t t = 0; t < Tokens; ++t) xs[t] = _mm256_loadu_ps(x + t * x_stride + c);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < Rows; ++r) {
            const __m256 ws = _mm256_loadu_ps(w + r * w_stride + c);
#pragma GCC unroll 8
            for (std::size_t t = 0; t < Tokens; ++t) sums[r][t] = _mm256_fmadd_ps(ws, xs[t], sums[r][t]);
        }
    }
    if (c < cols) {
        const __m256i mask = first_lanes(cols - c);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < Rows; ++r) {
            const __m256 ws = _mm256_maskload_ps(w + r * w_stride + c, mask);
#pragma GCC unroll 8
            for (std::size_t t = 0; t < Tokens; ++t)
                sums[r][t] = _mm256_fmadd_ps(ws, _mm256_maskload_ps(x + t * x_stride + c, mask), sums[r][t]);
        }
    }
#pragma GCC unroll 8
    for (std::size_t t = 0; t < Tokens; ++t) {
        float* to = y + t * y_stride;
        if constexpr (Rows == 1) {
            const float sum = _mm_cvtss_f32(sum_lanes(sums[0][t], sums[0][t], sums[0][t], sums[0][t]));
            *to = first ? sum : *to + sum;
        } else {
#pragma GCC unroll 8
            for (std::size_t r = 0; r < Rows; r += 4) {
                const __m128 sum = sum_lanes(sums[r][t], sums[r + 1][t], sums[r + 2][t], sums[r + 3][t]);
                _mm_storeu_ps(to + r, first ? sum : _mm_add_ps(_mm_loadu_ps(to + r), sum));
            }
        }
    }
}

/// All tokens times `rows` rows of which Rows are taken at a time.
template <std::size_t Rows>
[[gnu::target("avx2,fma,f16c")]] void multiply_all(const float* w, std::size_t w_stride, std::size_t rows, const float* x,
                                                   std::size_t x_stride, std::size_t tokens, std::size_t cols, float* y,
                                                   std::size_t y_stride, bool first) {
    if (tokens == 1 && Rows == 4 && rows == 8) { // more chains of additions at once
        multiply<8, 1>(w, w_stride, x, x_stride, cols, y, y_stride, first);
        return;
    }
    for (std::size_t t = 0; t < tokens;) {
        const std::size_t take = tokens - t < 3 ? tokens - t : 3;
        for (std::size_t r = 0; r < rows; r += Rows) {
            const float* wr = w + r * w_stride;
            const float* xt = x + t * x_stride;
            float* yt = y + t * y_stride + r;
            if (take == 3) multiply<Rows, 3>(wr, w_stride, xt, x_stride, cols, yt, y_stride, first);
            else if (take == 2) multiply<Rows, 2>(wr, w_stride, xt, x_stride, cols, yt, y_stride, first);
            else multiply<Rows, 1>(wr, w_stride, xt, x_stride, cols, yt, y_stride, first);
        }
        t += take;
    }
}

} // namespace detail

/// The sum over the columns is taken in stretches of about 512: within one, eight chains of fused additions; the
/// stretches are added up in order. That order depends on the format alone, not on tokens, rows or how they are split.
/// Activations stay f32. Error: at most about 1e-6 of the sum of |w x|.
template <format F>
[[gnu::target("avx2,fma,f16c")]] void linear_avx2(const linear::args& a, std::size_t begin, std::size_t end) {
    constexpr std::size_t stretch_blocks = F::block_size < 512 ? 512 / F::block_size : 1;
    constexpr std::size_t stretch = stretch_blocks * F::block_size;
    constexpr std::size_t most = stretch <= 1024 ? 8 : 1; // rows in the buffer
    constexpr bool plain = std::is_same_v<F, f32>;
    if (a.tokens == 0) return;

    const std::size_t blocks = a.cols / F::block_size;
    const auto* all = reinterpret_cast<const typename F::block*>(a.weights);
    const bool in_place = plain && a.tokens <= 3; // a copy pays where it is read again
    alignas(32) float buffer[most * stretch];
    for (std::size_t r = begin; r < end;) {
        const std::size_t left = end - r;
        const std::size_t rows = left < most ? (left >= 4 && most >= 4 ? 4 : 1) : most;
        for (std::size_t b = 0; b < blocks || b == 0; b += stretch_blocks) {
            const std::size_t count = blocks - b < stretch_blocks ? blocks - b : stretch_blocks;
            const float* w = buffer;
            std::size_t w_stride = stretch;
            if (in_place) {
                w = reinterpret_cast<const float*>(a.weights) + r * a.cols + b;
                w_stride = a.cols;
            } else {
                for (std::size_t i = 0; i < rows; ++i)
                    avx2_decoder<F>::run(all + (r + i) * blocks + b, count, buffer + i * stretch);
            }
            const float* x = a.x + b * F::block_size;
            if (rows == 1)
                detail::multiply_all<1>(w, w_stride, 1, x, a.x_stride, a.tokens, count * F::block_size, a.y + r, a.y_stride, b == 0);
            else
                detail::multiply_all<4>(w, w_stride, rows, x, a.x_stride, a.tokens, count * F::block_size, a.y + r, a.y_stride, b == 0);
        }
        if (a.bias)
            for (std::size_t t = 0; t < a.tokens; ++t)
                for (std::size_t i = 0; i < rows; ++i) a.y[t * a.y_stride + r + i] += a.bias[r + i];
        r += rows;
    }
}

} // namespace tern::kernel::cpu

#endif
