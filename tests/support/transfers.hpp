// What the tests of transfers share: one request from a source to a device, with everything around it counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stop_token>
#include <vector>

#include "support/counting_source.hpp"
#include <tern/async/run_loop.hpp>
#include <tern/memory/arena.hpp>
#include <tern/transfer/request.hpp>

namespace tern::test {

/// Sums up what arrives, and can stop or look around when it does.
struct progress final : arrival_listener {
    std::uint64_t total = 0;
    int calls = 0;
    void (*then)(progress&) = nullptr;
    void* context = nullptr;

    void arrived(bytes n) override {
        total += n.count;
        ++calls;
        if (then != nullptr) then(*this);
    }
};

/// Moves all of `source` from `offset` to `on` and gives what lies there afterwards, guard bytes left out; empty where
/// those were touched. Throws what the transfer throws.
inline std::vector<std::byte> moved(move_function move, counting_source& source, device& on, arena& staging,
                                    run_loop& home, progress* listener = nullptr, std::stop_token stop = {},
                                    std::uint64_t offset = 0) {
    constexpr std::size_t guard = 64;
    const std::size_t n = source.data.size() - static_cast<std::size_t>(offset);
    const allocation there = on.memory().allocate({n + 2 * guard}, "slice");
    std::memset(there.data(), 0xEE, n + 2 * guard);
    home.run(move({.from = {.file = &source, .offset = offset},
                   .to = there.data() + guard,
                   .size = {n},
                   .on = &on,
                   .staging = &staging,
                   .home = &home,
                   .stop = std::move(stop),
                   .listener = listener,
                   .what = "blk.0.ffn_up.weight"}));
    for (std::size_t i = 0; i < guard; ++i)
        if (there.data()[i] != std::byte{0xEE} || there.data()[guard + n + i] != std::byte{0xEE}) return {};
    return {there.data() + guard, there.data() + guard + n};
}

} // namespace tern::test
