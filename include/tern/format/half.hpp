// Small floats: bit conversions for host and device, and reads of values at any address.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <tern/base/config.hpp>

namespace tern {

static_assert(std::endian::native == std::endian::little,
              "tern reads weights in place and model files are little-endian: this machine must be little-endian too");

namespace detail {

TERN_HOST_DEVICE constexpr std::uint32_t bits_of(float value) noexcept {
    return __builtin_bit_cast(std::uint32_t, value);
}
TERN_HOST_DEVICE constexpr float float_of(std::uint32_t bits) noexcept { return __builtin_bit_cast(float, bits); }

} // namespace detail

/// A T read from an address of any alignment.
template <class T>
    requires std::is_trivially_copyable_v<T>
TERN_HOST_DEVICE inline T load(const unsigned char* from) noexcept {
    T value;
    memcpy(&value, from, sizeof(T));
    return value;
}

/// A T with alignment 1: the member of a block that holds a scale.
///
///     struct block { tern::unaligned<std::uint16_t> d; unsigned char qs[16]; };
template <class T>
    requires std::is_trivially_copyable_v<T>
struct unaligned {
    unsigned char raw[sizeof(T)];

    TERN_HOST_DEVICE T get() const noexcept { return load<T>(raw); }
    TERN_HOST_DEVICE void set(T value) noexcept { memcpy(raw, &value, sizeof(T)); }
};

/// IEEE binary16 to f32, exact. A NaN stays a NaN, whatever the floating-point mode.
TERN_HOST_DEVICE constexpr float f16_to_f32(std::uint16_t half) noexcept {
    const std::uint32_t sign = (half & 0x8000u) << 16;
    const std::uint32_t magnitude = half & 0x7FFFu;
    // Masks and no branches: loops over this become vector instructions.
    constexpr std::uint32_t rebias = 112u << 23;
    const std::uint32_t is_denormal = 0u - static_cast<std::uint32_t>(magnitude < 0x0400u);
    const std::uint32_t is_special = 0u - static_cast<std::uint32_t>(magnitude >= 0x7C00u);
    const std::uint32_t normal = (magnitude << 13) + rebias + (rebias & is_special);
    // A denormal is a whole number of steps of 2^-24.
    const std::uint32_t denormal = detail::bits_of(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
    return detail::float_of(sign | (denormal & is_denormal) | (normal & ~is_denormal));
}

/// f32 to IEEE binary16, to nearest, ties to even. Above 65520 it is infinity; a NaN stays a NaN and becomes quiet.
TERN_HOST_DEVICE constexpr std::uint16_t f32_to_f16(float value) noexcept {
    const std::uint32_t bits = detail::bits_of(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    std::uint32_t half = 0;
    if (magnitude > 0x7F800000u) {
        half = 0x7E00u | ((magnitude >> 13) & 0x3FFu);
    } else if (magnitude < 0x38800000u) {
        // Below 2^-14 one step is 2^-24, which is the last bit of a sum with 0.5: the addition rounds.
        half = detail::bits_of(detail::float_of(magnitude) + 0.5f) - 0x3F000000u;
    } else {
        const std::uint32_t rounded = (magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
        half = rounded < 0x7C00u ? rounded : 0x7C00u;
    }
    return static_cast<std::uint16_t>(sign | half);
}

/// bfloat16 to f32, exact.
TERN_HOST_DEVICE constexpr float bf16_to_f32(std::uint16_t half) noexcept {
    return detail::float_of(static_cast<std::uint32_t>(half) << 16);
}

/// f32 to bfloat16, to nearest, ties to even. A NaN stays a NaN and becomes quiet, also where only low bits said so.
TERN_HOST_DEVICE constexpr std::uint16_t f32_to_bf16(float value) noexcept {
    const std::uint32_t bits = detail::bits_of(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
    return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

/// E8M0, the scale of the OCP microscaling formats: 2^(bits - 127); 255 is NaN.
TERN_HOST_DEVICE constexpr float e8m0_to_f32(std::uint8_t bits) noexcept {
    const std::uint32_t power = bits == 0 ? 0x00400000u : static_cast<std::uint32_t>(bits) << 23;
    return detail::float_of(bits == 255 ? 0x7FC00000u : power);
}

/// FP8 E4M3FN (OCP): no infinities, 0x7F and 0xFF are NaN, the largest is 448.
TERN_HOST_DEVICE constexpr float e4m3_to_f32(std::uint8_t bits) noexcept {
    const std::uint32_t sign = (bits & 0x80u) << 24;
    const std::uint32_t magnitude = bits & 0x7Fu;
    // Seen as a binary16 the exponent's bias is 15 and not 7.
    const float scaled = f16_to_f32(static_cast<std::uint16_t>(magnitude << 7)) * 256.0f;
    return detail::float_of(sign | (magnitude == 0x7Fu ? 0x7FC00000u : detail::bits_of(scaled)));
}

/// FP8 E5M2 (OCP): the upper half of a binary16; 0x7C is infinity.
TERN_HOST_DEVICE constexpr float e5m2_to_f32(std::uint8_t bits) noexcept {
    return f16_to_f32(static_cast<std::uint16_t>(bits << 8));
}

} // namespace tern
