// What a plan says about copies that are cached: what becomes of them, and what their eviction policy takes.
#pragma once

#include <cstdint>
#include <vector>

namespace tern {

/// What becomes of a copy that nobody leases any more.
enum class retention : unsigned char {
    drop,  ///< it goes: streamed for each use
    cache, ///< it stays until others need its room
    keep,  ///< it stays until it is evicted by name
};

/// The half-life of `frequency` in ticks, for each slice that shares a cache.
inline constexpr double ticks_a_slice = 16;

/// What make_eviction's policies take, each what it needs.
struct eviction_options {
    double half_life = ticks_a_slice * 256; ///< of `frequency`, in ticks
    std::vector<std::uint32_t> pinned{};    ///< of `pinned_set`: ids of slices
};

} // namespace tern
