// What a tensor is in a graph: a table that is only looked up, an expert's weight, or one that every token uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tern/cost/machine.hpp>
#include <tern/plan/graph.hpp>

namespace tern {

enum class tensor_role : unsigned char {
    used,      ///< whole, by every token
    looked_up, ///< row by row, by an embedding alone
    expert,    ///< by the tokens that a router sends to its slices
};

/// The role of each tensor of a graph. An embedding that is the output matrix too is `used`.
template <class = void> std::vector<tensor_role> roles_of(const graph& g) {
    std::vector<tensor_role> roles(g.tensors.size(), tensor_role::looked_up);
    for (const graph_node& node : g.nodes)
        for (const std::size_t t : node.tensors)
            if (node.op != "embed") roles[t] = node.active != 0 ? tensor_role::expert : tensor_role::used;
    return roles;
}

/// What weights may take of a memory where operators compute too: its room less that of the activations.
inline bytes weight_room(const graph& g, const machine& m, const location& where) {
    const bytes room = m.room_at(where);
    const bytes activations = g.activation_room();
    if (room == unlimited) return room;
    return room > activations ? bytes{room.count - activations.count} : bytes{};
}

/// What transfers to an accelerator need of RAM for chunks on their way: two at a time, each in a ring of whole
/// mebibytes, eight at most, or in one smaller piece.
inline bytes staging_room(const graph& g) {
    constexpr std::uint64_t chunk = 1 << 20;
    constexpr std::uint64_t page = 4096; // direct reads bring whole pages, at both ends
    bytes largest{};
    for (const planned_tensor& t : g.tensors) largest = t.slice_size > largest ? t.slice_size : largest;
    if (largest.count <= chunk - 2 * page) return {2 * (largest.count + 2 * page)};
    const std::uint64_t chunks = (largest.count + page) / chunk + 1;
    return {2 * (chunks < 8 ? chunks : 8) * chunk};
}

} // namespace tern
