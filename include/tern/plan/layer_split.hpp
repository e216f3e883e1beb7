// layer_split: the last n layers on the accelerator, the rest on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tern/plan/all_cpu.hpp>
#include <tern/plan/kept_free.hpp>
#include <tern/plan/placement.hpp>
#include <tern/plan/roles.hpp>

namespace tern {

/// Whole layers, the last `layers` of the decoder and what follows them, go to `into`; tables that are looked up and
/// the layers before stay on the host. `as_many_as_fit` goes by bytes alone, as is usual: the weights beside what the
/// machine reserves and what activations need. With another number it is the caller's affair that it fits: `check`
/// tells. Throws config_error where layers are asked for and nothing goes: the graph names none, or no type allows
/// `into`.
///
///     auto plan = tern::layer_split{.layers = 20}.place(graph, run.machine());
struct layer_split {
    static constexpr std::string_view name = "layer_split";
    static constexpr std::size_t as_many_as_fit = static_cast<std::size_t>(-1);
    std::size_t layers = 0;
    location into{tier_of<vram>, 0, 0};
    tier_info rest = tier_of<mapped>;
    kept_free keep{}; ///< of `into`, for `as_many_as_fit`

    template <class = void> placement place(const graph& g, const machine& m) const {
        placement p = all_cpu{rest}.place(g, m);
        p.policy = name;
        const std::size_t count = layers_of(g);
        const std::size_t chosen = layers == as_many_as_fit ? fitting(g, count, weight_room(g, m, into, keep)) : layers;
        const std::size_t first = count > chosen ? count - chosen : 0;
        bool placed = chosen == 0;
        bool inside = false; // from the first chosen layer to the end of the graph
        for (const graph_node& node : g.nodes) {
            inside = inside || (chosen > 0 && node.layer != graph_node::no_layer && node.layer >= first);
            if (!inside) continue;
            for (const std::size_t t : node.tensors) {
                if (!g.tensors[t].allows(into.tier)) continue;
                placed = true;
                p.tensors[t].where = into;
                p.tensors[t].reason =
                    node.layer == graph_node::no_layer
                        ? "it follows the layers in " + to_string(into)
                        : "layer " + std::to_string(node.layer) + " is one of the last " + std::to_string(chosen);
            }
        }
        if (!placed)
            throw config_error("layer_split places nothing in " + to_string(into) + ": the decoder " +
                               (count == 0 ? "names no layers" : "has no weight there whose type allows it"));
        return p;
    }

private:
    static std::size_t layers_of(const graph& g) noexcept {
        std::size_t count = 0;
        for (const graph_node& node : g.nodes)
            if (node.layer != graph_node::no_layer && node.layer >= count) count = node.layer + 1;
        return count;
    }

    /// How many of the last layers fit into `room`, with what follows them.
    template <class = void> std::size_t fitting(const graph& g, std::size_t count, bytes room) const {
        std::vector<bool> seen(g.tensors.size());
        std::size_t fit = 0;
        std::uint64_t used = 0;
        bool met_layer = false;
        for (auto node = g.nodes.rbegin(); node != g.nodes.rend(); ++node) {
            const bool of_layer = node->layer != graph_node::no_layer;
            if (!of_layer && met_layer) break; // before the layers
            met_layer = met_layer || of_layer;
            if (of_layer) fit = count - node->layer - 1; // all behind it are in
            for (const std::size_t t : node->tensors) {
                if (seen[t] || !g.tensors[t].allows(into.tier)) continue;
                seen[t] = true;
                // The arena gives memory in units of its alignment.
                used = checked_add(used, checked_add(g.tensors[t].size().count, 64 * g.tensors[t].shape.experts));
            }
            if (used > room.count) return fit;
        }
        return count;
    }
};

static_assert(placement_policy<layer_split>);

} // namespace tern
