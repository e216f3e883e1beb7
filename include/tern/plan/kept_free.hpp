// What a plan leaves free of a memory beside the weights: room for a cache that grows with the context.
#pragma once

#include <cstddef>

#include <tern/base/units.hpp>
#include <tern/plan/roles.hpp>

namespace tern {

/// Bytes of the accelerator's memory that no weight takes, beside what the machine has reserved and what activations
/// need.
struct kept_free {
    bytes cache_per_token{}; ///< keys and values of all layers that lie there; 0: the cache lies elsewhere
    std::size_t context = 0; ///< tokens that the cache will hold
    bytes besides{};

    /// Throws a tern::error where it is more than can be counted.
    bytes size() const { return besides + cache_per_token * context; }
};

/// What weights may take of a memory where operators compute and a cache grows: `weight_room` less what is kept free.
///
///     auto room = tern::weight_room(graph, machine, vram, {.cache_per_token = {98304}, .context = 8192});
inline bytes weight_room(const graph& g, const machine& m, const location& where, const kept_free& keep) {
    const bytes room = weight_room(g, m, where);
    if (room == unlimited) return room;
    const bytes kept = keep.size();
    return room > kept ? room - kept : bytes{};
}

} // namespace tern
