// What one operator call reads, writes and computes, for a number of tokens: the question that a cost model answers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <tern/base/units.hpp>
#include <tern/cost/cost_model.hpp>
#include <tern/plan/graph.hpp>

namespace tern {

/// How an engine treats activations: it decides what a switch between devices costs. The defaults are tern's operators
/// over a cache on the host; with caches beside their layers `cache_on_host` is false. `fused_engine` is what engines
/// do that keep all of a layer on its device.
struct engine_habits {
    bool cache_on_host = true;         ///< attention computes on the host; else where its operands are
    bool residual_stays = false;       ///< sums are made where the embedding was; else where the layer computes
    bool experts_through_host = false; ///< rows are gathered and combined on the host, whoever computes the experts
    bool fused = false;                ///< one kernel for gate and up, two for all experts; else one for each product
    bool serial_uploads = false;       ///< weights that are brought begin to come when their call does, which waits
    /// What the host computes of a mixture goes to the layer's device, which combines it; else all results meet on the
    /// host. The expert that every token uses is computed while others come; else after them.
    bool mixture_overlaps = false;
    /// Of a launch, what is left between kernels that the host could queue while others ran; 1: it never runs ahead.
    double queued_launch = 1;
    /// Kernels write activations to the other side's memory or read them from there, and who waits looks at a flag: a
    /// launch in place of a copy's latency and a sync.
    bool zero_copy = false;
};
inline constexpr engine_habits fused_engine{false, false, false, true};
/// The same, which combines mixtures where the layer is, queues kernels ahead (1 us between them where a launch takes
/// 3) and needs no copies for activations.
inline constexpr engine_habits overlapped_engine{false, false, false, true, false, true, 1.0 / 3, true};
/// The same, where a single device's uploads and computations take turns, as in llama.cpp.
inline constexpr engine_habits serial_engine{false, false, false, true, true};

/// How a graph is run.
struct run_shape {
    std::size_t tokens = 1;   ///< in one call of the decoder
    std::size_t context = 0;  ///< tokens that are in the cache before it
    bytes cache_per_token{};  ///< of all layers together
    std::size_t recorded = 0; ///< tokens that the graph was recorded with; 0: the rows of its embedding
    engine_habits habits{};
};

namespace detail {

inline constexpr double activation_bytes = 4; // f32

inline double to_double(std::uint64_t n) { return static_cast<double>(n); }
inline bytes to_bytes(double n) { return {n < 1.8e19 ? static_cast<std::uint64_t>(n + 0.5) : ~std::uint64_t{0}}; }

/// Tokens that a graph was recorded with.
inline std::size_t recorded_tokens(const graph& g, const run_shape& how) {
    if (how.recorded != 0) return how.recorded;
    std::size_t most = 1;
    for (const graph_node& n : g.nodes) {
        if (n.op == "embed") return std::max<std::size_t>(n.rows, 1);
        most = std::max(most, n.rows);
    }
    return most;
}

/// Rows of a node in this run: all tokens, or those that were chosen among them.
inline double rows_of(const graph_node& node, std::size_t recorded, std::size_t tokens) {
    return static_cast<double>(node.rows >= recorded ? tokens : std::min(node.rows, tokens));
}

/// Of one slice.
inline double elements_of(const planned_tensor& t) {
    return static_cast<double>(t.shape.rows) * static_cast<double>(t.shape.cols);
}

/// Width of what a node takes in.
inline double width_in(const graph& g, const graph_node& node) {
    if (node.op == "embed" || node.op == "rms_norm" || node.tensors.empty()) return static_cast<double>(node.cols);
    return static_cast<double>(g.tensors[node.tensors.front()].shape.cols);
}

inline std::string_view format_of(const graph& g, const graph_node& node) {
    std::string_view format;
    std::uint64_t most = 0;
    for (const std::size_t t : node.tensors)
        if (const std::uint64_t size = g.tensors[t].slice_size.count; size >= most)
            most = size, format = g.tensors[t].format;
    return format;
}

inline std::size_t attention_calls(const graph& g) {
    std::size_t n = 0;
    for (const graph_node& node : g.nodes) n += node.op == "attention" ? 1 : 0;
    return n;
}

/// Kernels of one call of a node with weights, where each product has its own: a product for each weight, and the
/// activation between a gate and what it gates.
inline double kernels_of(const graph_node& node) {
    if (node.tensors.size() < 2) return 1;
    const bool gated = node.op == "gated_linear" || node.active != 0;
    return static_cast<double>(node.tensors.size()) + (gated ? 1 : 0);
}

} // namespace detail

/// The work of a node without experts; `processor` and `reads` are left to the caller. `attention_layers` are the calls
/// that share the cache.
template <class = void>
run work_of(const graph& g, const graph_node& node, double rows, const run_shape& how, std::size_t attention_layers) {
    run r{.op = node.op, .format = detail::format_of(g, node), .tokens = rows};
    const double cols = static_cast<double>(node.cols);
    const double in = detail::width_in(g, node);
    double weights = 0;
    double other = rows * (in + cols) * detail::activation_bytes;
    if (node.op == "embed") {
        for (const std::size_t t : node.tensors) {
            const planned_tensor& table = g.tensors[t];
            weights += rows * detail::to_double(table.slice_size.count) / static_cast<double>(table.shape.rows);
        }
        other = rows * cols * detail::activation_bytes;
    } else if (node.op == "attention") {
        // Every query sees what was there, and half of this call's tokens on average.
        const double seen = static_cast<double>(how.context) + (rows + 1) / 2;
        const double cached = static_cast<double>(how.context) + rows;
        const double layers = static_cast<double>(std::max<std::size_t>(attention_layers, 1));
        other =
            rows * 2 * cols * detail::activation_bytes + cached * detail::to_double(how.cache_per_token.count) / layers;
        r.operations = 4 * rows * seen * cols;
    } else {
        for (const std::size_t t : node.tensors) {
            weights += detail::to_double(g.tensors[t].slice_size.count);
            r.operations += 2 * rows * detail::elements_of(g.tensors[t]);
        }
        if (node.op == "rms_norm") r.operations = 4 * rows * cols;
        if (node.tensors.empty()) {
            r.operations = 2 * rows * cols;
            const bool two_in = node.op == "add" || node.op == "gated";
            other = rows * cols * (two_in ? 3 : 2) * detail::activation_bytes;
        }
    }
    r.launches = how.habits.fused ? 1 : detail::kernels_of(node);
    r.weights = detail::to_bytes(weights);
    r.other = detail::to_bytes(other);
    return r;
}

/// The work of `experts` distinct experts of a node whose tokens, `pairs` of a token and one of its experts, are
/// shared evenly. Nothing where there are none.
template <class = void>
run work_of_experts(const graph& g, const graph_node& node, double experts, double pairs, const run_shape& how) {
    run r{.op = node.op, .format = detail::format_of(g, node)};
    r.tokens = experts > 0 ? pairs / experts : 0;
    r.calls = experts;
    double slice = 0;
    double elements = 0;
    double widths = 0;
    for (const std::size_t t : node.tensors) {
        slice += detail::to_double(g.tensors[t].slice_size.count);
        elements += detail::elements_of(g.tensors[t]);
        widths += static_cast<double>(g.tensors[t].shape.rows + g.tensors[t].shape.cols);
    }
    r.weights = detail::to_bytes(experts * slice);
    r.other = detail::to_bytes(pairs * widths * detail::activation_bytes);
    r.operations = 2 * pairs * elements;
    const double fused = std::min(detail::kernels_of(node), 2.0); // gate and up with what gates them, down
    r.launches = !how.habits.fused ? detail::kernels_of(node) : experts > 0 ? fused / experts : 1;
    return r;
}

/// Where a node's operands come from, and where it computes.
struct node_flow {
    enum class seat : unsigned char {
        weights,  ///< where its weights are
        follows,  ///< where its source was
        host,     ///< on the host
        residual, ///< where the embedding was
    };
    seat at = seat::follows;
    std::size_t source = none; ///< the node whose result it takes
    std::size_t operands = 1;  ///< activations that come over when the source was elsewhere
    double width = 0;          ///< of all of them together

