// Blocks of 32 numbers with one scale: q4_0, q5_0, q8_0 (symmetric) and q4_1, q5_1 (with an offset).
// In decoding each product of a scale and a code is exact in f32, so a compiler that fuses multiply and add changes
// nothing. A block that is given a NaN or an infinity decodes to NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include <tern/base/config.hpp>
#include <tern/format/fit.hpp>
#include <tern/format/half.hpp>

namespace tern {

namespace detail {

/// Codes of 4 bits: number i is the low half of byte i for i < 16, number i + 16 the high half.
inline void pack_nibbles(const int* codes, unsigned char* qs) noexcept {
    for (int i = 0; i < 16; ++i) qs[i] = static_cast<unsigned char>((codes[i] & 15) | ((codes[i + 16] & 15) << 4));
}

/// Bit 4 of each of 32 codes.
inline std::uint32_t fifth_bits(const int* codes) noexcept {
    std::uint32_t bits = 0;
    for (int i = 0; i < 32; ++i) bits |= (static_cast<std::uint32_t>(codes[i] >> 4) & 1u) << i;
    return bits;
}

/// Scale and codes (0..high-low) of 32 numbers stored as scale * (code + low); returns the scale's bits.
inline std::uint16_t encode_symmetric(const float* in, int low, int high, int* codes) noexcept {
    float x[32];
    const bool finite = copy_finite(in, x, 32);
    const float d = finite ? fit_scale(x, 32, even_levels{low, high}, stored_scale) : 0.0f;
    const float inv = inverse(d);
    for (int i = 0; i < 32; ++i) codes[i] = nearest(x[i] * inv, low, high) - low;
    return finite ? scale_bits(d) : f16_nan;
}

/// Scale, offset and codes (0..high) of 32 numbers stored as scale * code + offset. The least squares may not make
/// the largest error worse than half a step of the plain rule, so that a narrow range keeps its bound.
inline void encode_affine(const float* in, int high, unaligned<std::uint16_t>& d, unaligned<std::uint16_t>& m,
                          int* codes) noexcept {
    float x[32];
    affine best;
    const bool finite = copy_finite(in, x, 32);
    if (finite) {
        affine_loss best_loss;
        double bound = -1;
        for_each_affine(x, 32, high, std::numeric_limits<float>::max(), [&](affine a) {
            a = {stored_scale(a.scale), stored_offset(a.offset)};
            const affine_loss loss = affine_error(x, 32, a, high);
            const bool first = bound < 0;
            if (first) bound = loss.largest;
            if (first || (loss.squares < best_loss.squares && loss.largest <= bound)) best = a, best_loss = loss;
        });
    }
    const float inv = inverse(best.scale);
    for (int i = 0; i < 32; ++i) codes[i] = affine_pick(x[i], best, inv, high);
    d.set(finite ? scale_bits(best.scale) : f16_nan);
    m.set(scale_bits(best.offset));
}

} // namespace detail

/// d * (code - 8), codes of 4 bits.
struct q4_0 {
    static constexpr std::string_view name = "q4_0";
    static constexpr std::size_t block_size = 32;
    static constexpr std::uint32_t gguf_type = 2;
    struct block {
        unaligned<std::uint16_t> d; ///< binary16
        unsigned char qs[16];       ///< number i in the low half of byte i, number i + 16 in the high half
    };

    TERN_HOST_DEVICE static void decode(const block& b, float* __restrict out) noexcept {
        const float d = f16_to_f32(b.d.get());
        for (int i = 0; i < 16; ++i) {
            out[i] = d * static_cast<float>((b.qs[i] & 15) - 8);
            out[i + 16] = d * static_cast<float>((b.qs[i] >> 4) - 8);
        }
    }
    static void encode(const float* in, block& b) noexcept {
        int codes[32];
        b.d.set(detail::encode_symmetric(in, -8, 7, codes));
        detail::pack_nibbles(codes, b.qs);
    }
};
static_assert(sizeof(q4_0::block) == 18);

/// d * code + m, codes of 4 bits.
struct q4_1 {
    static constexpr std::string_view name = "q4_1";
    static constexpr std::size_t block_size = 32;
    static constexpr std::uint32_t gguf_type = 3;
    struct block {
        unaligned<std::uint16_t> d; ///< binary16
        unaligned<std::uint16_t> m; ///< binary16
        unsigned char qs[16];       ///< as in q4_0
    };

