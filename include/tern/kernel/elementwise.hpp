// Operators on f32 activations that treat each element by itself: add, gated, soft_cap, scale_rows.
//
// Shapes: every operand is [rows, cols] with a stride in floats between rows. One item is one row. Aliasing: the result
// may be one of the operands, with an equal stride (element i is read before it is written); any other overlap is not
// allowed.
#pragma once

#include <cmath>
#include <cstddef>
#include <string_view>

#include <tern/kernel/slot.hpp>

namespace tern::kernel {

/// y = a + b.
struct add {
    struct args {
        const float* a;
        std::size_t a_stride;
        const float* b;
        std::size_t b_stride;
        std::size_t rows;
        std::size_t cols;
        float* y;
        std::size_t y_stride;
    };

    static constexpr std::string_view name = "add";
    static std::size_t items(const args& a) noexcept { return a.rows; }
    static amount work(const args& a) noexcept {
        const double numbers = double(a.rows) * double(a.cols);
        return {.tokens = a.rows, .operations = 1 * numbers, .weights = 0, .other_bytes = 12 * numbers};
    }

    template <class> static void reference(const args& a, std::size_t begin, std::size_t end) {
        for (std::size_t r = begin; r < end; ++r)
            for (std::size_t i = 0; i < a.cols; ++i)
                a.y[r * a.y_stride + i] = a.a[r * a.a_stride + i] + a.b[r * a.b_stride + i];
    }
};

/// The function that the gate of a feed-forward layer goes through.
enum class activation_kind {
    silu,         // g / (1 + exp(-g))
    gelu_tanh,    // g/2 (1 + tanh(sqrt(2/pi) (g + 0.044715 g^3))); Hendrycks and Gimpel, 2016
    gelu_erf,     // g/2 (1 + erf(g / sqrt 2)), the exact one
    silu_clamped, // g = min(g, limit), u = clamp(u, -limit, limit): g / (1 + exp(-alpha g)) (u + 1)
};

/// y = act(gate) * up; for silu_clamped the factor is clamp(up) + 1.
struct gated {
    struct args {
        const float* gate;
        std::size_t gate_stride;
        const float* up;
        std::size_t up_stride;
        std::size_t rows;
        std::size_t cols;
        activation_kind activation;
        float* y;
        std::size_t y_stride;
        float alpha = 1.702f; // of silu_clamped only
        float limit = 7.0f;   // of silu_clamped only
    };

    static constexpr std::string_view name = "gated";
    static std::size_t items(const args& a) noexcept { return a.rows; }
    static amount work(const args& a) noexcept {
        const double numbers = double(a.rows) * double(a.cols);
        return {.tokens = a.rows, .operations = 10 * numbers, .weights = 0, .other_bytes = 12 * numbers};
    }

    template <class> static void reference(const args& a, std::size_t begin, std::size_t end) {
        for (std::size_t r = begin; r < end; ++r)
            for (std::size_t i = 0; i < a.cols; ++i)
                a.y[r * a.y_stride + i] = one(a, a.gate[r * a.gate_stride + i], a.up[r * a.up_stride + i]);
    }

    /// One element, in double precision.
    static float one(const args& a, float gate, float up) {
        const double g = gate, u = up;
        switch (a.activation) {
        case activation_kind::silu: return static_cast<float>(g / (1 + std::exp(-g)) * u);
        case activation_kind::gelu_tanh:
            return static_cast<float>(0.5 * g * (1 + std::tanh(0.79788456080286536 * (g + 0.044715 * g * g * g))) * u);
        case activation_kind::gelu_erf:
            return static_cast<float>(0.5 * g * (1 + std::erf(g * 0.70710678118654752)) * u);
        case activation_kind::silu_clamped: break;
        }
        // Written so that a NaN stays one.
        const double limit = a.limit;
        const double low = g > limit ? limit : g;
        const double factor = u > limit ? limit : u < -limit ? -limit : u;
        return static_cast<float>(low / (1 + std::exp(-double(a.alpha) * low)) * (factor + 1));
    }
};

/// y = cap * tanh(x / cap): logits kept inside (-cap, cap). Requires cap > 0.
struct soft_cap {
    struct args {
        const float* x;
        std::size_t x_stride;
        std::size_t rows;
        std::size_t cols;
        float cap;
        float* y;
        std::size_t y_stride;
    };

    static constexpr std::string_view name = "soft_cap";
    static std::size_t items(const args& a) noexcept { return a.rows; }
    static amount work(const args& a) noexcept {
        const double numbers = double(a.rows) * double(a.cols);
        return {.tokens = a.rows, .operations = 10 * numbers, .weights = 0, .other_bytes = 8 * numbers};
    }

    template <class> static void reference(const args& a, std::size_t begin, std::size_t end) {
        const double cap = a.cap;
        for (std::size_t r = begin; r < end; ++r)
            for (std::size_t i = 0; i < a.cols; ++i)
                a.y[r * a.y_stride + i] = static_cast<float>(cap * std::tanh(double(a.x[r * a.x_stride + i]) / cap));
    }
};

/// y[r] = factors[r] * x[r]: each row times a number of its own. factors f32 [rows].
struct scale_rows {
    struct args {
        const float* x;
        std::size_t x_stride;
        std::size_t rows;
        std::size_t cols;
        const float* factors;
        float* y;
        std::size_t y_stride;
    };

    static constexpr std::string_view name = "scale_rows";
    static std::size_t items(const args& a) noexcept { return a.rows; }
    static amount work(const args& a) noexcept {
        const double numbers = double(a.rows) * double(a.cols);
        return {.tokens = a.rows, .operations = 1 * numbers, .weights = 0, .other_bytes = 8 * numbers};
    }

    template <class> static void reference(const args& a, std::size_t begin, std::size_t end) {
        for (std::size_t r = begin; r < end; ++r)
            for (std::size_t i = 0; i < a.cols; ++i) a.y[r * a.y_stride + i] = a.factors[r] * a.x[r * a.x_stride + i];
    }
};

} // namespace tern::kernel
