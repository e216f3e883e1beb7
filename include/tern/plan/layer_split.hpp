// layer_split: the last n layers on the accelerator, the rest on the host.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <tern/plan/all_cpu.hpp>
#include <tern/plan/placement.hpp>

namespace tern {

/// Whole layers, the last `layers` of the decoder and what follows them, go to `into`; tables that are looked up and
/// the layers before stay on the host. It is the caller's affair to choose a number that fits: `check` tells. Throws
/// config_error where layers are asked for and nothing goes: the graph names none, or no type allows `into`.
///
///     auto plan = tern::layer_split{.layers = 20}.place(graph, run.machine());
struct layer_split {
    static constexpr std::string_view name = "layer_split";
    std::size_t layers = 0;
    location into{tier_of<vram>, 0, 0};
    tier_info rest = tier_of<mapped>;

    template <class = void> placement place(const graph& g, const machine& m) const {
        placement p = all_cpu{rest}.place(g, m);
        p.policy = name;
        std::size_t count = 0;
        for (const graph_node& node : g.nodes)
            if (node.layer != graph_node::no_layer && node.layer >= count) count = node.layer + 1;
        const std::size_t first = count > layers ? count - layers : 0;
        bool placed = layers == 0;
        bool inside = false; // from the first chosen layer to the end of the graph
        for (const graph_node& node : g.nodes) {
            inside = inside || (layers > 0 && node.layer != graph_node::no_layer && node.layer >= first);
            if (!inside) continue;
            for (const std::size_t t : node.tensors) {
                if (!g.tensors[t].allows(into.tier)) continue;
                placed = true;
                p.tensors[t].where = into;
                p.tensors[t].reason =
                    node.layer == graph_node::no_layer
                        ? "it follows the layers in " + to_string(into)
                        : "layer " + std::to_string(node.layer) + " is one of the last " + std::to_string(layers);
            }
        }
        if (!placed)
            throw config_error("layer_split places nothing in " + to_string(into) + ": the decoder " +
                               (count == 0 ? "names no layers" : "has no weight there whose type allows it"));
        return p;
    }
};

static_assert(placement_policy<layer_split>);

} // namespace tern
