// Runs a program of kernels, copies and streams under several orders of streams and compares what it computes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include <tern/cuda/emulation/device.hpp>

namespace tern::cuda::emulation {

/// New settings for what follows: queued work is forgotten, allocations and streams stay.
///
///     tern::cuda::emulation::configure({.orders = 5, .seed = 7});
inline void configure(const settings& how, stream_order streams = stream_order::random) {
    device& d = device::get();
    const auto lock = d.lock();
    d.reset(how, streams);
}

/// Calls `body` under `count` orders of streams: eager, lazy, and then random ones. `body` returns a sequence of
/// numbers, which must be the same each time. Throws fault where it is not, or where one of the runs does.
///
///     const auto sums = under_schedules(8, [&] { upload(); sum(); return download(); });
template <class Body> auto under_schedules(unsigned count, Body body, settings how = {}) {
    decltype(body()) first{};
    for (unsigned k = 0; k < count; ++k) {
        const auto order = k == 0 ? stream_order::eager : k == 1 ? stream_order::lazy : stream_order::random;
        settings mine = how;
        mine.seed += k;
        configure(mine, order);
        auto result = body();
        device::get().wait_all();
        const bool same =
            k == 0 || std::equal(std::begin(first), std::end(first), std::begin(result), std::end(result));
        if (!same)
            throw fault(fault_kind::streams,
                        "run " + std::to_string(k) +
                            " computes something else than run 0: an event or a synchronisation is missing");
        if (k == 0) first = std::move(result);
    }
    return first;
}

} // namespace tern::cuda::emulation
