// Rotary position embedding: a table of angles for the positions of a batch, and the rotation itself.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tern/kernel/slot.hpp>

namespace tern::kernel {

/// Which two numbers of a head make pair i of `dims / 2`. Models differ, and the wrong one gives fluent nonsense.
enum class rope_pairing {
    adjacent,   // 2i and 2i + 1
    half_split, // i and i + dims / 2
};

/// A pairing that has to be named: leaving it out of an argument list does not compile.
struct stated_pairing {
    constexpr stated_pairing(rope_pairing pairing) noexcept : value(pairing) {}
    rope_pairing value;
};

/// cos and sin of position * inv_freq, times a magnitude.
/// Shapes: positions int32 [tokens], inv_freq f64 [pairs], cos and sin f32 [tokens, pairs], contiguous.
/// One item is one token. The angles are computed in double precision: at position 100,000 f32 angles are off by 0.004.
struct rope_angles {
    struct args {
        const std::int32_t* positions;
        std::size_t tokens;
        const double* inv_freq; // radians per position, from rope_scaling.hpp
        std::size_t pairs;      // dims / 2
        float magnitude;        // 1, or what the scaling asks for
        float* cos;
        float* sin;
    };

    static constexpr std::string_view name = "rope_angles";
    static std::size_t items(const args& a) noexcept { return a.tokens; }
    static amount work(const args& a) noexcept {
        const double numbers = double(a.tokens) * double(a.pairs);
        return {.tokens = a.tokens, .operations = 40 * numbers, .weights = 0, .other_bytes = 8 * numbers};
    }

    template <class> static void reference(const args& a, std::size_t begin, std::size_t end) {
        for (std::size_t t = begin; t < end; ++t)
            for (std::size_t i = 0; i < a.pairs; ++i) {
                const double angle = static_cast<double>(a.positions[t]) * a.inv_freq[i];
                a.cos[t * a.pairs + i] = static_cast<float>(std::cos(angle) * double(a.magnitude));
                a.sin[t * a.pairs + i] = static_cast<float>(std::sin(angle) * double(a.magnitude));
            }
    }
};

/// Rotates the first `dims` numbers of each head: (a, b) -> (a cos - b sin, b cos + a sin); the rest is copied.
/// Shapes: x and y [tokens, heads, head_dim] f32, cos and sin [tokens, dims / 2]. One item is one head of one token.
/// Requires dims even and dims <= head_dim. In place is allowed: y == x with equal strides.
/// Source: Su and others, "RoFormer", 2021, equation 34.
struct rope {
    struct args {
        const float* x;
        std::size_t x_stride; // floats between tokens
        std::size_t tokens;
        std::size_t heads;
        std::size_t head_dim;
        std::size_t dims;
        stated_pairing pairing;
        const float* cos;
        const float* sin;
        float* y;
        std::size_t y_stride;
    };

    static constexpr std::string_view name = "rope";
    static std::size_t items(const args& a) noexcept { return a.tokens * a.heads; }
    static amount work(const args& a) noexcept {
        const double numbers = double(a.tokens) * double(a.heads) * double(a.head_dim);
        return {.tokens = a.tokens, .operations = 3 * numbers, .weights = 0, .other_bytes = 8 * numbers};
    }

    template <class> static void reference(const args& a, std::size_t begin, std::size_t end) {
        const std::size_t pairs = a.dims / 2;
        const bool adjacent = a.pairing.value == rope_pairing::adjacent;
        for (std::size_t item = begin; item < end; ++item) {
            const std::size_t t = item / a.heads;
            const std::size_t h = item % a.heads;
            const float* x = a.x + t * a.x_stride + h * a.head_dim;
            float* y = a.y + t * a.y_stride + h * a.head_dim;
            for (std::size_t i = 0; i < pairs; ++i) {
                const std::size_t first = adjacent ? 2 * i : i;
                const std::size_t second = adjacent ? 2 * i + 1 : i + pairs;
                const double c = a.cos[t * pairs + i], s = a.sin[t * pairs + i];
                const double u = x[first], v = x[second];
                y[first] = static_cast<float>(u * c - v * s);
                y[second] = static_cast<float>(v * c + u * s);
            }
            for (std::size_t i = a.dims; i < a.head_dim; ++i) y[i] = x[i];
        }
    }
};

} // namespace tern::kernel
