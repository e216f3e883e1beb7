// How a format's blocks look to an integer product: whole numbers with a scale for every 32.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include <tern/format/blocks.hpp>
#include <tern/format/half.hpp>
#include <tern/format/iq4.hpp>
#include <tern/format/k_quants.hpp>
#include <tern/format/mxfp4.hpp>

namespace tern::kernel {

/// 32 numbers of a row: number i is scale * code[i] - low * low_code[i / 16]. Sums of codes times 127 must fit into 31
/// bits: codes of at most 17 bits with sign.
struct integer_part {
    float scale = 0;
    std::int32_t code[32]{};
    float low = 0;
    std::int32_t low_code[2]{};
};

/// Specialised for every format that has such a form, a user's own included:
///
///     template <> struct tern::kernel::integer_form<my_format> {
///         static constexpr int lows = 0;           // 0: there is no `low`; 1: low_code is 1; 2: it is used
///         static void read(const my_format::block* row, std::size_t part, tern::kernel::integer_part& out);
///     };
///
/// `read` gives numbers 32 * part .. 32 * part + 31 of a row.
template <class F> struct integer_form;

template <class F>
concept has_integer_form = requires(const typename F::block* row, std::size_t part, integer_part& out) {
    { integer_form<F>::lows } -> std::convertible_to<int>;
    { integer_form<F>::read(row, part, out) } -> std::same_as<void>;
} && (F::block_size % 32 == 0);

namespace detail {

inline void read_nibbles(const unsigned char* qs, int offset, std::int32_t* code) noexcept {
    for (int i = 0; i < 16; ++i) {
        code[i] = (qs[i] & 15) - offset;
        code[i + 16] = (qs[i] >> 4) - offset;
    }
}

inline void read_fifth_bits(std::uint32_t qh, std::int32_t* code) noexcept {
    for (int i = 0; i < 32; ++i) code[i] += static_cast<std::int32_t>(((qh >> i) & 1u) << 4);
}

} // namespace detail

template <> struct integer_form<q4_0> {
    static constexpr int lows = 0;
    static void read(const q4_0::block* row, std::size_t part, integer_part& out) noexcept {
        out.scale = f16_to_f32(row[part].d.get());
        detail::read_nibbles(row[part].qs, 8, out.code);
    }
};

template <> struct integer_form<q4_1> {
    static constexpr int lows = 1;
    static void read(const q4_1::block* row, std::size_t part, integer_part& out) noexcept {
        out.scale = f16_to_f32(row[part].d.get());
        out.low = -f16_to_f32(row[part].m.get());
        detail::read_nibbles(row[part].qs, 0, out.code);
    }
};

template <> struct integer_form<q5_0> {
    static constexpr int lows = 0;
    static void read(const q5_0::block* row, std::size_t part, integer_part& out) noexcept {
        out.scale = f16_to_f32(row[part].d.get());
        detail::read_nibbles(row[part].qs, 16, out.code);
        detail::read_fifth_bits(row[part].qh.get(), out.code);
    }
};

template <> struct integer_form<q5_1> {
    static constexpr int lows = 1;
    static void read(const q5_1::block* row, std::size_t part, integer_part& out) noexcept {
        out.scale = f16_to_f32(row[part].d.get());
        out.low = -f16_to_f32(row[part].m.get());
        detail::read_nibbles(row[part].qs, 0, out.code);
        detail::read_fifth_bits(row[part].qh.get(), out.code);
    }
};

template <> struct integer_form<q8_0> {
    static constexpr int lows = 0;
    static void read(const q8_0::block* row, std::size_t part, integer_part& out) noexcept {
        out.scale = f16_to_f32(row[part].d.get());
        for (int i = 0; i < 32; ++i) out.code[i] = row[part].qs[i];
    }
};

template <> struct integer_form<iq4_nl> {
    static constexpr int lows = 0;
    static void read(const iq4_nl::block* row, std::size_t part, integer_part& out) noexcept {
        out.scale = f16_to_f32(row[part].d.get());
        for (int i = 0; i < 16; ++i) {
            out.code[i] = static_cast<std::int32_t>(iq4_nl::level(row[part].qs[i] & 15));
            out.code[i + 16] = static_cast<std::int32_t>(iq4_nl::level(row[part].qs[i] >> 4));
        }
    }
};

/// The scale is half the block's, as the codes are twice its values.
template <> struct integer_form<mxfp4> {
    static constexpr int lows = 0;
    static void read(const mxfp4::block* row, std::size_t part, integer_part& out) noexcept {
        out.scale = 0.5f * e8m0_to_f32(row[part].e);
        for (int i = 0; i < 16; ++i) {
            out.code[i] = mxfp4::twice(row[part].qs[i] & 15);
            out.code[i + 16] = mxfp4::twice(row[part].qs[i] >> 4);
        }
    }
};

/// The scales of groups of 16 are whole numbers: they go into the codes.
template <> struct integer_form<q2_k> {
    static constexpr int lows = 2;
    static void read(const q2_k::block* row, std::size_t part, integer_part& out) noexcept {
        const q2_k::block& b = row[part / 8];
        const auto j = static_cast<int>(part % 8);
        out.scale = f16_to_f32(b.d.get());
        out.low = f16_to_f32(b.dmin.get());
        for (int i = 0; i < 32; ++i)
            out.code[i] = ((b.qs[j / 4 * 32 + i] >> (j % 4 * 2)) & 3) * (b.scales[2 * j + i / 16] & 15);
        for (int h = 0; h < 2; ++h) out.low_code[h] = b.scales[2 * j + h] >> 4;
    }
};

template <> struct integer_form<q3_k> {
    static constexpr int lows = 0;
    static void read(const q3_k::block* row, std::size_t part, integer_part& out) noexcept {
        const q3_k::block& b = row[part / 8];
        const auto j = static_cast<int>(part % 8);
        out.scale = f16_to_f32(b.d.get());
        for (int i = 0; i < 32; ++i) {
            const int code = ((b.qs[j / 4 * 32 + i] >> (j % 4 * 2)) & 3) | (((b.hmask[i] >> j) & 1) << 2);
            out.code[i] = (code - 4) * q3_k::scale(b, 2 * j + i / 16);
        }
    }
};

template <> struct integer_form<q4_k> {
    static constexpr int lows = 1;
    static void read(const q4_k::block* row, std::size_t part, integer_part& out) noexcept {
        const q4_k::block& b = row[part / 8];
        const auto j = static_cast<int>(part % 8);
        out.scale = f16_to_f32(b.d.get()) * static_cast<float>(b.scales.scale(j));
        out.low = f16_to_f32(b.dmin.get()) * static_cast<float>(b.scales.minimum(j));
        for (int i = 0; i < 32; ++i) out.code[i] = (b.qs[j / 2 * 32 + i] >> (j % 2 * 4)) & 15;
    }
};

template <> struct integer_form<q5_k> {
    static constexpr int lows = 1;
    static void read(const q5_k::block* row, std::size_t part, integer_part& out) noexcept {
        const q5_k::block& b = row[part / 8];
        const auto j = static_cast<int>(part % 8);
        out.scale = f16_to_f32(b.d.get()) * static_cast<float>(b.scales.scale(j));
        out.low = f16_to_f32(b.dmin.get()) * static_cast<float>(b.scales.minimum(j));
        for (int i = 0; i < 32; ++i)
            out.code[i] = ((b.qs[j / 2 * 32 + i] >> (j % 2 * 4)) & 15) | (((b.qh[i] >> j) & 1) << 4);
    }
};

template <> struct integer_form<q6_k> {
    static constexpr int lows = 0;
    static void read(const q6_k::block* row, std::size_t part, integer_part& out) noexcept {
        const q6_k::block& b = row[part / 8];
        const auto j = static_cast<int>(part % 8);
        out.scale = f16_to_f32(b.d.get());
        for (int i = 0; i < 32; ++i) {
            const int low = (b.ql[j / 4 * 64 + j % 2 * 32 + i] >> (j % 4 / 2 * 4)) & 15;
            const int high = (b.qh[j / 4 * 32 + i] >> (j % 4 * 2)) & 3;
            out.code[i] = ((low | (high << 4)) - 32) * b.scales[2 * j + i / 16];
        }
    }
};

} // namespace tern::kernel
