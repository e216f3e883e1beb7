// Prices of a graph's calls on the processors of a machine, and of the switches between them.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/cost/cost_model.hpp>
#include <tern/cost/machine.hpp>
#include <tern/plan/activity.hpp>
#include <tern/plan/graph.hpp>
#include <tern/plan/on_miss.hpp>
#include <tern/plan/work.hpp>

namespace tern {

/// What a prediction is made for.
struct estimate_options {
    run_shape shape{};
    on_miss misses = on_miss::fetch;
    std::vector<double> popularity{};       ///< a weight for each expert of a layer; empty: all are equally likely
    location host{tier_of<pageable>, 0, 0}; ///< where the host's processor keeps activations
};

/// Asks a cost model about the calls of one run. The graph, the machine and the cost model must outlive it; times are
/// in seconds. Throws config_error where the machine has no processor at the host's memory.
template <cost_model Cost> class pricing {
public:
    pricing(const graph& g, const machine& m, const Cost& cost, const estimate_options& how)
        : graph_(g), machine_(m), cost_(cost), how_(how), flow_(flow_of<void>(g, how.shape.habits)),
          recorded_(detail::recorded_tokens(g, how.shape)), attention_(detail::attention_calls(g)),
          host_(processor_at(how.host)) {
        if (how.shape.tokens == 0) throw config_error("a run of 0 tokens cannot be priced");
    }

    const node_flow& flow(std::size_t node) const noexcept { return flow_[node]; }
    const processor& host() const noexcept { return host_; }
    double rows(std::size_t node) const noexcept {
        return detail::rows_of(graph_.nodes[node], recorded_, how_.shape.tokens);
    }
    double pairs(std::size_t node) const noexcept {
        return rows(node) * static_cast<double>(graph_.nodes[node].active);
    }

    const processor& processor_at(const location& where) const {
        if (const processor* p = machine_.processor_at(where)) return *p;
        throw config_error("the machine has no processor that computes from " + to_string(where));
    }
    /// The memory that a processor reads weights from: where they lie, if its bandwidth is known, else its first.
    location read_from(const processor& p, const location& where) const noexcept {
        const memory_space* const m = machine_.memory_at(where);
        return m != nullptr && m->bandwidth && p.computes_from(where) ? where : p.reads.front();
    }

    /// What a node without experts reads and computes.
    run work(std::size_t node) const { return work_of(graph_, graph_.nodes[node], rows(node), how_.shape, attention_); }
    double price_of(run r, const processor& p, const location& weights_at) const {
        r.processor = p.name;
        r.reads = read_from(p, weights_at);
        return cost_.price(std::as_const(r)).count;
    }
    /// What of it is launches: the price of the same calls with nothing in them.
    double launches_of(run r, const processor& p, const location& weights_at) const {
        r.weights = r.other = {};
        r.operations = 0;
        return price_of(r, p, weights_at);
    }
    double on(std::size_t node, const processor& p, const location& weights_at) const {
        return price_of(work(node), p, weights_at);
    }

    run expert_work(std::size_t node, double experts, double pairs) const {
        return work_of_experts(graph_, graph_.nodes[node], experts, pairs, how_.shape);
    }
    /// Some experts of a node on a processor; with the way of their rows, where those lie on the host.
    double experts_on(std::size_t node, const processor& p, const location& weights_at, double experts,
                      double pairs) const {
        if (!(experts > 0)) return 0;
        double t = price_of(expert_work(node, experts, pairs), p, weights_at);
        if (!how_.shape.habits.experts_through_host || &p == &host_) return t;
        const double each = pairs / experts * detail::width_in(graph_, graph_.nodes[node]) * detail::activation_bytes;
        return t + experts * (move_activations(host_, p, each) + move_activations(p, host_, each));
    }

    /// Bytes of activations from one processor's memory to another's; through the host's where no link is.
    double move_activations(const processor& from, const processor& to, double size) const {
        if (&from == &to) return 0;
        const location a = from.reads.front();
        const location b = to.reads.front();
        if (machine_.link_between(a, b) != nullptr || &from == &host_ || &to == &host_)
            return how_.shape.habits.zero_copy
                       ? zero_copy(from, to, size)
                       : cost_.price(move{a, b, detail::to_bytes(size), cargo::activations, {}}).count;
        return move_activations(from, host_, size) + move_activations(host_, to, size);
    }
    /// A kernel of the accelerator that moves bytes over the link: what begins a copy is not counted.
    double zero_copy(const processor& from, const processor& to, double size) const {
        const auto copy = [&](double n) {
            return cost_.price(move{from.reads.front(), to.reads.front(), detail::to_bytes(n), cargo::weights, {}})
                .count;
        };
        const processor& p = from.kind == processor_kind::accelerator ? from : to;
        return launches_of({.op = "copy"}, p, p.reads.front()) + copy(2 * size) - copy(size);
    }
    /// Bytes that come over before a node, when its source was elsewhere.
    double arriving(std::size_t node) const noexcept {
        return rows(node) * flow_[node].width * detail::activation_bytes;
    }
    /// What a node waits for its operands, when they were made by `from` and it computes on `to`.
    double arrival(std::size_t node, const processor& from, const processor& to) const {
        const std::size_t n = flow_[node].operands;
        if (&from == &to || n == 0) return 0;
        const double each = arriving(node) / static_cast<double>(n);
        return static_cast<double>(n) * move_activations(from, to, each);
    }
    /// The last node's result goes to the host, which samples.
    double departing() const noexcept {
        if (graph_.nodes.empty()) return 0;
        return rows(graph_.nodes.size() - 1) * static_cast<double>(graph_.nodes.back().cols) * detail::activation_bytes;
    }
    double departure(const processor& from) const { return move_activations(from, host_, departing()); }

    expert_use use(std::size_t node, double slots) const {
        const graph_node& n = graph_.nodes[node];
        return expected_use(graph_.tensors[n.tensors.front()].shape.experts, n.active, rows(node), how_.popularity,
                            slots);
    }

private:
    const graph& graph_;
    const machine& machine_;
    const Cost& cost_;
    const estimate_options& how_;
    std::vector<node_flow> flow_;
    std::size_t recorded_;
    std::size_t attention_;
    const processor& host_;
};

} // namespace tern
