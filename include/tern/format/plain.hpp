// Plain floats: f32, f16 and bf16. A block is one number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tern/base/config.hpp>
#include <tern/format/half.hpp>

namespace tern {

/// IEEE binary32, as stored.
struct f32 {
    static constexpr std::string_view name = "f32";
    static constexpr std::size_t block_size = 1;
    static constexpr std::uint32_t gguf_type = 0;
    struct block {
        unaligned<float> value;
    };

    TERN_HOST_DEVICE static void decode(const block& b, float* out) noexcept { *out = b.value.get(); }
    TERN_HOST_DEVICE static void encode(const float* in, block& b) noexcept { b.value.set(*in); }
};
static_assert(sizeof(f32::block) == 4);

/// IEEE binary16; what lies above 65520 becomes infinity.
struct f16 {
    static constexpr std::string_view name = "f16";
    static constexpr std::size_t block_size = 1;
    static constexpr std::uint32_t gguf_type = 1;
    struct block {
        unaligned<std::uint16_t> value;
    };

    TERN_HOST_DEVICE static void decode(const block& b, float* out) noexcept { *out = f16_to_f32(b.value.get()); }
    TERN_HOST_DEVICE static void encode(const float* in, block& b) noexcept { b.value.set(f32_to_f16(*in)); }
};
static_assert(sizeof(f16::block) == 2);

/// bfloat16: the upper half of a binary32.
struct bf16 {
    static constexpr std::string_view name = "bf16";
    static constexpr std::size_t block_size = 1;
    static constexpr std::uint32_t gguf_type = 30;
    struct block {
        unaligned<std::uint16_t> value;
    };

    TERN_HOST_DEVICE static void decode(const block& b, float* out) noexcept { *out = bf16_to_f32(b.value.get()); }
    TERN_HOST_DEVICE static void encode(const float* in, block& b) noexcept { b.value.set(f32_to_bf16(*in)); }
};
static_assert(sizeof(bf16::block) == 2);

} // namespace tern
