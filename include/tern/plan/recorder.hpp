// Collects the operator calls of a decoder into a graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/plan/graph.hpp>

namespace tern {

/// What a recording context writes into. Tensors are told apart by their first slice.
class recorder {
public:
    /// Begins the node of one operator call; `uses` adds what it reads.
    void call(std::string_view op, std::size_t rows, std::size_t cols, std::size_t active = 0) {
        graph_.nodes.push_back({op, {}, rows, cols, active, layer_});
    }
    /// The calls from here on belong to a layer of the decoder; graph_node::no_layer for none.
    void enter_layer(std::size_t layer) noexcept { layer_ = layer; }

    template <weight_tensor Weight> void uses(const Weight& w) {
        if (w.owns()) return; // its place is fixed
        if (w.slice() >= index_.size()) index_.resize(w.slice() + 1, unseen);
        std::size_t& at = index_[w.slice()];
        if (at == unseen) {
            at = graph_.tensors.size();
            using tiers_type = typename Weight::tiers_type;
            graph_.tensors.push_back({w.name(),
                                      w.format().name,
                                      w.shape(),
                                      w.slice(),
                                      w.slice_bytes(),
                                      {std::begin(tiers_type::list), std::end(tiers_type::list)},
                                      &Weight::transfer_type::move,
                                      ahead_of<typename Weight::transfer_type>()});
        }
        graph_.nodes.back().tensors.push_back(at);
    }

    /// The graph so far, with the activation peak of the recorded run.
    graph finish(bytes activation_peak) && {
        graph_.activation_peak = activation_peak;
        return std::move(graph_);
    }

private:
    static constexpr std::size_t unseen = static_cast<std::size_t>(-1);

    graph graph_;
    std::size_t layer_ = graph_node::no_layer;
    std::vector<std::size_t> index_; // by slice: its tensor's place in the graph
};

} // namespace tern
