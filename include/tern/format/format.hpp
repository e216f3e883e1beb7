// The format concept: how numbers are encoded. A format is a struct with a block type and a decode function.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <tern/base/checked.hpp>
#include <tern/base/config.hpp>

namespace tern {

/// First half: the layout. A block of bytes stands for `block_size` numbers of one row. Its alignment is 1, so that a
/// tensor may be computed in place wherever its bytes begin in a mapped file.
/// `name` and `block_size` are constants.
template <class F>
concept format_layout = requires {
    typename F::block;
    requires std::integral<std::remove_cv_t<decltype(F::block_size)>>;
    typename std::bool_constant<(F::block_size > 0)>;
    requires F::block_size > 0;
    typename std::bool_constant<(std::string_view(F::name).size() > 0)>;
    requires std::string_view(F::name).size() > 0;
} && std::is_trivially_copyable_v<typename F::block> && (alignof(typename F::block) == 1);

/// Second half: `decode(block, out)` writes `block_size` floats and never throws. The block does not overlap what is
/// written.
template <class F>
concept format_decodable = requires(const typename F::block& block, float* out) {
    { F::decode(block, out) } noexcept -> std::same_as<void>;
};

/// Optional half: `encode(in, block)` reads `block_size` floats, which may be any, NaN and infinity too.
template <class F>
concept format_encodable = requires(const float* in, typename F::block& block) {
    { F::encode(in, block) } noexcept -> std::same_as<void>;
};

/// How numbers are encoded. A user's own needs nothing else, and works in every operator through the plain kernels.
///
///     struct halves {                                       // 16 numbers, each in half steps, in 16 bytes
///         static constexpr std::string_view name = "halves";
///         static constexpr std::size_t block_size = 16;
///         struct block { signed char q[16]; };
///         TERN_HOST_DEVICE static void decode(const block& b, float* out) noexcept {
///             for (int i = 0; i < 16; ++i) out[i] = 0.5f * b.q[i];
///         }
///     };
///     static_assert(tern::format<halves>);
template <class F>
concept format = format_layout<F> && format_decodable<F>;

/// The GGUF type id of a format, where it has one.
template <format_layout F> constexpr std::optional<std::uint32_t> gguf_type_of() noexcept {
    if constexpr (requires { F::gguf_type; })
        return std::uint32_t{F::gguf_type};
    else
        return std::nullopt;
}

/// Bytes of one row of `cols` numbers; throws shape_error where cols is not a multiple of the block size or the size
/// overflows.
template <format_layout F> constexpr std::uint64_t row_bytes(std::uint64_t cols) {
    if (cols % F::block_size != 0)
        throw shape_error("row length " + std::to_string(cols) + " is not a multiple of " +
                          std::to_string(F::block_size) + ", the block size of " + std::string(F::name));
    return checked_mul<std::uint64_t>(cols / F::block_size, sizeof(typename F::block), "the bytes of a row");
}

/// The run-time twin of a format.
struct format_info {
    std::string_view name;
    std::size_t block_size;
    std::size_t block_bytes;
    std::optional<std::uint32_t> gguf_type;
};

template <format F>
inline constexpr format_info info_of{F::name, F::block_size, sizeof(typename F::block), gguf_type_of<F>()};

} // namespace tern
