// A graph as a chain of calls over two devices: what policies minimise that place tensor by tensor.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <tern/base/checked.hpp>
#include <tern/base/error.hpp>
#include <tern/cost/cost_model.hpp>
#include <tern/cost/machine.hpp>
#include <tern/plan/graph.hpp>
#include <tern/plan/pricing.hpp>
#include <tern/plan/roles.hpp>

namespace tern {

/// Tensors that are placed together: those that one call reads, and those of all calls that share a tensor.
struct fusion_unit {
    std::vector<std::size_t> tensors{}; ///< ascending
    std::vector<std::size_t> nodes{};   ///< ascending; without an embedding's look-up where that stays on the host
    bytes size{};                       ///< in the device's memory
    bool movable = false;               ///< the types of all its tensors allow the device
    double host_time = 0;               ///< of its calls, in seconds
    double device_time = 0;
};

namespace detail {

/// Sets of tensors that calls read together; each tensor is in one.
template <class = void> std::vector<std::size_t> joined_tensors(const graph& g) {
    std::vector<std::size_t> root(g.tensors.size());
    for (std::size_t t = 0; t < root.size(); ++t) root[t] = t;
    const auto find = [&](std::size_t t) {
        while (root[t] != t) t = root[t] = root[root[t]];
        return t;
    };
    for (const graph_node& node : g.nodes)
        for (const std::size_t t : node.tensors) {
            const std::size_t a = find(t), b = find(node.tensors.front());
            root[std::max(a, b)] = std::min(a, b);
        }
    for (std::size_t t = 0; t < root.size(); ++t) root[t] = find(t);
    return root;
}

/// One call, priced on both devices: 0 the host, 1 the accelerator.
struct chain_step {
    std::array<double, 2> on{};     ///< by the device of its weights; without weights by where it computes
    std::array<double, 2> arrive{}; ///< of its operands there, when they were made on the other one
    std::size_t unit = node_flow::none;
    node_flow::seat at = node_flow::seat::follows;
    bool has_source = false;
    bool sibling = false; ///< it takes the same operands as the call before

    bool weighted() const noexcept { return unit != node_flow::none; }
};

/// What the calls so far leave to the next: where the last one computed, where its operands were made, and where the
/// embedding is.
struct chain_state {
    unsigned char last = 0;
    unsigned char source = 0;

    std::size_t index() const noexcept { return 2u * source + last; }
    static chain_state of(std::size_t i) noexcept {
        return {static_cast<unsigned char>(i & 1), static_cast<unsigned char>(i >> 1)};
    }
};

} // namespace detail

/// The calls of a graph with their prices on the host and on one accelerator. The cost of a placement is the time of
/// all calls, plus a switch wherever operands were made on the other device: as `estimate` has it for placements that
/// stream nothing. A table that is only looked up stays on the host.
class placement_chain {
public:
    using step = detail::chain_step;
    using state = detail::chain_state;

    /// Throws what `pricing` throws, and config_error where no processor computes from `into`.
    template <cost_model Cost>
    placement_chain(const graph& g, const machine& m, const Cost& cost, const estimate_options& how,
                    const location& into, const location& rest)
        : steps_(g.nodes.size()) {
        const pricing<Cost> prices(g, m, cost, how);
        const processor& device = prices.processor_at(into);
        gather(g, into);
        for (std::size_t i = 0; i < g.nodes.size(); ++i) price(g, prices, device, i, into, rest);
        if (!g.nodes.empty()) departure_ = prices.departure(device);
        for (fusion_unit& u : units_)
            for (const std::size_t i : u.nodes) u.host_time += steps_[i].on[0], u.device_time += steps_[i].on[1];
    }

    const std::vector<step>& steps() const noexcept { return steps_; }
    const std::vector<fusion_unit>& units() const noexcept { return units_; }
    double departure() const noexcept { return departure_; }
    std::size_t embedding_unit() const noexcept { return embedding_; }

