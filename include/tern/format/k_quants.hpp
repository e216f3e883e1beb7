// The k-quants: 256 numbers a block in groups of 16 or 32, whose small scales share one binary16 (two where a group has
// a minimum). In decoding d * scale comes first, then the code; each product is exact in f32, so a compiler that fuses
// multiply and add changes nothing. A block that is given a NaN or an infinity decodes to NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tern/base/config.hpp>
#include <tern/format/fit_groups.hpp>
#include <tern/format/half.hpp>

namespace tern {

namespace detail {

/// Eight scales and eight minima of 6 bits in 12 bytes, as in q4_k and q5_k: bytes 0-3 hold scales 0-3, bytes 4-7
/// minima 0-3; bytes 8-11 hold the low halves of the later ones, whose two high bits sit on top of bytes 0-7.
struct packed_scales {
    unsigned char raw[12];

    TERN_HOST_DEVICE int scale(int j) const noexcept {
        return j < 4 ? raw[j] & 63 : (raw[j + 4] & 15) | ((raw[j - 4] >> 6) << 4);
    }
    TERN_HOST_DEVICE int minimum(int j) const noexcept {
        return j < 4 ? raw[j + 4] & 63 : (raw[j + 4] >> 4) | ((raw[j] >> 6) << 4);
    }
    void set(const int* scales, const int* minima) noexcept {
        for (int j = 0; j < 4; ++j) {
            raw[j] = static_cast<unsigned char>(scales[j] | ((scales[j + 4] >> 4) << 6));
            raw[j + 4] = static_cast<unsigned char>(minima[j] | ((minima[j + 4] >> 4) << 6));
            raw[j + 8] = static_cast<unsigned char>((scales[j + 4] & 15) | ((minima[j + 4] & 15) << 4));
        }
    }
};

} // namespace detail

/// d * scale * code - dmin * minimum for 16 groups of 16: codes of 2 bits, scales and minima of 4.
struct q2_k {
    static constexpr std::string_view name = "q2_k";
    static constexpr std::size_t block_size = 256;
    static constexpr std::uint32_t gguf_type = 10;
    struct block {
        unsigned char scales[16]; ///< of group g: scale in the low half of byte g, minimum in the high half
        unsigned char qs[64];     ///< number 128n + 32j + l: bits 2j of byte 32n + l
        unaligned<std::uint16_t> d, dmin;
    };

    TERN_HOST_DEVICE static void decode(const block& b, float* __restrict out) noexcept {
        const float d = f16_to_f32(b.d.get());
        const float dmin = f16_to_f32(b.dmin.get());
        for (int g = 0; g < 16; ++g) {
            const float scale = d * static_cast<float>(b.scales[g] & 15);
            const float minimum = dmin * static_cast<float>(b.scales[g] >> 4);
            const unsigned char* qs = b.qs + g / 8 * 32 + g % 2 * 16;
            const int shift = g % 8 / 2 * 2;
            for (int l = 0; l < 16; ++l) out[g * 16 + l] = scale * static_cast<float>((qs[l] >> shift) & 3) - minimum;
        }
    }
    static void encode(const float* in, block& b) noexcept {
        float x[256];
        const bool finite = detail::copy_finite(in, x, 256);
        detail::affine_groups<16> fit{.high = 3, .scale_high = 15};
        if (finite) fit.fit(x);
        b = {};
        b.d.set(finite ? detail::scale_bits(fit.d) : detail::f16_nan);
        b.dmin.set(detail::scale_bits(fit.dmin));
        for (int g = 0; g < 16; ++g) b.scales[g] = static_cast<unsigned char>(fit.scale[g] | (fit.minimum[g] << 4));
        for (int i = 0; i < 256; ++i)
            b.qs[i / 128 * 32 + i % 32] |= static_cast<unsigned char>(fit.code[i] << (i % 128 / 32 * 2));
    }
};
static_assert(sizeof(q2_k::block) == 84);

/// d * (scale - 32) * (code - 4) for 16 groups of 16: codes of 3 bits, scales of 6.
struct q3_k {
    static constexpr std::string_view name = "q3_k";
    static constexpr std::size_t block_size = 256;
    static constexpr std::uint32_t gguf_type = 11;
    struct block {
        unsigned char hmask[32];  ///< number 32j + l: bit 2 of its code is bit j of byte l
        unsigned char qs[64];     ///< the low two bits, as in q2_k
        unsigned char scales[12]; ///< low halves of 16 scales in 8 bytes, then their two high bits in 4
        unaligned<std::uint16_t> d;
    };

