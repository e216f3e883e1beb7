// What a transfer is asked to do, and the concept of a strategy that does it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string_view>

#include <tern/async/task.hpp>
#include <tern/base/units.hpp>
#include <tern/device/device.hpp>
#include <tern/memory/arena.hpp>
#include <tern/memory/file_handle.hpp>

namespace tern {

/// Where bytes come from: a stretch of a file, or host memory that holds them already (a mapping), or both.
struct backing {
    byte_source* file = nullptr;
    std::uint64_t offset = 0;
    const std::byte* memory = nullptr;
};

/// Told how many bytes have arrived, as they do. Called on the coroutine's own thread.
struct arrival_listener {
    virtual ~arrival_listener() = default;
    virtual void arrived(bytes n) = 0;
};

/// Move `size` bytes of a backing to `to`, which is memory of `on`.
struct transfer_request {
    backing from{};
    std::byte* to = nullptr;
    bytes size{};
    device* on = nullptr;
    arena* staging = nullptr; ///< host memory for chunks on their way; needed when `on` is not a host device
    run_loop* home = nullptr;
    std::stop_token stop{};
    arrival_listener* listener = nullptr;
    std::string_view what{}; ///< the slice's name, for errors

    bool to_host() const noexcept { return on->memory().where().tier.reached_by == reach::host; }
};

/// A way of moving bytes. It sees bytes alone: no format, no shape.
///
///     struct my_transfer {
///         static constexpr std::string_view name = "mine";
///         static tern::task<void> move(tern::transfer_request request);
///     };
template <class T>
concept transfer_strategy = requires {
    { T::name } -> std::convertible_to<std::string_view>;
    // By value: the coroutine keeps the request.
    static_cast<task<void> (*)(transfer_request)>(&T::move);
};

/// A strategy's run-time twin.
using move_function = task<void> (*)(transfer_request);

} // namespace tern
