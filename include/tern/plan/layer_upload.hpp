// layer_upload: the last n layers on the accelerator, the rest uploaded for each use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include <tern/plan/brought.hpp>
#include <tern/plan/kept_free.hpp>
#include <tern/plan/layer_split.hpp>
#include <tern/plan/placement.hpp>

namespace tern {

/// `layer_split` for many tokens at once: the accelerator computes the layers before its own too, whose weights come
/// through a window for each use. So does llama.cpp from 32 tokens on, where an upload takes less than the host's
/// arithmetic; `serial_engine` prices that its uploads and computations take turns, the defaults that they overlap.
/// `place_for` is the placement for a number of tokens: with fewer than `least_tokens` the host computes its layers,
/// and both place the same weights, so that nothing moves between a prompt and what follows. Throws what layer_split
/// throws.
///
///     const tern::layer_upload split;
///     auto chunk = tern::estimate(graph, split.place_for(512, graph, machine), machine, cost, how);
struct layer_upload {
    static constexpr std::string_view name = "layer_upload";
    std::size_t layers = layer_split::as_many_as_fit;
    location into{tier_of<vram>, 0, 0};
    tier_info rest = tier_of<mapped>;
    kept_free keep{}; ///< of `into`, for `as_many_as_fit`, beside the window
    std::size_t least_tokens = 32;

    template <class = void> placement place(const graph& g, const machine& m) const {
        placement p = split(g).place(g, m);
        static_cast<void>(bring_share(p, g, rest, into, window_for(g, into), 1, on_miss::fetch));
        p.policy = name;
        return p;
    }
    template <class = void> placement place_for(std::size_t tokens, const graph& g, const machine& m) const {
        return tokens < least_tokens ? split(g).place(g, m) : place(g, m);
    }

    /// Room for what comes: for the largest layer, whose weights llama.cpp copies before it computes any of it, and as
    /// `least_window` has it; of the layers alone, because what follows them is placed first.
    template <class = void> static bytes window_for(const graph& g, const location& into) {
        graph layers = g;
        std::erase_if(layers.nodes, [](const graph_node& n) { return n.layer == graph_node::no_layer; });
        std::vector<bytes> sizes;
        for (const graph_node& node : layers.nodes) {
            if (node.layer >= sizes.size()) sizes.resize(node.layer + 1);
            for (const std::size_t t : node.tensors) sizes[node.layer] += detail::placed_size(g.tensors[t]);
        }
        bytes largest = least_window(layers, into);
        for (const bytes size : sizes) largest = std::max(largest, size);
        return largest;
    }

private:
    layer_split split(const graph& g) const {
        layer_split s{layers, into, rest, keep};
        s.keep.besides += window_for(g, into);
        return s;
    }
};

static_assert(placement_policy<layer_upload>);

} // namespace tern
