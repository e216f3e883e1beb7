// expert_offload: what every token uses stays in fast memory; experts are cached there as far as there is room.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tern/plan/all_cpu.hpp>
#include <tern/plan/placement.hpp>
#include <tern/plan/roles.hpp>

namespace tern {

/// For mixtures of experts. Everything that is no expert goes to vram where the machine has some and it fits, else to
/// RAM. Experts lie in `from` (direct, mapped, pinned or pageable); those that were useful lately stay in the room that
/// is left, and the others are brought or, where the host reads `from` in place, may be computed there.
///
///     auto plan = tern::expert_offload{.from = tern::tier_of<tern::direct>}.place(graph, run.machine());
struct expert_offload {
    static constexpr std::string_view name = "expert_offload";
    tier_info from = tier_of<mapped>;
    std::string eviction = "frequency"; ///< which experts leave first: what make_eviction knows
    std::vector<slice_id> hot{};        ///< the slices that `pinned_set` keeps
    bool fill = false;                  ///< the cache is filled at the start: for misses that are not fetched

    template <class = void> placement place(const graph& g, const machine& m) const {
        const location ram{tier_of<pageable>, 0, 0};
        const location accelerator{tier_of<vram>, 0, 0};
        const std::vector<tensor_role> roles = roles_of(g);
        placement p = all_cpu{from == tier_of<mapped> ? from : tier_of<pageable>}.place(g, m);
        p.policy = name;
        p.fill = fill;
        bytes here = weight_room(g, m, accelerator);
        for (std::size_t t = 0; t < g.tensors.size(); ++t) {
            placed_tensor& placed = p.tensors[t];
            const planned_tensor& tensor = g.tensors[t];
            if (roles[t] == tensor_role::looked_up && tensor.allows(tier_of<mapped>)) {
                placed = {{tier_of<mapped>}, "a row a token is looked up", {}};
            } else if (roles[t] == tensor_role::used && tensor.allows(tier_of<vram>) && need(tensor) <= here) {
                here -= need(tensor);
                placed = {accelerator, "every token uses it", {}};
            } else if (roles[t] == tensor_role::used) {
                placed.reason = "every token uses it";
            }
        }
        bytes left = weight_room(g, m, ram);
        for (std::size_t t = 0; t < g.tensors.size(); ++t)
            if (roles[t] != tensor_role::expert && p.tensors[t].where == ram && left != unlimited)
                left = left > need(g.tensors[t]) ? left - need(g.tensors[t]) : bytes{};
        cache_experts(p, g, roles, largest_expert(g, roles) <= here ? accelerator : ram,
                      largest_expert(g, roles) <= here ? here : left);
        return p;
    }

private:
    template <class = void>
    void cache_experts(placement& p, const graph& g, const std::vector<tensor_role>& roles, const location& to,
                       bytes room) const {
        std::size_t cached = 0;
        for (std::size_t t = 0; t < g.tensors.size(); ++t) {
            if (roles[t] != tensor_role::expert || !g.tensors[t].allows(from)) continue;
            if (to.tier.reached_by == reach::host && from != tier_of<direct>) {
                p.tensors[t] = {{from}, "experts are computed where they lie", {}};
            } else if (g.tensors[t].allows(to.tier)) {
                p.tensors[t] = {{from}, "experts are cached by use", to, retention::cache};
                cached += g.tensors[t].shape.experts;
            }
        }
        if (cached == 0) return;
        const double half_life = ticks_a_slice * static_cast<double>(cached);
        p.pools.push_back({to, room, eviction, {.half_life = half_life, .pinned = hot}});
    }

    /// Bytes of the largest expert: all slices that one call leases.
    template <class = void> static bytes largest_expert(const graph& g, const std::vector<tensor_role>& roles) {
        bytes largest{};
        for (const graph_node& node : g.nodes) {
            bytes sum{};
            for (const std::size_t t : node.tensors)
                if (roles[t] == tensor_role::expert) sum += g.tensors[t].slice_size + bytes{2 * 4096};
            largest = std::max(largest, sum);
        }
        return largest;
    }
    static bytes need(const planned_tensor& t) {
        return {checked_add<std::uint64_t>(t.size().count, 3 * 4096 * t.shape.experts)};
    }
};

static_assert(placement_policy<expert_offload>);

} // namespace tern
