// What a graph asks of processors, each kind of call once: the list of what has to be measured to predict it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/base/units.hpp>
#include <tern/plan/graph.hpp>
#include <tern/plan/work.hpp>

namespace tern {

/// A weight of a call: one slice of it.
struct call_weight {
    std::string_view format{};
    std::size_t rows = 0;
    std::size_t cols = 0;

    friend bool operator==(const call_weight&, const call_weight&) = default;
};

/// Calls of one operator with weights of the same formats and shapes.
struct call_kind {
    std::size_t node = 0; ///< the first of them in the graph
    std::string_view op{};
    std::vector<call_weight> weights{};
    std::size_t in = 0;    ///< width of what it takes
    std::size_t out = 0;   ///< width of what it gives
    std::size_t used = 0;  ///< of a router and of experts: experts for each token
    std::size_t most = 0;  ///< rows at most, however many tokens there are; 0: all
    std::size_t times = 0; ///< how many calls of the graph are of this kind

    bool like(const call_kind& other) const {
        return op == other.op && weights == other.weights && in == other.in && out == other.out && used == other.used &&
               most == other.most;
    }
};

/// The kind of one call of a graph.
template <class = void> call_kind kind_of(const graph& g, std::size_t i) {
    const graph_node& node = g.nodes.at(i);
    call_kind k{.node = i, .op = node.op, .out = node.cols, .used = node.active, .times = 1};
    k.in = static_cast<std::size_t>(detail::width_in(g, node));
    for (const std::size_t t : node.tensors)
        k.weights.push_back({g.tensors[t].format, g.tensors[t].shape.rows, g.tensors[t].shape.cols});
    if (node.rows < detail::recorded_tokens(g, {})) k.most = node.rows;
    if (node.op == "route" && i + 1 < g.nodes.size()) k.used = g.nodes[i + 1].active;
    return k;
}

/// The kinds of calls of a graph, in the order of their first one.
///
///     for (const tern::call_kind& k : tern::kinds_of(graph)) ...
template <class = void> std::vector<call_kind> kinds_of(const graph& g) {
    std::vector<call_kind> kinds;
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
        call_kind k = kind_of(g, i);
        bool known = false;
        for (call_kind& other : kinds)
            if (!known && other.like(k)) ++other.times, known = true;
        if (!known) kinds.push_back(std::move(k));
    }
    return kinds;
}

/// The run that a cost model is asked about for a call of this kind with `tokens` tokens (of one expert, where it is
/// experts), `how.context` of them in the cache before.
template <class = void> run run_of(const graph& g, const call_kind& k, std::size_t tokens, run_shape how) {
    how.tokens = tokens;
    const graph_node& node = g.nodes[k.node];
    if (node.active != 0) return work_of_experts(g, node, 1, static_cast<double>(tokens), how);
    return work_of(g, node, static_cast<double>(tokens), how, detail::attention_calls(g));
}

/// The size under which a profile keeps it: bytes of the weights, or without a format the bytes for each token.
inline std::uint64_t sample_size(const run& r) {
    if (!r.format.empty()) return detail::to_bytes(static_cast<double>(r.weights.count) / r.calls).count;
    return detail::to_bytes(static_cast<double>(r.other.count) / (r.calls * r.tokens)).count;
}

} // namespace tern
