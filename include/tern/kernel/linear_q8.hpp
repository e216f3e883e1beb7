// y = x W^T + b with activations in 8 bits: the products of codes are summed as whole numbers.
#pragma once

#include <cmath>
#include <cstddef>
#include <string_view>

#include <tern/format/format.hpp>
#include <tern/kernel/integer_form.hpp>
#include <tern/kernel/quantize_q8.hpp>
#include <tern/kernel/slot.hpp>

namespace tern::kernel {

/// Shapes: weights [rows, cols] in a format with an integer form, x [tokens, q8_blocks(cols)], y [tokens, rows] f32,
/// bias [rows] f32 or null. One item is one row of the weights, for all tokens.
///
/// The order of the sum, the same in every path: for each 32 columns the whole number I = sum of code * code is exact.
/// Part p adds to chain p % 8, in order, (scale of the weights * scale of x) * I, and takes away what `low` stands for:
/// low * scaled_sum where integer_form::lows is 1, (low * scale of x) * (sum of low_code * sums) where it is 2. Each
/// step is one fused multiply and add in f32. The chains are then added in pairs: ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 +
/// 7)). So the result depends on the row and the token alone, not on rows, tokens or paths.
///
/// Error against the exact product with the quantized activations: at most (parts / 4 + 8) * 2^-24 of the sum of the
/// sizes of the terms |scale code x| and |low x|.
struct linear_q8 {
    struct args {
        const std::byte* weights; // first block of row 0
        std::size_t rows;
        std::size_t cols; // a multiple of 32
        const q8_block* x;
        std::size_t tokens;
        float* y;
        std::size_t y_stride; // floats between tokens
        const float* bias = nullptr;
    };

    static constexpr std::string_view name = "linear_q8";
    static constexpr std::size_t together = 16; // rows that a kernel takes at once: pieces are multiples of it
    static std::size_t items(const args& a) noexcept { return a.rows; }
    static amount work(const args& a) noexcept {
        const double numbers = double(a.rows) * double(a.cols);
        const double x = double(q8_blocks(a.cols)) * double(sizeof(q8_block));
        return {.tokens = a.tokens,
                .operations = 2 * numbers * double(a.tokens),
                .weights = numbers,
                .other_bytes = double(a.tokens) * (4 * double(a.rows) + x),
                .weight = a.weights};
    }

    template <format F>
        requires has_integer_form<F>
    static void reference(const args& a, std::size_t begin, std::size_t end) {
        const std::size_t parts = a.cols / 32, blocks = q8_blocks(a.cols);
        const auto* all = reinterpret_cast<const typename F::block*>(a.weights);
        for (std::size_t r = begin; r < end; ++r)
            for (std::size_t t = 0; t < a.tokens; ++t) {
                float chains[8] = {};
                for (std::size_t p = 0; p < parts; ++p) {
                    integer_part w;
                    integer_form<F>::read(all + r * (a.cols / F::block_size), p, w);
                    add<integer_form<F>::lows>(w, a.x[t * blocks + p / 8], p % 8, chains[p % 8]);
                }
                const float sum = ((chains[0] + chains[1]) + (chains[2] + chains[3])) +
                                  ((chains[4] + chains[5]) + (chains[6] + chains[7]));
                a.y[t * a.y_stride + r] = a.bias ? sum + a.bias[r] : sum;
            }
    }

private:
    template <int Lows> static void add(const integer_part& w, const q8_block& x, std::size_t g, float& chain) {
        std::int32_t sum = 0;
        for (std::size_t i = 0; i < 32; ++i) sum += w.code[i] * x.codes[g * 32 + i];
        chain = std::fma(w.scale * x.scale[g], static_cast<float>(sum), chain);
        if constexpr (Lows == 1) {
            chain = std::fma(-w.low, x.scaled_sum[g], chain);
        } else if constexpr (Lows == 2) {
            const std::int32_t lows = w.low_code[0] * x.sums[2 * g] + w.low_code[1] * x.sums[2 * g + 1];
            chain = std::fma(-(w.low * x.scale[g]), static_cast<float>(lows), chain);
        }
    }
};

} // namespace tern::kernel
