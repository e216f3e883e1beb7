// y = x W^T + b with activations in 8 bits and AVX2: row by row where there is one token, else panels of eight rows.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>

#include <tern/kernel/cpu/codes_k.hpp>
#include <tern/kernel/cpu/dot_q8.hpp>
#include <tern/kernel/cpu/panel_product.hpp>
#include <tern/kernel/linear_q8.hpp>

namespace tern::kernel::cpu {

namespace detail {

/// How many tokens and groups of eight rows are taken together, and how many panels of each.
struct q8_tiles {
    static constexpr std::size_t tokens = 64; ///< their chains stay in cache
    static constexpr std::size_t panels = 4;  ///< 1024 columns of 16 rows are unpacked at a time
};

/// The product of the first of `tokens` tokens, four at a time or one; gives how many it took.
template <format F, int Groups> std::size_t multiply_some(const panel_args<avx2_form<F>::kind>& a, std::size_t tokens) {
    using form = avx2_form<F>;
    // Sums of two products that fit into 16 bits together.
    constexpr int together = 32767 / (2 * 127 * form::most);
    constexpr int steps = together >= 8 ? 8 : together >= 4 ? 4 : together;
    if (tokens >= 4) {
        multiply_panels<form::lows, steps, Groups, 4>(a);
        return 4;
    }
    multiply_panels<form::lows, steps, Groups, 1>(a);
    return 1;
}

/// The chains of some tokens added up, into y.
template <int Groups>
[[gnu::target("avx2,fma,f16c")]] void finish_chains(const float* chains, std::size_t tokens, const float* bias,
                                                    float* y, std::size_t y_stride) {
    const std::size_t stride = tokens * Groups * 8; // between chains
    for (std::size_t t = 0; t < tokens; ++t)
        for (std::size_t g = 0; g < Groups; ++g) {
            const float* c = chains + (t * Groups + g) * 8;
            __m256 pair[4];
#pragma GCC unroll 4
            for (std::size_t i = 0; i < 4; ++i)
                pair[i] = _mm256_add_ps(_mm256_load_ps(c + 2 * i * stride), _mm256_load_ps(c + (2 * i + 1) * stride));
            __m256 sum = _mm256_add_ps(_mm256_add_ps(pair[0], pair[1]), _mm256_add_ps(pair[2], pair[3]));
            if (bias != nullptr) sum = _mm256_add_ps(sum, _mm256_loadu_ps(bias + g * 8));
            _mm256_storeu_ps(y + t * y_stride + g * 8, sum);
        }
}

constexpr std::size_t taken(std::size_t left) { return left >= 4 ? 4 : 1; }

/// 8 * Groups rows from r on, times tokens t .. t + tokens - 1, at most q8_tiles::tokens.
template <format F, int Groups>
[[gnu::noinline]] void multiply_tile(const linear_q8::args& a, std::size_t r, std::size_t t, std::size_t tokens) {
    using panels = panel<avx2_form<F>::kind>;
    panels packed[Groups][q8_tiles::panels];
    alignas(32) float chains[q8_tiles::tokens * 8 * 8 * Groups];
    __builtin_memset(chains, 0, tokens * 8 * 8 * Groups * sizeof(float));
    const std::size_t blocks = a.cols / F::block_size, wide = q8_blocks(a.cols);
    const auto* first = reinterpret_cast<const typename F::block*>(a.weights) + r * blocks;
    const q8_block* x = a.x + t * wide;
    for (std::size_t b = 0; b < wide; b += q8_tiles::panels) {
        const std::size_t count = wide - b < q8_tiles::panels ? wide - b : q8_tiles::panels;
        for (std::size_t g = 0; g < Groups; ++g)
            pack_panels<F>(first + g * 8 * blocks, blocks, b * blocks_in_eight<F>, count, packed[g]);
        panel_args<avx2_form<F>::kind> args{.panels = packed[0],
                                            .group_stride = q8_tiles::panels,
                                            .count = count,
                                            .x = nullptr,
                                            .token_stride = wide,
                                            .chains = nullptr};
        if constexpr (avx2_form<F>::kind == code_kind::small) args.offset = avx2_form<F>::offset;
        for (std::size_t i = 0; i < tokens;) {
            args.x = x + i * wide + b;
            args.chains = chains + i * 8 * 8 * Groups;
            i += multiply_some<F, Groups>(args, tokens - i);
        }
    }
    for (std::size_t i = 0; i < tokens; i += taken(tokens - i))
        finish_chains<Groups>(chains + i * 8 * 8 * Groups, taken(tokens - i), a.bias ? a.bias + r : nullptr,
                              a.y + (t + i) * a.y_stride + r, a.y_stride);
}

/// Rows begin .. end - 1 without unpacking, as four streams.
template <format F> void multiply_rows(const linear_q8::args& a, std::size_t begin, std::size_t end) {
    const std::size_t blocks = a.cols / F::block_size, wide = q8_blocks(a.cols);
    const auto* all = reinterpret_cast<const typename F::block*>(a.weights);
    const std::size_t streams = end - begin < most_streams ? 1 : most_streams;
    const std::size_t apart = (end - begin) / streams;
    const auto multiply = [&](std::size_t r, std::size_t count) {
        for (std::size_t t = 0; t < a.tokens; ++t) {
            float sums[most_streams];
            dot_q8_avx2<F>(all + r * blocks, apart * blocks, count, blocks, all + a.rows * blocks, a.x + t * wide,
                           sums);
            for (std::size_t i = 0; i < count; ++i) {
                const std::size_t at = r + i * apart;
                a.y[t * a.y_stride + at] = a.bias ? sums[i] + a.bias[at] : sums[i];
            }
        }
    };
    for (std::size_t r = begin; r < begin + apart; ++r) multiply(r, streams);
    for (std::size_t r = begin + apart * streams; r < end; ++r) multiply(r, 1);
}

} // namespace detail

/// The bits of linear_q8::reference, for every split of the rows and of the tokens.
template <format F>
    requires has_avx2_form<F>
void linear_q8_avx2(const linear_q8::args& a, std::size_t begin, std::size_t end) {
    constexpr std::size_t groups = avx2_form<F>::kind == code_kind::scaled ? 1 : 2;
    std::size_t r = begin;
    for (; a.tokens > 1 && end - r >= 8 * groups; r += 8 * groups)
        for (std::size_t t = 0; t < a.tokens; t += detail::q8_tiles::tokens)
            detail::multiply_tile<F, groups>(
                a, r, t, a.tokens - t < detail::q8_tiles::tokens ? a.tokens - t : detail::q8_tiles::tokens);
    detail::multiply_rows<F>(a, r, end);
}

} // namespace tern::kernel::cpu

#endif
