// y = x W^T + b with AVX2, for every format: a few rows at a time are decoded into the first-level cache, a stretch of
// columns after another, and multiplied with one to three tokens at a time.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
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

/// The first `count` (below 8) of eight words of 16 bits; the others are zero.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m128i some_words(const void* from, std::size_t count) {
    std::uint16_t room[8] = {};
    __builtin_memcpy(room, from, (count & 7) * sizeof room[0]);
    return load16(room);
}

/// Plain floats that are multiplied as they lie, eight at a time, or the first few of them and zeros. The values are
/// those of F::decode.
template <class F> struct loaded;
template <> struct loaded<f32> {
    using word = float;
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256 eight(const word* w) {
        return _mm256_loadu_ps(w);
    }
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256 some(const word* w, std::size_t count) {
        return _mm256_maskload_ps(w, first_lanes(count));
    }
};
template <> struct loaded<f16> {
    using word = std::uint16_t;
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256 eight(const word* w) {
        return _mm256_cvtph_ps(load16(w));
    }
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256 some(const word* w, std::size_t count) {
        return _mm256_cvtph_ps(some_words(w, count));
    }
};
template <> struct loaded<bf16> {
    using word = std::uint16_t;
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256 eight(const word* w) {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(w)), 16));
    }
    [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] static __m256 some(const word* w, std::size_t count) {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(some_words(w, count)), 16));
    }
};

template <class F>
concept has_loads = requires { typename loaded<F>::word; };

/// y[t, r] (+)= w[r] . x[t] over `cols` columns. Lane i of one accumulator takes the columns c with c % 8 == i in
/// order, whatever Rows and Tokens are: so the result of a row and a token is the same in every tile.
template <std::size_t Rows, std::size_t Tokens, class F = f32>
[[gnu::target("avx2,fma,f16c")]] void multiply(const typename loaded<F>::word* w, std::size_t w_stride, const float* x,
                                               std::size_t x_stride, std::size_t cols, float* y, std::size_t y_stride,
                                               bool first) {
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
            const __m256 ws = loaded<F>::eight(w + r * w_stride + c);
#pragma GCC unroll 8
            for (std::size_t t = 0; t < Tokens; ++t) sums[r][t] = _mm256_fmadd_ps(ws, xs[t], sums[r][t]);
        }
    }
    if (c < cols) {
        const __m256i mask = first_lanes(cols - c);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < Rows; ++r) {
            const __m256 ws = loaded<F>::some(w + r * w_stride + c, cols - c);
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
[[gnu::target("avx2,fma,f16c")]] void multiply_all(const float* w, std::size_t w_stride, std::size_t rows,
                                                   const float* x, std::size_t x_stride, std::size_t tokens,
                                                   std::size_t cols, float* y, std::size_t y_stride, bool first) {
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
            if (take == 3)
                multiply<Rows, 3>(wr, w_stride, xt, x_stride, cols, yt, y_stride, first);
            else if (take == 2)
                multiply<Rows, 2>(wr, w_stride, xt, x_stride, cols, yt, y_stride, first);
            else
                multiply<Rows, 1>(wr, w_stride, xt, x_stride, cols, yt, y_stride, first);
        }
        t += take;
    }
}

} // namespace detail

/// How linear_avx2 cuts its work for a format.
template <format F> struct linear_tiles {
    static constexpr std::size_t stretch_blocks = F::block_size < 512 ? 512 / F::block_size : 1;
    static constexpr std::size_t stretch = stretch_blocks * F::block_size; // columns decoded at a time
    static constexpr std::size_t most_rows = stretch <= 1024 ? 8 : 1;      // rows decoded at a time
    static constexpr std::size_t few_tokens = 32; // up to here the weights are read once, row after row
    static constexpr std::size_t token_block =
        stretch <= 1024 ? 48 : 3; // above, this many are packed and stay in cache

    /// How many of `left` rows to take together.
    static constexpr std::size_t take(std::size_t left) {
        if (left >= most_rows) return most_rows;
        return left >= 4 && most_rows >= 4 ? 4 : 1;
    }
};