    static constexpr std::size_t none = static_cast<std::size_t>(-1);
};

/// The flow of activations, inferred from the order and the widths of the calls, as the ready-made decoders make them:
/// a node takes the result of the one before; matrices of one width in a row, a router and its experts, and a shared
/// expert take the same input; attention takes the results of the matrices since the last norm or sum.
template <class = void> std::vector<node_flow> flow_of(const graph& g, const engine_habits& habits) {
    std::vector<node_flow> flow(g.nodes.size());
    double since = 0; // widths of the matrices that attention reads
    std::size_t count = 0;
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
        const graph_node& node = g.nodes[i];
        const graph_node* const before = i == 0 ? nullptr : &g.nodes[i - 1];
        node_flow& f = flow[i];
        f.source = i == 0 ? node_flow::none : i - 1;
        f.width = detail::width_in(g, node);
        f.at = node.tensors.empty() ? node_flow::seat::follows : node_flow::seat::weights;
        const bool matrix = node.op == "linear" || node.op == "gated_linear" || node.op == "route" || node.active != 0;
        if (before != nullptr && matrix && !before->tensors.empty() && before->op != "embed" &&
            before->op != "gated_linear" && before->op != "rms_norm" && detail::width_in(g, *before) == f.width)
            f.source = flow[i - 1].source;
        if (node.op == "embed" || node.op == "rope_angles") f.source = node_flow::none, f.operands = 0, f.width = 0;
        if (node.op == "rope_angles") f.at = node_flow::seat::host;
        if (node.op == "add") {
            since = 0, count = 0;
            if (habits.residual_stays) f.at = node_flow::seat::residual;
        }
        if (node.op == "attention") {
            f.operands = count > 0 ? count : 3;
            f.width = count > 0 ? since : 3 * static_cast<double>(node.cols);
            if (habits.cache_on_host) f.at = node_flow::seat::host;
            since = 0, count = 0;
        }
        if (node.active != 0 && habits.experts_through_host) f.at = node_flow::seat::host;
        if (node.op == "linear") since += static_cast<double>(node.cols), ++count;
    }
    return flow;
}

} // namespace tern
