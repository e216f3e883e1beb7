// iq4_nl: blocks of 32 numbers, one scale, and 16 levels that lie closer together around zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tern/base/config.hpp>
#include <tern/format/fit.hpp>
#include <tern/format/half.hpp>

namespace tern {

/// d * level(code), codes of 4 bits. A block that is given a NaN or an infinity decodes to NaN.
struct iq4_nl {
    static constexpr std::string_view name = "iq4_nl";
    static constexpr std::size_t block_size = 32;
    static constexpr std::uint32_t gguf_type = 20;
    struct block {
        unaligned<std::uint16_t> d; ///< binary16
        unsigned char qs[16];       ///< number i in the low half of byte i, number i + 16 in the high half
    };

    /// The level of a code 0..15, in steps of d.
    TERN_HOST_DEVICE static constexpr float level(int code) noexcept {
        constexpr float levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
        return levels[code & 15];
    }

    TERN_HOST_DEVICE static void decode(const block& b, float* __restrict out) noexcept {
        const float d = f16_to_f32(b.d.get());
        for (int i = 0; i < 16; ++i) {
            out[i] = d * level(b.qs[i]);
            out[i + 16] = d * level(b.qs[i] >> 4);
        }
    }
    static void encode(const float* in, block& b) noexcept {
        float x[32];
        const bool finite = detail::copy_finite(in, x, 32);
        const float d = finite ? detail::fit_scale(x, 32, picker{}, detail::stored_scale) : 0.0f;
        const float inv = detail::inverse(d);
        b.d.set(finite ? detail::scale_bits(d) : detail::f16_nan);
        for (int i = 0; i < 16; ++i)
            b.qs[i] = static_cast<unsigned char>(nearest_code(x[i] * inv) | (nearest_code(x[i + 16] * inv) << 4));
    }

private:
    /// A search in halves among the midpoints of neighbouring levels.
    static int nearest_code(float v) noexcept {
        static constexpr float middles[15] = {-115.5f, -93.5f, -74,   -57,   -42, -28.5f, -16, -4.5f,
                                              7,       19,     31.5f, 45.5f, 61,  79,     101};
        int code = 0;
        for (int half = 8; half > 0; half /= 2) code += v > middles[code + half - 1] ? half : 0;
        return code;
    }
    struct picker {
        int low = -127, high = 113;
        float step = 14;
        float pick(float v) const noexcept { return level(nearest_code(v)); }
    };
};
static_assert(sizeof(iq4_nl::block) == 18);

} // namespace tern
