// repacked<from, to>: a transfer that changes the format on arrival.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include <tern/base/checked.hpp>
#include <tern/format/format.hpp>
#include <tern/transfer/staged.hpp>

namespace tern {

/// Slices stored as `From` arrive as `To`, decoded and encoded chunk by chunk; others move like `Base`. Budgets count
/// the bytes that arrive. A repacked format is another format: the tensor is of format `To` wherever it is computed, so
/// its mapping is never used in place. Needs two stages of about a mebibyte.
///
///     using weight = tern::tensor<tern::formats<tern::q8_0, tern::f32>, tern::tiers<tern::pageable>,
///                                 tern::repacked<tern::bf16, tern::q8_0>>;
template <format From, format To, transfer_strategy Base = staged<bytes{1 << 20}, 2>>
    requires format_encodable<To>
struct repacked {
    static constexpr std::string_view name = "repacked";
    static constexpr std::size_t ahead = ahead_of<Base>();

    static constexpr std::string_view arrives_as(std::string_view stored) noexcept {
        return stored == From::name ? std::string_view(To::name) : stored;
    }
    /// Throws shape_error where `size` is no whole number of blocks.
    static constexpr bytes arrival_size(std::string_view stored, bytes size) {
        if (stored != From::name) return size;
        const std::uint64_t values = size.count / sizeof(typename From::block) * From::block_size;
        if (size.count % sizeof(typename From::block) != 0 || values % To::block_size != 0)
            throw shape_error("a slice that is repacked to " + std::string(To::name) + " is no whole number of blocks");
        return {checked_mul<std::uint64_t>(values / To::block_size, sizeof(typename To::block))};
    }

    template <class Void = void> static task<Void> move(transfer_request request) {
        if (request.from.format != From::name) {
            co_await Base::move(std::move(request));
            co_return;
        }
        const std::uint64_t units = request.size.count / unit_out;
        const std::uint64_t step = units < units_in_chunk ? units : units_in_chunk;
        const allocation in = request.staging->allocate({step * unit_in}, request.what);
        const allocation out =
            request.to_host() ? allocation{} : request.staging->allocate({step * unit_out}, request.what);
        for (std::uint64_t u = 0; u < units; u += step) {
            const std::uint64_t n = units - u < step ? units - u : step;
            std::byte* const to = request.to + u * unit_out;
            std::byte* const made = out ? out.data() : to;
            co_await read_backing(request, u * unit_in, in.data(), n * unit_in);
            for (std::uint64_t i = 0; i < n; ++i) convert(in.data() + i * unit_in, made + i * unit_out);
            if (out) co_await copy(*request.on, *request.home, direction::to_device, to, made, {n * unit_out});
            arrived(request, n * unit_out);
        }
    }

private:
    // The smallest number of values that both formats hold in whole blocks: one block size divides the other.
    static constexpr std::size_t values =
        From::block_size > To::block_size ? std::size_t{From::block_size} : std::size_t{To::block_size};
    static_assert(values % From::block_size == 0 && values % To::block_size == 0,
                  "tern: repacked<from, to> needs formats of which one's block holds whole blocks of the other");
    static constexpr std::size_t unit_in = values / From::block_size * sizeof(typename From::block);
    static constexpr std::size_t unit_out = values / To::block_size * sizeof(typename To::block);
    static constexpr std::uint64_t units_in_chunk = ((1 << 20) + unit_in - 1) / unit_in;

    static void convert(const std::byte* in, std::byte* out) {
        float numbers[values];
        for (std::size_t b = 0; b < values / From::block_size; ++b) {
            typename From::block block;
            std::memcpy(&block, in + b * sizeof block, sizeof block);
            From::decode(block, numbers + b * From::block_size);
        }
        for (std::size_t b = 0; b < values / To::block_size; ++b) {
            typename To::block block;
            To::encode(numbers + b * To::block_size, block);
            std::memcpy(out + b * sizeof block, &block, sizeof block);
        }
    }
};

} // namespace tern