namespace detail {

/// Rows r .. r + rows - 1 times `tokens` tokens over the stretch that begins with block b; x is the tokens' first
/// number in it, y their first result.
template <format F>
[[gnu::target("avx2,fma,f16c")]] void multiply_stretch(const linear::args& a, std::size_t r, std::size_t rows,
                                                       std::size_t b, const float* x, std::size_t x_stride,
                                                       std::size_t tokens, float* y) {
    using tiles = linear_tiles<F>;
    const std::size_t blocks = a.cols / F::block_size;
    const std::size_t count = blocks - b < tiles::stretch_blocks ? blocks - b : tiles::stretch_blocks;
    const std::size_t cols = count * F::block_size;
    if constexpr (has_loads<F> && !std::is_same_v<F, f32>) {
        if (tokens == 1) { // a block is one number
            const auto* w = reinterpret_cast<const typename loaded<F>::word*>(a.weights) + r * a.cols + b;
            if (rows == 8) return multiply<8, 1, F>(w, a.cols, x, x_stride, cols, y, a.y_stride, b == 0);
            if (rows == 4) return multiply<4, 1, F>(w, a.cols, x, x_stride, cols, y, a.y_stride, b == 0);
            return multiply<1, 1, F>(w, a.cols, x, x_stride, cols, y, a.y_stride, b == 0);
        }
    }
    alignas(32) float buffer[tiles::most_rows * tiles::stretch];
    const float* w = buffer;
    std::size_t w_stride = tiles::stretch;
    if (std::is_same_v<F, f32> && tokens <= 3) { // a copy pays only where it is read again
        w = reinterpret_cast<const float*>(a.weights) + r * a.cols + b;
        w_stride = a.cols;
    } else {
        const auto* first = reinterpret_cast<const typename F::block*>(a.weights) + r * blocks + b;
        for (std::size_t i = 0; i < rows; ++i)
            avx2_decoder<F>::run(first + i * blocks, count, buffer + i * tiles::stretch);
    }
    if (rows == 1)
        multiply_all<1>(w, w_stride, rows, x, x_stride, tokens, cols, y, a.y_stride, b == 0);
    else
        multiply_all<4>(w, w_stride, rows, x, x_stride, tokens, cols, y, a.y_stride, b == 0);
}

/// Rows begin .. end - 1 times tokens t .. t + tokens - 1, at most a token block. Their stretch is copied together
/// first: rows of activations a power of two apart would push each other out of the cache.
template <format F>
[[gnu::noinline, gnu::target("avx2,fma,f16c")]] void
multiply_block(const linear::args& a, std::size_t begin, std::size_t end, std::size_t t, std::size_t tokens) {
    using tiles = linear_tiles<F>;
    const std::size_t blocks = a.cols / F::block_size;
    alignas(32) float packed[tiles::token_block * tiles::stretch];
    for (std::size_t b = 0; b < blocks; b += tiles::stretch_blocks) {
        const std::size_t count = blocks - b < tiles::stretch_blocks ? blocks - b : tiles::stretch_blocks;
        for (std::size_t i = 0; i < tokens; ++i)
            __builtin_memcpy(packed + i * tiles::stretch, a.x + (t + i) * a.x_stride + b * F::block_size,
                             count * F::block_size * sizeof(float));
        for (std::size_t r = begin; r < end; r += tiles::take(end - r))
            multiply_stretch<F>(a, r, tiles::take(end - r), b, packed, tiles::stretch, tokens,
                                a.y + t * a.y_stride + r);
    }
}

} // namespace detail

/// The sum over the columns is taken in stretches of about 512: within one, eight chains of fused additions; the
/// stretches are added up in order. That order depends on the format alone, not on tokens, rows or how they are split.
/// Activations stay f32. Error: at most about 1e-6 of the sum of |w x|.
template <format F>
[[gnu::target("avx2,fma,f16c")]] void linear_avx2(const linear::args& a, std::size_t begin, std::size_t end) {
    using tiles = linear_tiles<F>;
    const std::size_t blocks = a.cols / F::block_size;
    if (a.tokens <= tiles::few_tokens) {
        for (std::size_t r = begin; a.tokens != 0 && r < end; r += tiles::take(end - r))
            for (std::size_t b = 0; b < blocks; b += tiles::stretch_blocks)
                detail::multiply_stretch<F>(a, r, tiles::take(end - r), b, a.x + b * F::block_size, a.x_stride,
                                            a.tokens, a.y + r);
    } else {
        for (std::size_t t = 0; t < a.tokens; t += tiles::token_block) {
            const std::size_t left = a.tokens - t;
            detail::multiply_block<F>(a, begin, end, t, left < tiles::token_block ? left : tiles::token_block);
        }
    }
    if (a.bias == nullptr && blocks != 0) return;
    for (std::size_t t = 0; t < a.tokens; ++t)
        for (std::size_t r = begin; r < end; ++r) {
            float& y = a.y[t * a.y_stride + r];
            y = (blocks != 0 ? y : 0.0f) + (a.bias ? a.bias[r] : 0.0f); // a row of no columns is the bias alone
        }
}

} // namespace tern::kernel::cpu

#endif
