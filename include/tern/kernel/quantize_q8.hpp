// Activations in 8 bits: the other operand of the integer products.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include <tern/kernel/slot.hpp>

namespace tern::kernel {

/// 256 activations in eight groups of 32: number i of group g is scale[g] * code[32 g + i], the scale being the largest
/// magnitude of the group over 127, in f32, so that no range is lost. What formats with an offset need beside the codes
/// is kept too. Groups past the end of a row are zero.
struct q8_block {
    float scale[8];
    float scaled_sum[8];   ///< scale times the sum of the codes, rounded once
    std::int16_t sums[16]; ///< of the codes, 16 at a time
    std::int8_t codes[256];
};
static_assert(sizeof(q8_block) == 352);

/// Blocks of one token of `cols` numbers.
constexpr std::size_t q8_blocks(std::size_t cols) noexcept { return cols / 256 + (cols % 256 != 0); }

/// Shapes: x [tokens, cols] f32, cols a multiple of 32; y [tokens, q8_blocks(cols)]. One item is one token.
///
/// A group with a NaN or an infinity becomes NaN as a whole; one whose largest magnitude is below 2^-120 becomes zero.
/// Otherwise a number changes by at most half a step, which is 1/254 of the group's largest magnitude.
struct quantize_q8 {
    struct args {
        const float* x;
        std::size_t x_stride; // floats between tokens
        std::size_t cols;
        std::size_t tokens;
        q8_block* y;
    };

    static constexpr std::string_view name = "quantize_q8";
    static std::size_t items(const args& a) noexcept { return a.tokens; }
    static amount work(const args& a) noexcept {
        const double numbers = double(a.tokens) * double(a.cols);
        return {.tokens = a.tokens, .operations = 6 * numbers, .weights = 0, .other_bytes = 5.5 * numbers};
    }

    /// `count` (at most 8) groups of a block.
    static void block(const float* x, std::size_t count, q8_block& y) noexcept {
        y = {};
        for (std::size_t g = 0; g < count; ++g, x += 32) {
            std::uint32_t peak = 0;
            for (int i = 0; i < 32; ++i) {
                const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFu;
                peak = magnitude > peak ? magnitude : peak;
            }
            if (peak >= 0x7F800000u) {
                y.scale[g] = y.scaled_sum[g] = std::numeric_limits<float>::quiet_NaN();
                continue;
            }
            const float largest = std::bit_cast<float>(peak);
            if (largest < 0x1p-120f) continue;
            const float steps = 127.0f / largest;
            int sum = 0;
            for (int i = 0; i < 32; ++i) {
                const auto code = static_cast<int>(std::lrint(x[i] * steps)); // ties to even
                y.codes[g * 32 + static_cast<std::size_t>(i)] = static_cast<std::int8_t>(code);
                std::int16_t& half = y.sums[2 * g + (i >= 16)];
                half = static_cast<std::int16_t>(half + code);
                sum += code;
            }
            y.scale[g] = largest / 127.0f;
            y.scaled_sum[g] = y.scale[g] * static_cast<float>(sum);
        }
    }

    template <class = no_format> static void reference(const args& a, std::size_t begin, std::size_t end) {
        const std::size_t blocks = q8_blocks(a.cols);
        for (std::size_t t = begin; t < end; ++t)
            for (std::size_t b = 0; b < blocks; ++b) {
                const std::size_t left = (a.cols - b * 256) / 32;
                block(a.x + t * a.x_stride + b * 256, left < 8 ? left : 8, a.y[t * blocks + b]);
            }
    }
};

} // namespace tern::kernel
