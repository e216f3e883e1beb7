// y = x W^T + b: the product of activations with a weight matrix of any format.
#pragma once

#include <cstddef>
#include <string_view>

#include <tern/format/format.hpp>
#include <tern/kernel/slot.hpp>

namespace tern::kernel {

/// Shapes: weights [rows, cols] in a format, x [tokens, cols] f32, y [tokens, rows] f32, bias [rows] f32 or null.
/// One item is one row of the weights, for all tokens.
struct linear {
    struct args {
        const std::byte* weights; // first block of row 0
        std::size_t rows;
        std::size_t cols;
        const float* x;
        std::size_t x_stride; // floats between tokens
        std::size_t tokens;
        float* y;
        std::size_t y_stride;
        const float* bias = nullptr;
    };

    static constexpr std::string_view name = "linear";
    static std::size_t items(const args& a) noexcept { return a.rows; }
    static amount work(const args& a) noexcept {
        const double numbers = double(a.rows) * double(a.cols);
        return {.tokens = a.tokens,
                .operations = 2 * numbers * double(a.tokens),
                .weights = numbers,
                .other_bytes = 4 * double(a.tokens) * (double(a.rows) + double(a.cols)),
                .weight = a.weights};
    }

    /// Decodes block by block and sums in double precision, in the order of the columns.
    template <format F> static void reference(const args& a, std::size_t begin, std::size_t end) {
        const std::size_t blocks = a.cols / F::block_size;
        const auto* all = reinterpret_cast<const typename F::block*>(a.weights);
        for (std::size_t r = begin; r < end; ++r) {
            const auto* row = all + r * blocks;
            for (std::size_t t = 0; t < a.tokens; ++t) {
                double sum = 0;
                const float* x = a.x + t * a.x_stride;
                float w[F::block_size];
                for (std::size_t b = 0; b < blocks; ++b, x += F::block_size) {
                    F::decode(row[b], w);
                    for (std::size_t i = 0; i < F::block_size; ++i) sum += double(w[i]) * double(x[i]);
                }
                a.y[t * a.y_stride + r] = static_cast<float>(sum + (a.bias ? double(a.bias[r]) : 0.0));
            }
        }
    }
};

} // namespace tern::kernel