    /// The scale of group 0..15: -32..31.
    TERN_HOST_DEVICE static int scale(const block& b, int g) noexcept {
        const int low = (b.scales[g % 8] >> (g / 8 * 4)) & 15;
        const int high = (b.scales[8 + g % 4] >> (g / 4 * 2)) & 3;
        return (low | (high << 4)) - 32;
    }

    TERN_HOST_DEVICE static void decode(const block& b, float* __restrict out) noexcept {
        const float d = f16_to_f32(b.d.get());
        for (int g = 0; g < 16; ++g) {
            const float s = d * static_cast<float>(scale(b, g));
            const unsigned char* qs = b.qs + g / 8 * 32 + g % 2 * 16;
            const unsigned char* high = b.hmask + g % 2 * 16;
            const int shift = g % 8 / 2 * 2, bit = g / 2;
            for (int l = 0; l < 16; ++l) {
                const int code = ((qs[l] >> shift) & 3) | (((high[l] >> bit) & 1) << 2);
                out[g * 16 + l] = s * static_cast<float>(code - 4);
            }
        }
    }
    static void encode(const float* in, block& b) noexcept {
        float x[256];
        const bool finite = detail::copy_finite(in, x, 256);
        detail::symmetric_groups<16> fit{.low = -4, .high = 3, .scale_low = -32, .scale_high = 31};
        if (finite) fit.fit(x);
        b = {};
        b.d.set(finite ? detail::scale_bits(fit.d) : detail::f16_nan);
        for (int g = 0; g < 16; ++g) {
            const int s = fit.scale[g] + 32;
            b.scales[g % 8] |= static_cast<unsigned char>((s & 15) << (g / 8 * 4));
            b.scales[8 + g % 4] |= static_cast<unsigned char>((s >> 4) << (g / 4 * 2));
        }
        for (int i = 0; i < 256; ++i) {
            const int code = fit.code[i] + 4;
            b.qs[i / 128 * 32 + i % 32] |= static_cast<unsigned char>((code & 3) << (i % 128 / 32 * 2));
            b.hmask[i % 32] |= static_cast<unsigned char>((code >> 2) << (i / 32));
        }
    }
};
static_assert(sizeof(q3_k::block) == 110);

/// d * scale * code - dmin * minimum for 8 groups of 32: codes of 4 bits, scales and minima of 6.
struct q4_k {
    static constexpr std::string_view name = "q4_k";
    static constexpr std::size_t block_size = 256;
    static constexpr std::uint32_t gguf_type = 12;
    struct block {
        unaligned<std::uint16_t> d, dmin;
        detail::packed_scales scales;
        unsigned char qs[128]; ///< number 64n + l in the low half of byte 32n + l, number 64n + 32 + l in the high half
    };

    TERN_HOST_DEVICE static void decode(const block& b, float* __restrict out) noexcept {
        const float d = f16_to_f32(b.d.get());
        const float dmin = f16_to_f32(b.dmin.get());
        for (int g = 0; g < 8; ++g) {
            const float scale = d * static_cast<float>(b.scales.scale(g));
            const float minimum = dmin * static_cast<float>(b.scales.minimum(g));
            const unsigned char* qs = b.qs + g / 2 * 32;
            const int shift = g % 2 * 4;
            for (int l = 0; l < 32; ++l) out[g * 32 + l] = scale * static_cast<float>((qs[l] >> shift) & 15) - minimum;
        }
    }
    static void encode(const float* in, block& b) noexcept {
        float x[256];
        const bool finite = detail::copy_finite(in, x, 256);
        detail::affine_groups<8> fit{.high = 15, .scale_high = 63};
        if (finite) fit.fit(x);
        b = {};
        b.d.set(finite ? detail::scale_bits(fit.d) : detail::f16_nan);
        b.dmin.set(detail::scale_bits(fit.dmin));
        b.scales.set(fit.scale, fit.minimum);
        for (int i = 0; i < 256; ++i)
            b.qs[i / 64 * 32 + i % 32] |= static_cast<unsigned char>(fit.code[i] << (i % 64 / 32 * 4));
    }
};
static_assert(sizeof(q4_k::block) == 144);

/// d * scale * code - dmin * minimum for 8 groups of 32: codes of 5 bits, scales and minima of 6.
struct q5_k {
    static constexpr std::string_view name = "q5_k";
    static constexpr std::size_t block_size = 256;
    static constexpr std::uint32_t gguf_type = 13;
    struct block {
        unaligned<std::uint16_t> d, dmin;
        detail::packed_scales scales;
        unsigned char qh[32];  ///< number 32j + l: bit 4 of its code is bit j of byte l
        unsigned char qs[128]; ///< the low four bits, as in q4_k
    };

