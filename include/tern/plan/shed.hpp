// shed: weights leave a memory, the least useful first, so that something else that grows has room: the cache of keys
// and values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/cost/cost_model.hpp>
#include <tern/plan/all_cpu.hpp>
#include <tern/plan/brought.hpp>
#include <tern/plan/chain.hpp>
#include <tern/plan/placement.hpp>

namespace tern {

/// Seconds that each tensor's group gains in a run by lying in `into`, for `shed`. Throws what `pricing` throws.
template <cost_model Cost>
std::vector<double> gains_of(const graph& g, const machine& m, const Cost& cost, const estimate_options& how,
                             const location& into, const location& rest = {tier_of<mapped>, 0, 0}) {
    const placement_chain chain(g, m, cost, how, into, rest);
    std::vector<double> gains(g.tensors.size());
    for (const fusion_unit& u : chain.units())
        for (const std::size_t t : u.tensors) gains[t] = u.host_time - u.device_time;
    return gains;
}

/// The placement with at least `need` bytes less of weights at `from`: whole fusion groups go to `to`, or where their
/// types do not allow that, to the first host tier that they allow. Those go first that gain least for a byte; without
/// gains the last ones of the graph, which were placed last. Then rooms for what is brought there shrink, as far as
/// their largest user allows. Throws budget_error where all that is not enough.
///
///     plan = tern::shed(plan, graph, vram, tern::tier_of<tern::mapped>, cache_per_token * 256);
template <class = void>
placement shed(placement p, const graph& g, const location& from, const tier_info& to, bytes need,
               std::span<const double> gains = {}) {
    if (!gains.empty() && gains.size() != g.tensors.size())
        throw config_error("there are " + std::to_string(gains.size()) + " gains for " +
                           std::to_string(g.tensors.size()) + " tensors");
    struct leaver {
        std::size_t root;
        bytes size{};
        double gain = 0;
    };
    const std::vector<std::size_t> root = detail::joined_tensors(g);
    std::vector<leaver> groups;
    std::vector<std::size_t> at(g.tensors.size(), g.tensors.size());
    for (std::size_t t = 0; t < g.tensors.size(); ++t) {
        if (p.tensors[t].where != from) continue;
        std::size_t& i = at[root[t]];
        if (i == g.tensors.size()) i = groups.size(), groups.push_back({root[t], {}, gains.empty() ? 0 : gains[t]});
        groups[i].size += g.tensors[t].size(); // without what the arena rounds: never more than is given back
    }
    std::reverse(groups.begin(), groups.end());
    std::stable_sort(groups.begin(), groups.end(), [](const leaver& a, const leaver& b) {
        return a.gain * static_cast<double>(b.size.count) < b.gain * static_cast<double>(a.size.count);
    });
    const placement host = all_cpu{to}.place(g, {});
    bytes freed{};
    for (const leaver& l : groups) {
        if (freed >= need) return p;
        freed += l.size;
        for (std::size_t t = 0; t < g.tensors.size(); ++t)
            if (root[t] == l.root && p.tensors[t].where == from)
                p.tensors[t] = {host.tensors[t].where, "it left " + to_string(from) + " for a longer context", {}};
    }
    const bool brought =
        std::any_of(p.tensors.begin(), p.tensors.end(), [&](const placed_tensor& t) { return t.computes == from; });
    const bytes least = brought ? least_window(g, from) : bytes{};
    for (pool_plan& pool : p.pools) {
        if (pool.where != from || freed >= need) continue;
        const bytes spare = pool.limit > least ? pool.limit - least : bytes{};
        const bytes given = std::min(spare, need - freed);
        pool.limit -= given;
        freed += given;
    }
    if (freed >= need) return p;
    throw budget_error("no weight is left in " + to_string(from) + " that could leave for a longer context",
                       {.needed = need.count, .available = freed.count});
}

} // namespace tern