    /// Where the embedding is looked up, and so where sums are made, under a choice for each unit.
    unsigned char residual(const std::vector<unsigned char>& chosen) const noexcept {
        return embedding_ == node_flow::none ? 0 : chosen[embedding_];
    }

    /// The time of one call after a state, which moves on.
    double advance(const step& s, state& now, unsigned char chosen, unsigned char residual) const noexcept {
        const unsigned char source = s.sibling ? now.source : now.last;
        unsigned char seat = 0;
        switch (s.at) {
        case node_flow::seat::weights: seat = chosen; break;
        case node_flow::seat::follows: seat = s.has_source ? source : 0; break;
        case node_flow::seat::residual: seat = residual; break;
        case node_flow::seat::host: break;
        }
        const double computing = s.on[s.weighted() ? chosen : seat];
        const double coming = s.has_source && source != seat ? s.arrive[seat] : 0;
        now = {seat, source};
        return computing + coming;
    }

    /// Seconds of a run under a choice for each unit: 0 the host, 1 the accelerator.
    double cost(const std::vector<unsigned char>& chosen) const {
        const unsigned char at = residual(chosen);
        state now;
        double sum = 0;
        for (const step& s : steps_) sum += advance(s, now, s.weighted() ? chosen[s.unit] : 0, at);
        return now.last == 1 ? sum + departure_ : sum;
    }

    /// Bytes that a choice takes on the accelerator.
    bytes size(const std::vector<unsigned char>& chosen) const {
        bytes sum{};
        for (std::size_t u = 0; u < units_.size(); ++u)
            if (chosen[u] == 1) sum += units_[u].size;
        return sum;
    }

private:
    void gather(const graph& g, const location& into) {
        const std::vector<std::size_t> root = detail::joined_tensors(g);
        const std::vector<tensor_role> roles = roles_of(g);
        std::vector<std::size_t> unit_of(g.tensors.size(), node_flow::none);
        for (std::size_t t = 0; t < g.tensors.size(); ++t) {
            if (unit_of[root[t]] == node_flow::none) {
                unit_of[root[t]] = units_.size();
                units_.push_back({.movable = true});
            }
            fusion_unit& u = units_[unit_of[t] = unit_of[root[t]]];
            u.tensors.push_back(t);
            // Memory comes in units of its alignment.
            u.size += bytes{checked_add<std::uint64_t>(g.tensors[t].size().count, 64 * g.tensors[t].shape.experts)};
            u.movable = u.movable && g.tensors[t].allows(into.tier) && roles[t] != tensor_role::looked_up;
        }
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            if (g.nodes[i].tensors.empty()) continue;
            steps_[i].unit = unit_of[g.nodes[i].tensors.front()];
            units_[steps_[i].unit].nodes.push_back(i);
            if (g.nodes[i].op == "embed") embedding_ = steps_[i].unit;
        }
    }

    template <class Cost>
    void price(const graph& g, const pricing<Cost>& prices, const processor& device, std::size_t i,
               const location& into, const location& rest) {
        step& s = steps_[i];
        const node_flow& f = prices.flow(i);
        const processor& host = prices.host();
        s.at = f.at;
        s.has_source = f.source != node_flow::none;
        s.sibling = s.has_source && i > 0 && f.source + 1 != i;
        s.arrive = {prices.arrival(i, device, host), prices.arrival(i, host, device)};
        const bool movable = !s.weighted() || units_[s.unit].movable;
        if (g.nodes[i].active != 0) {
            const double touched = prices.use(i, 0).touched;
            s.on = {prices.experts_on(i, host, rest, touched, prices.pairs(i)),
                    movable ? prices.experts_on(i, device, into, touched, prices.pairs(i)) : never};
        } else {
            s.on = {prices.on(i, host, s.weighted() ? rest : host.reads.front()),
                    movable ? prices.on(i, device, s.weighted() ? into : device.reads.front()) : never};
        }
    }