    TERN_HOST_DEVICE static void decode(const block& b, float* __restrict out) noexcept {
        const float d = f16_to_f32(b.d.get());
        const float m = f16_to_f32(b.m.get());
        for (int i = 0; i < 16; ++i) {
            out[i] = d * static_cast<float>(b.qs[i] & 15) + m;
            out[i + 16] = d * static_cast<float>(b.qs[i] >> 4) + m;
        }
    }
    static void encode(const float* in, block& b) noexcept {
        int codes[32];
        detail::encode_affine(in, 15, b.d, b.m, codes);
        detail::pack_nibbles(codes, b.qs);
    }
};
static_assert(sizeof(q4_1::block) == 20);

/// d * (code - 16), codes of 5 bits.
struct q5_0 {
    static constexpr std::string_view name = "q5_0";
    static constexpr std::size_t block_size = 32;
    static constexpr std::uint32_t gguf_type = 6;
    struct block {
        unaligned<std::uint16_t> d;  ///< binary16
        unaligned<std::uint32_t> qh; ///< bit i is bit 4 of number i
        unsigned char qs[16];        ///< the low bits, as in q4_0
    };

    TERN_HOST_DEVICE static void decode(const block& b, float* __restrict out) noexcept {
        const float d = f16_to_f32(b.d.get());
        const std::uint32_t qh = b.qh.get();
        for (int i = 0; i < 16; ++i) {
            const auto low = static_cast<int>((qh >> i) & 1u), high = static_cast<int>((qh >> (i + 16)) & 1u);
            out[i] = d * static_cast<float>(((b.qs[i] & 15) | (low << 4)) - 16);
            out[i + 16] = d * static_cast<float>(((b.qs[i] >> 4) | (high << 4)) - 16);
        }
    }
    static void encode(const float* in, block& b) noexcept {
        int codes[32];
        b.d.set(detail::encode_symmetric(in, -16, 15, codes));
        b.qh.set(detail::fifth_bits(codes));
        detail::pack_nibbles(codes, b.qs);
    }
};
static_assert(sizeof(q5_0::block) == 22);

/// d * code + m, codes of 5 bits.
struct q5_1 {
    static constexpr std::string_view name = "q5_1";
    static constexpr std::size_t block_size = 32;
    static constexpr std::uint32_t gguf_type = 7;
    struct block {
        unaligned<std::uint16_t> d;  ///< binary16
        unaligned<std::uint16_t> m;  ///< binary16
        unaligned<std::uint32_t> qh; ///< as in q5_0
        unsigned char qs[16];        ///< as in q4_0
    };

    TERN_HOST_DEVICE static void decode(const block& b, float* __restrict out) noexcept {
        const float d = f16_to_f32(b.d.get());
        const float m = f16_to_f32(b.m.get());
        const std::uint32_t qh = b.qh.get();
        for (int i = 0; i < 16; ++i) {
            const auto low = static_cast<int>((qh >> i) & 1u), high = static_cast<int>((qh >> (i + 16)) & 1u);
            out[i] = d * static_cast<float>((b.qs[i] & 15) | (low << 4)) + m;
            out[i + 16] = d * static_cast<float>((b.qs[i] >> 4) | (high << 4)) + m;
        }
    }
    static void encode(const float* in, block& b) noexcept {
        int codes[32];
        detail::encode_affine(in, 31, b.d, b.m, codes);
        b.qh.set(detail::fifth_bits(codes));
        detail::pack_nibbles(codes, b.qs);
    }
};
static_assert(sizeof(q5_1::block) == 24);

/// d * code, codes of 8 bits with sign.
struct q8_0 {
    static constexpr std::string_view name = "q8_0";
    static constexpr std::size_t block_size = 32;
    static constexpr std::uint32_t gguf_type = 8;
    struct block {
        unaligned<std::uint16_t> d; ///< binary16
        signed char qs[32];
    };

    TERN_HOST_DEVICE static void decode(const block& b, float* __restrict out) noexcept {
        const float d = f16_to_f32(b.d.get());
        for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(b.qs[i]);
    }
    /// Codes stay within -127..127, so that a product of two of them fits where kernels need it to.
    static void encode(const float* in, block& b) noexcept {
        int codes[32];
        b.d.set(detail::encode_symmetric(in, -127, 127, codes));
        for (int i = 0; i < 32; ++i) b.qs[i] = static_cast<signed char>(codes[i] - 127);
    }
};
static_assert(sizeof(q8_0::block) == 34);

} // namespace tern
