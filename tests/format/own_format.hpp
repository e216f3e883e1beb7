// A format of a user's own: numbers in half steps, 16 a block, with a shared offset. Nothing of tern but one macro.
#pragma once

#include <cstddef>
#include <string_view>

#include <tern/base/config.hpp>

namespace own {

struct halves {
    static constexpr std::string_view name = "halves";
    static constexpr std::size_t block_size = 16;
    struct block {
        signed char offset;
        signed char q[16];
    };

    TERN_HOST_DEVICE static void decode(const block& b, float* out) noexcept {
        for (int i = 0; i < 16; ++i) out[i] = 0.5f * static_cast<float>(b.q[i] + b.offset);
    }
    static void encode(const float* in, block& b) noexcept {
        b.offset = 0;
        for (int i = 0; i < 16; ++i) {
            const float steps = in[i] * 2;
            b.q[i] = static_cast<signed char>(!(steps > -128) ? -128 : steps > 127 ? 127 : steps);
        }
    }
};

} // namespace own
