// Collects the operator calls of a decoder into a graph.
#pragma once

#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <tern/plan/graph.hpp>

namespace tern {

/// What a recording context writes into. Tensors are told apart by their first slice.
class recorder {
public:
    /// Begins the node of one operator call; `uses` adds what it reads.
    void call(std::string_view op, std::size_t rows, std::size_t cols, std::size_t active = 0) {
        graph_.nodes.push_back({op, {}, rows, cols, active});
    }

    template <weight_tensor Weight> void uses(const Weight& w) {
        if (w.owns()) return; // its place is fixed
        const auto [at, fresh] = index_.try_emplace(w.slice(), graph_.tensors.size());
        if (fresh) {
            using tiers_type = typename Weight::tiers_type;
            graph_.tensors.push_back({w.name(),
                                      w.format().name,
                                      w.shape(),
                                      w.slice(),
                                      w.slice_bytes(),
                                      {std::begin(tiers_type::list), std::end(tiers_type::list)},
                                      &Weight::transfer_type::move});
        }
        graph_.nodes.back().tensors.push_back(at->second);
    }

    /// The graph so far, with the activation peak of the recorded run.
    graph finish(bytes activation_peak) && {
        graph_.activation_peak = activation_peak;
        return std::move(graph_);
    }

private:
    graph graph_;
    std::unordered_map<slice_id, std::size_t> index_;
};

} // namespace tern
