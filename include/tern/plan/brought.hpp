// What a placement leaves on the host, brought to an accelerator for its uses: experts through a cache, other groups
// through a window.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <tern/plan/chain.hpp>
#include <tern/plan/placement.hpp>
#include <tern/plan/roles.hpp>

namespace tern {

namespace detail {

/// What a tensor takes of an accelerator's memory, which gives it in units of its alignment.
inline bytes placed_size(const planned_tensor& t) {
    return t.size() + bytes{checked_mul<std::uint64_t>(64, t.shape.experts)};
}

/// What a placement takes at a location: weights, and room for those that are brought.
template <class = void> bytes taken_at(const placement& p, const graph& g, const location& where) {
    bytes sum = p.pool_at(where);
    for (std::size_t t = 0; t < p.tensors.size(); ++t)
        if (p.tensors[t].where == where) sum += placed_size(g.tensors[t]);
    return sum;
}

/// Of each set of tensors that calls read together all are where the first one is, or none is on the accelerator.
template <class = void>
void keep_groups_whole(placement& p, const graph& g, const location& into, const placement& on_host) {
    const std::vector<std::size_t> root = joined_tensors(g);
    std::vector<bool> broken(g.tensors.size());
    for (std::size_t t = 0; t < g.tensors.size(); ++t) {
        const placed_tensor &a = p.tensors[t], &b = p.tensors[root[t]];
        if (a.where != b.where || a.computes != b.computes) broken[root[t]] = true;
    }
    for (std::size_t t = 0; t < g.tensors.size(); ++t)
        if (broken[root[t]] && (p.tensors[t].where == into || p.tensors[t].streamed()))
            p.tensors[t] = on_host.tensors[t];
}

/// Fusion groups on the host that may be brought to `into` from `from`, in the order of the graph: no embedding is
/// among them.
template <class = void>
std::vector<std::vector<std::size_t>> groups_to_bring(const placement& p, const graph& g, const tier_info& from,
                                                      const location& into) {
    const std::vector<std::size_t> root = joined_tensors(g);
    std::vector<bool> fixed(g.tensors.size()), seen(g.tensors.size());
    for (const graph_node& node : g.nodes)
        if (node.op == "embed")
            for (const std::size_t t : node.tensors) fixed[root[t]] = true;
    std::vector<std::vector<std::size_t>> members(g.tensors.size());
    for (std::size_t t = 0; t < g.tensors.size(); ++t) {
        members[root[t]].push_back(t);
        const bool movable = g.tensors[t].allows(from) && g.tensors[t].allows(into.tier);
        if (!movable || p.tensors[t].where == into || p.tensors[t].streamed()) fixed[root[t]] = true;
    }
    std::vector<std::vector<std::size_t>> groups;
    for (const graph_node& node : g.nodes) {
        if (node.tensors.empty()) continue;
        const std::size_t r = root[node.tensors.front()];
        if (fixed[r] || seen[r]) continue;
        seen[r] = true;
        groups.push_back(members[r]);
    }
    return groups;
}

inline bool of_experts(const graph& g, const std::vector<std::size_t>& group) {
    return g.tensors[group.front()].shape.experts > 1;
}

} // namespace detail

/// Room of `into` that a window needs at least: for two of the largest groups that are no experts, so that one comes
/// while another is used; for the experts of one call.
template <class = void> bytes least_window(const graph& g, const location& into) {
    const placement nothing{"", std::vector<placed_tensor>(g.tensors.size()), {}};
    bytes largest{};
    for (const std::vector<std::size_t>& group : detail::groups_to_bring(nothing, g, tier_of<mapped>, into)) {
        bytes sum{};
        for (const std::size_t t : group) sum += g.tensors[t].slice_size + bytes{64};
        largest = std::max(largest, sum * 2);
    }
    for (const graph_node& node : g.nodes) {
        bytes sum{};
        for (const std::size_t t : node.tensors) sum += g.tensors[t].slice_size + bytes{64};
        largest = std::max(largest, sum * std::max<std::size_t>(2 * node.active, 1));
    }
    return largest;
}

/// Experts that a placement leaves on the host are cached in `into`, in a pool of `room`, from `from`; misses are
/// treated as `misses` says. False where there are none.
template <class = void>
bool bring_experts(placement& p, const graph& g, const tier_info& from, const location& into, bytes room,
                   on_miss misses) {
    std::size_t cached = 0;
    for (const std::vector<std::size_t>& group : detail::groups_to_bring(p, g, from, into)) {
        if (!detail::of_experts(g, group)) continue;
        for (const std::size_t t : group) {
            p.tensors[t] = {{from}, "experts are cached by use", into, retention::cache};
            cached += g.tensors[t].shape.experts;
        }
    }
    if (cached == 0) return false;
    p.pools.push_back({into, room, "frequency", {.half_life = ticks_a_slice * static_cast<double>(cached)}});
    p.misses = misses;
    p.fill = misses != on_miss::fetch;
    return true;
}

/// A share of the bytes of the groups that a placement leaves on the host, spread evenly over the run, is brought for
/// each use through a window of `room`. The host computes the others meanwhile. Experts that are missing are treated as
/// `misses` says. False where there are none.
template <class = void>
bool bring_share(placement& p, const graph& g, const tier_info& from, const location& into, bytes room, double share,
                 on_miss misses) {
    double due = 0;
    bool any = false;
    for (const std::vector<std::size_t>& group : detail::groups_to_bring(p, g, from, into)) {
        double size = 0;
        for (const std::size_t t : group) size += static_cast<double>(g.tensors[t].size().count);
        due += share * size;
        if (due * 2 < size) continue;
        due -= size;
        for (const std::size_t t : group)
            p.tensors[t] = {{from}, "it is brought for each use, while the host computes others", into};
        if (detail::of_experts(g, group)) p.misses = misses;
        any = true;
    }
    if (any) p.pools.push_back({.where = into, .limit = room});
    return any;
}

} // namespace tern
