// 32 numbers of a quantized row in registers of a device: whole numbers in bytes, four to a word, for __dp4a.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include <tern/cuda/kernel.hpp>
#include <tern/format/blocks.hpp>
#include <tern/format/iq4.hpp>
#include <tern/format/k_quants.hpp>
#include <tern/format/mxfp4.hpp>

namespace tern::cuda {

/// Number i is scale * factor[i / 16] * (byte i of words) - low * low_code[i / 16]: kernel::integer_part with its codes
/// in two factors, so that each fits into a byte.
struct packed_part {
    float scale = 0, low = 0;
    int factor[2] = {1, 1};
    int low_code[2] = {1, 1};
    unsigned words[8];
};

/// Count words from any address, in loads as wide as its alignment allows: 16, 4, 2 or 1 bytes.
template <int Count> __device__ inline void load_words(const void* from, unsigned (&to)[Count]) {
    const auto* p = static_cast<const unsigned char*>(from);
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    if (Count % 4 == 0 && address % 16 == 0) {
        for (int i = 0; i + 3 < Count; i += 4) {
            const uint4 four = *reinterpret_cast<const uint4*>(p + 4 * i);
            to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
        }
    } else if (address % 4 == 0) {
        for (int i = 0; i < Count; ++i) to[i] = *reinterpret_cast<const unsigned*>(p + 4 * i);
    } else if (address % 2 == 0) {
        for (int i = 0; i < Count; ++i) {
            const auto* half = reinterpret_cast<const unsigned short*>(p + 4 * i);
            to[i] = half[0] | (static_cast<unsigned>(half[1]) << 16);
        }
    } else {
        for (int i = 0; i < Count; ++i) to[i] = tern::load<unsigned>(p + 4 * i);
    }
}

namespace detail {

/// Low halves of 16 bytes, then the high halves.
__device__ inline void nibbles(const unsigned char* qs, unsigned (&words)[8]) {
    unsigned raw[4];
    load_words(qs, raw);
    for (int i = 0; i < 4; ++i) words[i] = raw[i] & 0x0F0F0F0Fu, words[4 + i] = (raw[i] >> 4) & 0x0F0F0F0Fu;
}
__device__ inline void subtract(unsigned (&words)[8], unsigned four) {
    for (unsigned& w : words) w = __vsub4(w, four);
}
/// Bit i goes to bit 4 of byte i.
__device__ inline void fifth(std::uint32_t qh, unsigned (&words)[8]) {
    for (int i = 0; i < 8; ++i) {
        const unsigned b = qh >> (4 * i);
        words[i] |= ((b & 1u) << 4) | ((b & 2u) << 11) | ((b & 4u) << 18) | ((b & 8u) << 25);
    }
}
/// Bits shift .. of 32 bytes, under a mask, moved up.
__device__ inline void bits(const unsigned char* from, int shift, unsigned mask, int up, unsigned (&words)[8]) {
    unsigned raw[8];
    load_words(from, raw);
    for (int i = 0; i < 8; ++i) words[i] |= ((raw[i] >> shift) & mask) << up;
}
template <class Map> __device__ void map_bytes(unsigned (&words)[8], Map map) {
    for (unsigned& w : words) {
        unsigned mapped = 0;
        for (int i = 0; i < 4; ++i)
            mapped |= (static_cast<unsigned>(map(static_cast<int>((w >> (8 * i)) & 255u))) & 255u) << (8 * i);
        w = mapped;
    }
}

} // namespace detail

/// Reads part p (numbers 32 p .. 32 p + 31) of a row. `lows` as in kernel::integer_form.
template <class F> struct part_of;

template <> struct part_of<q4_0> {
    static constexpr int lows = 0;
    __device__ static void read(const q4_0::block* row, std::size_t part, packed_part& out) {
        out.scale = f16_to_f32(row[part].d.get());
        detail::nibbles(row[part].qs, out.words);
        detail::subtract(out.words, 0x08080808u);
    }
};
template <> struct part_of<q4_1> {
    static constexpr int lows = 1;
    __device__ static void read(const q4_1::block* row, std::size_t part, packed_part& out) {
        out.scale = f16_to_f32(row[part].d.get()), out.low = -f16_to_f32(row[part].m.get());
        detail::nibbles(row[part].qs, out.words);
    }
};
template <> struct part_of<q5_0> {
    static constexpr int lows = 0;
    __device__ static void read(const q5_0::block* row, std::size_t part, packed_part& out) {
        out.scale = f16_to_f32(row[part].d.get());
        detail::nibbles(row[part].qs, out.words);
        detail::fifth(row[part].qh.get(), out.words);
        detail::subtract(out.words, 0x10101010u);
    }
};
template <> struct part_of<q5_1> {
    static constexpr int lows = 1;
    __device__ static void read(const q5_1::block* row, std::size_t part, packed_part& out) {
        out.scale = f16_to_f32(row[part].d.get()), out.low = -f16_to_f32(row[part].m.get());
        detail::nibbles(row[part].qs, out.words);
        detail::fifth(row[part].qh.get(), out.words);
    }
};
template <> struct part_of<q8_0> {
    static constexpr int lows = 0;
    __device__ static void read(const q8_0::block* row, std::size_t part, packed_part& out) {
        out.scale = f16_to_f32(row[part].d.get());
        load_words(row[part].qs, out.words);
    }
};
template <> struct part_of<iq4_nl> {
    static constexpr int lows = 0;
    __device__ static void read(const iq4_nl::block* row, std::size_t part, packed_part& out) {
        out.scale = f16_to_f32(row[part].d.get());
        detail::nibbles(row[part].qs, out.words);
        detail::map_bytes(out.words, [](int code) { return static_cast<int>(iq4_nl::level(code)); });
    }
};
template <> struct part_of<mxfp4> {
    static constexpr int lows = 0;
    __device__ static void read(const mxfp4::block* row, std::size_t part, packed_part& out) {
        out.scale = 0.5f * e8m0_to_f32(row[part].e); // the codes are twice the values
        detail::nibbles(row[part].qs, out.words);
        detail::map_bytes(out.words, [](int code) { return mxfp4::twice(code); });
    }
};
template <> struct part_of<q2_k> {
    static constexpr int lows = 2;
    __device__ static void read(const q2_k::block* row, std::size_t part, packed_part& out) {
        const q2_k::block& b = row[part / 8];
        const auto j = static_cast<int>(part % 8);
        out.scale = f16_to_f32(b.d.get()), out.low = f16_to_f32(b.dmin.get());
        for (unsigned& w : out.words) w = 0;
        detail::bits(b.qs + j / 4 * 32, j % 4 * 2, 0x03030303u, 0, out.words);
        for (int h = 0; h < 2; ++h)
            out.factor[h] = b.scales[2 * j + h] & 15, out.low_code[h] = b.scales[2 * j + h] >> 4;
    }
};
template <> struct part_of<q3_k> {
    static constexpr int lows = 0;
    __device__ static void read(const q3_k::block* row, std::size_t part, packed_part& out) {
        const q3_k::block& b = row[part / 8];
        const auto j = static_cast<int>(part % 8);
        out.scale = f16_to_f32(b.d.get());
        for (unsigned& w : out.words) w = 0;
        detail::bits(b.qs + j / 4 * 32, j % 4 * 2, 0x03030303u, 0, out.words);
        detail::bits(b.hmask, j, 0x01010101u, 2, out.words);
        detail::subtract(out.words, 0x04040404u);
        for (int h = 0; h < 2; ++h) out.factor[h] = q3_k::scale(b, 2 * j + h);
    }
};
template <> struct part_of<q4_k> {
    static constexpr int lows = 1;
    __device__ static void read(const q4_k::block* row, std::size_t part, packed_part& out) {
        const q4_k::block& b = row[part / 8];
        const auto j = static_cast<int>(part % 8);
        out.scale = f16_to_f32(b.d.get()) * static_cast<float>(b.scales.scale(j));
        out.low = f16_to_f32(b.dmin.get()) * static_cast<float>(b.scales.minimum(j));
        for (unsigned& w : out.words) w = 0;
        detail::bits(b.qs + j / 2 * 32, j % 2 * 4, 0x0F0F0F0Fu, 0, out.words);
    }
};
template <> struct part_of<q5_k> {
    static constexpr int lows = 1;
    __device__ static void read(const q5_k::block* row, std::size_t part, packed_part& out) {
        const q5_k::block& b = row[part / 8];
        const auto j = static_cast<int>(part % 8);
        out.scale = f16_to_f32(b.d.get()) * static_cast<float>(b.scales.scale(j));
        out.low = f16_to_f32(b.dmin.get()) * static_cast<float>(b.scales.minimum(j));
        for (unsigned& w : out.words) w = 0;
        detail::bits(b.qs + j / 2 * 32, j % 2 * 4, 0x0F0F0F0Fu, 0, out.words);
        detail::bits(b.qh, j, 0x01010101u, 4, out.words);
    }
};
template <> struct part_of<q6_k> {
    static constexpr int lows = 0;
    __device__ static void read(const q6_k::block* row, std::size_t part, packed_part& out) {
        const q6_k::block& b = row[part / 8];
        const auto j = static_cast<int>(part % 8);
        out.scale = f16_to_f32(b.d.get());
        for (unsigned& w : out.words) w = 0;
        detail::bits(b.ql + j / 4 * 64 + j % 2 * 32, j % 4 / 2 * 4, 0x0F0F0F0Fu, 0, out.words);
        detail::bits(b.qh + j / 4 * 32, j % 4 * 2, 0x03030303u, 4, out.words);
        detail::subtract(out.words, 0x20202020u);
        for (int h = 0; h < 2; ++h) out.factor[h] = b.scales[2 * j + h];
    }
};

/// Formats whose rows are read in parts.
template <class F>
concept has_parts = requires {
    { part_of<F>::lows } -> std::convertible_to<int>;
};

} // namespace tern::cuda