    TERN_HOST_DEVICE static void decode(const block& b, float* __restrict out) noexcept {
        const float d = f16_to_f32(b.d.get());
        const float dmin = f16_to_f32(b.dmin.get());
        for (int g = 0; g < 8; ++g) {
            const float scale = d * static_cast<float>(b.scales.scale(g));
            const float minimum = dmin * static_cast<float>(b.scales.minimum(g));
            const unsigned char* qs = b.qs + g / 2 * 32;
            const int shift = g % 2 * 4;
            for (int l = 0; l < 32; ++l) {
                const int code = ((qs[l] >> shift) & 15) | (((b.qh[l] >> g) & 1) << 4);
                out[g * 32 + l] = scale * static_cast<float>(code) - minimum;
            }
        }
    }
    static void encode(const float* in, block& b) noexcept {
        float x[256];
        const bool finite = detail::copy_finite(in, x, 256);
        detail::affine_groups<8> fit{.high = 31, .scale_high = 63};
        if (finite) fit.fit(x);
        b = {};
        b.d.set(finite ? detail::scale_bits(fit.d) : detail::f16_nan);
        b.dmin.set(detail::scale_bits(fit.dmin));
        b.scales.set(fit.scale, fit.minimum);
        for (int i = 0; i < 256; ++i) {
            b.qs[i / 64 * 32 + i % 32] |= static_cast<unsigned char>((fit.code[i] & 15) << (i % 64 / 32 * 4));
            b.qh[i % 32] |= static_cast<unsigned char>((fit.code[i] >> 4) << (i / 32));
        }
    }
};
static_assert(sizeof(q5_k::block) == 176);

/// d * scale * (code - 32) for 16 groups of 16: codes of 6 bits, scales of 8 with sign.
struct q6_k {
    static constexpr std::string_view name = "q6_k";
    static constexpr std::size_t block_size = 256;
    static constexpr std::uint32_t gguf_type = 14;
    struct block {
        unsigned char ql[128]; ///< number 128n + 64h + l: the low four bits are half h of byte 64n + l
        unsigned char qh[64];  ///< number 128n + 32j + l: the high two bits are bits 2j of byte 32n + l
        signed char scales[16];
        unaligned<std::uint16_t> d;
    };

    TERN_HOST_DEVICE static void decode(const block& b, float* __restrict out) noexcept {
        const float d = f16_to_f32(b.d.get());
        for (int g = 0; g < 16; ++g) {
            const float s = d * static_cast<float>(b.scales[g]);
            const unsigned char* ql = b.ql + g / 8 * 64 + g % 4 * 16;
            const unsigned char* qh = b.qh + g / 8 * 32 + g % 2 * 16;
            const int half = g % 8 / 4 * 4, shift = g % 8 / 2 * 2;
            for (int l = 0; l < 16; ++l) {
                const int code = ((ql[l] >> half) & 15) | (((qh[l] >> shift) & 3) << 4);
                out[g * 16 + l] = s * static_cast<float>(code - 32);
            }
        }
    }
    static void encode(const float* in, block& b) noexcept {
        float x[256];
        const bool finite = detail::copy_finite(in, x, 256);
        detail::symmetric_groups<16> fit{.low = -32, .high = 31, .scale_low = -128, .scale_high = 127};
        if (finite) fit.fit(x);
        b = {};
        b.d.set(finite ? detail::scale_bits(fit.d) : detail::f16_nan);
        for (int g = 0; g < 16; ++g) b.scales[g] = static_cast<signed char>(fit.scale[g]);
        for (int i = 0; i < 256; ++i) {
            const int code = fit.code[i] + 32;
            b.ql[i / 128 * 64 + i % 64] |= static_cast<unsigned char>((code & 15) << (i % 128 / 64 * 4));
            b.qh[i / 128 * 32 + i % 32] |= static_cast<unsigned char>((code >> 4) << (i % 128 / 32 * 2));
        }
    }
};
static_assert(sizeof(q6_k::block) == 210);

} // namespace tern
