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
#include <tern/memory/disk_reader.hpp>
#include <tern/memory/file_handle.hpp>

namespace tern {

/// Where bytes come from: a stretch of a file, or host memory that holds them already (a mapping, a copy in RAM), or
/// both; then the file is read.
struct backing {
    byte_source* file = nullptr;
    std::uint64_t offset = 0;
    const std::byte* memory = nullptr;
    bytes stored{};            ///< bytes there, where a transfer changes the format; 0: as many as arrive
    std::string_view format{}; ///< of the bytes there, for transfers that change it; empty: as they arrive
};

/// Told how many bytes have arrived, as they do, on the thread where transfers run.
struct arrival_listener {
    virtual ~arrival_listener() = default;
    virtual void arrived(bytes n) = 0;
};

/// Move `size` bytes of a backing to `to`, which is memory of `on`.
struct transfer_request {
    backing from{};
    std::byte* to = nullptr;
    bytes size{}; ///< at the destination
    device* on = nullptr;
    arena* staging = nullptr;    ///< host memory for chunks on their way; needed when `on` is not a host device
    disk_reader* disk = nullptr; ///< reads the file; null: it is read on the calling thread
    bool slack = false;          ///< `to` is one as read_call::slack describes it
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
///
/// Two members are optional: `ahead`, how many slices that the plan needs next are brought beforehand (0 where it is
/// missing); and `arrives_as(format)` with `arrival_size(format, bytes)`, for one that changes the format.
template <class T>
concept transfer_strategy = requires {
    { T::name } -> std::convertible_to<std::string_view>;
    // By value: the coroutine keeps the request.
    static_cast<task<void> (*)(transfer_request)>(&T::move);
};

/// A strategy's run-time twin.
using move_function = task<void> (*)(transfer_request);

/// Slices that a strategy brings before they are asked for.
template <transfer_strategy T> constexpr std::size_t ahead_of() noexcept {
    if constexpr (requires { T::ahead; })
        return T::ahead;
    else
        return 0;
}

/// The format in which bytes of a stored format arrive.
template <transfer_strategy T> constexpr std::string_view arrives_as(std::string_view stored) noexcept {
    if constexpr (requires { T::arrives_as(stored); })
        return T::arrives_as(stored);
    else
        return stored;
}

/// How many bytes arrive of `size` stored ones.
template <transfer_strategy T> constexpr bytes arrival_size(std::string_view stored, bytes size) {
    if constexpr (requires { T::arrival_size(stored, size); })
        return T::arrival_size(stored, size);
    else
        return size;
}

} // namespace tern