    static constexpr double never = std::numeric_limits<double>::infinity();

    std::vector<step> steps_;
    std::vector<fusion_unit> units_{}; // in the order of their first tensors
    double departure_ = 0;
    std::size_t embedding_ = node_flow::none;
};

namespace detail {

/// A stretch of a chain with at most one choice in it.
struct chain_segment {
    std::vector<std::size_t> units{}; ///< chosen together
    bytes size{};
    bool movable = false;
    std::array<std::array<double, 2>, 4> cost{}; ///< by state before and choice
    std::array<std::array<unsigned char, 2>, 4> after{};
};

/// The chain cut where a unit begins. What units of `is_given` do is not chosen here, but given. Neighbours smaller
/// than `least` are joined to what lies beside them.
template <class = void>
std::vector<chain_segment> cut(const placement_chain& chain, const std::vector<unsigned char>& given,
                               const std::vector<bool>& is_given, bytes least) {
    const auto& steps = chain.steps();
    std::vector<chain_segment> segments(1);
    std::vector<std::pair<std::size_t, std::size_t>> range{{0, 0}}; // of steps
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const std::size_t u = steps[i].unit;
        if (steps[i].weighted() && !is_given[u] && chain.units()[u].nodes.front() == i) {
            const fusion_unit& unit = chain.units()[u];
            chain_segment& last = segments.back();
            const bool small = last.size < least && unit.size < least;
            if (!last.units.empty() && !small) {
                segments.emplace_back();
                range.emplace_back(i, i);
            }
            chain_segment& now = segments.back();
            now.movable = true;
            now.size += unit.size;
            now.units.push_back(u);
        }
        range.back().second = i + 1;
    }
    const unsigned char residual = chain.residual(given);
    for (std::size_t n = 0; n < segments.size(); ++n)
        for (std::size_t before = 0; before < 4; ++before)
            for (unsigned char choice = 0; choice < 2; ++choice) {
                chain_state now = chain_state::of(before);
                double sum = 0;
                for (std::size_t i = range[n].first; i < range[n].second; ++i) {
                    const std::size_t u = steps[i].unit;
                    const bool own = steps[i].weighted() && !is_given[u];
                    sum += chain.advance(steps[i], now, own ? choice : steps[i].weighted() ? given[u] : 0, residual);
                }
                segments[n].cost[before][choice] = sum;
                segments[n].after[before][choice] = static_cast<unsigned char>(now.index());
            }
    return segments;
}

/// Movable units whose calls have calls of other units between them, such as a table that is the output too, largest
/// first.
template <class = void> std::vector<std::size_t> scattered_units(const placement_chain& chain) {
    std::vector<std::size_t> found;
    const auto& steps = chain.steps();
    for (std::size_t u = 0; u < chain.units().size(); ++u) {
        const std::vector<std::size_t>& nodes = chain.units()[u].nodes;
        if (nodes.empty() || !chain.units()[u].movable) continue;
        bool alone = chain.embedding_unit() != u; // the choice for an embedding moves the sums too
        for (std::size_t i = nodes.front(); i < nodes.back(); ++i)
            alone = alone && (!steps[i].weighted() || steps[i].unit == u);
        if (!alone) found.push_back(u);
    }
    std::stable_sort(found.begin(), found.end(),
                     [&](std::size_t a, std::size_t b) { return chain.units()[a].size > chain.units()[b].size; });
    return found;
}

/// The units whose choice is given to `cut`: scattered ones, and those that cannot move.
template <class = void>
std::vector<bool> given_units(const placement_chain& chain, const std::vector<std::size_t>& scattered) {
    std::vector<bool> given(chain.units().size());
    for (std::size_t u = 0; u < given.size(); ++u) given[u] = !chain.units()[u].movable;
    for (const std::size_t u : scattered) given[u] = true;
    return given;
}

} // namespace detail

} // namespace tern
