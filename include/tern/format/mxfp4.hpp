// mxfp4: the OCP microscaling format with 4-bit floats (E2M1) and one power of two for 32 numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tern/base/config.hpp>
#include <tern/format/fit.hpp>
#include <tern/format/half.hpp>

namespace tern {

/// 2^(e - 127) * value(code), the values being 0, 0.5, 1, 1.5, 2, 3, 4, 6 and, with bit 3, their negatives; the scale
/// byte 255 makes the block NaN. Code 8 decodes to +0. A block that is given a NaN or an infinity decodes to NaN.
struct mxfp4 {
    static constexpr std::string_view name = "mxfp4";
    static constexpr std::size_t block_size = 32;
    static constexpr std::uint32_t gguf_type = 39;
    struct block {
        std::uint8_t e;       ///< E8M0
        unsigned char qs[16]; ///< number i in the low half of byte i, number i + 16 in the high half
    };

    /// Twice the value of a code 0..15: a whole number.
    TERN_HOST_DEVICE static constexpr int twice(int code) noexcept {
        const int exponent = (code >> 1) & 3;
        const int normal = exponent != 0;
        const int magnitude = (((normal << 1) | (code & 1)) << exponent) >> normal;
        const int sign = -((code >> 3) & 1);
        return (magnitude ^ sign) - sign;
    }

    TERN_HOST_DEVICE static void decode(const block& b, float* __restrict out) noexcept {
        const float half = half_scale(b.e);
        for (int i = 0; i < 16; ++i) {
            out[i] = half * static_cast<float>(twice(b.qs[i] & 15));
            out[i + 16] = half * static_cast<float>(twice(b.qs[i] >> 4));
        }
    }
    static void encode(const float* in, block& b) noexcept {
        std::uint32_t peak = 0;
        for (int i = 0; i < 32; ++i) {
            const std::uint32_t magnitude = detail::bits_of(in[i]) & 0x7FFFFFFFu;
            peak = magnitude > peak ? magnitude : peak;
        }
        const bool finite = peak < 0x7F800000u;
        // The exponent that puts the largest number into [4, 8), and its neighbours.
        const int middle = static_cast<int>(peak >> 23) - 2;
        int best = 0;
        double best_error = -1;
        for (int e = middle - 1; finite && e <= middle + 1; ++e) {
            if (e < 0 || e > 254) continue;
            const double error = error_at(in, half_scale(static_cast<std::uint8_t>(e)));
            if (best_error < 0 || error < best_error) best = e, best_error = error;
        }
        b.e = static_cast<std::uint8_t>(finite ? best : 255);
        const double inv = finite ? 0.5 / static_cast<double>(half_scale(b.e)) : 0.0;
        for (int i = 0; i < 16; ++i)
            b.qs[i] = static_cast<unsigned char>(nearest_code(in[i] * inv) | (nearest_code(in[i + 16] * inv) << 4));
    }

private:
    /// 2^(e - 128), half the block's scale.
    TERN_HOST_DEVICE static constexpr float half_scale(std::uint8_t e) noexcept {
        const std::uint32_t power = e < 2 ? 0x00200000u << e : static_cast<std::uint32_t>(e - 1) << 23;
        return detail::float_of(e == 255 ? 0x7FC00000u : power);
    }
    /// The code whose value is next to v; ties go to the smaller magnitude.
    static int nearest_code(double v) noexcept {
        const double magnitude = v < 0 ? -v : v;
        int code = 0;
        for (int c = 1; c < 8; ++c) code += magnitude > 0.25 * (twice(c - 1) + twice(c));
        return code != 0 && v < 0 ? code + 8 : code;
    }
    static double error_at(const float* in, float half) noexcept {
        const double step = static_cast<double>(half), inv = 0.5 / step;
        double sum = 0;
        for (int i = 0; i < 32; ++i) {
            const double x = static_cast<double>(in[i]), e = x - step * twice(nearest_code(x * inv));
            sum += e * e;
        }
        return sum;
    }
};
static_assert(sizeof(mxfp4::block) == 17);

} // namespace tern
