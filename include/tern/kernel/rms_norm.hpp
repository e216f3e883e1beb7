// y = x / sqrt(mean(x^2) + eps) * w: root mean square normalisation, with a weight of any format or none.
#pragma once

#include <cmath>
#include <cstddef>
#include <string_view>

#include <tern/format/format.hpp>
#include <tern/kernel/slot.hpp>

namespace tern::kernel {

/// Shapes: x [rows, cols] f32, weight [cols] in a format, or null for none (then any format will do), y [rows, cols].
/// One item is one row. A row is a token, or one head of one token. In place is allowed: y == x with equal strides.
/// Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
struct rms_norm {
    struct args {
        const float* x;
        std::size_t x_stride; // floats between rows
        std::size_t rows;
        std::size_t cols;
        const std::byte* weight; // first block, or null
        float eps;
        float* y;
        std::size_t y_stride;
    };

    static constexpr std::string_view name = "rms_norm";
    static std::size_t items(const args& a) noexcept { return a.rows; }
    static amount work(const args& a) noexcept {
        const double numbers = double(a.rows) * double(a.cols);
        return {.tokens = a.rows,
                .operations = 4 * numbers,
                .weights = double(a.cols),
                .other_bytes = 8 * numbers,
                .weight = a.weight};
    }

    template <format F> static void reference(const args& a, std::size_t begin, std::size_t end) {
        for (std::size_t r = begin; r < end; ++r) {
            const float* x = a.x + r * a.x_stride;
            float* y = a.y + r * a.y_stride;
            double squares = 0;
            for (std::size_t i = 0; i < a.cols; ++i) squares += double(x[i]) * double(x[i]);
            const double factor = 1 / std::sqrt(squares / static_cast<double>(a.cols) + double(a.eps));
            if (!a.weight) {
                for (std::size_t i = 0; i < a.cols; ++i) y[i] = static_cast<float>(double(x[i]) * factor);
                continue;
            }
            const auto* block = reinterpret_cast<const typename F::block*>(a.weight);
            float w[F::block_size];
            for (std::size_t i = 0; i < a.cols; i += F::block_size, ++block) {
                F::decode(*block, w);
                for (std::size_t j = 0; j < F::block_size; ++j)
                    y[i + j] = static_cast<float>(double(x[i + j]) * factor * double(w[j]));
            }
        }
    }
};

} // namespace tern::kernel
