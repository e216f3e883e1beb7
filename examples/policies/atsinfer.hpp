// ATSInfer: each tensor where the run is fastest, and in each round the host's weights that pay are loaded beside.
//
// Source: arXiv 2607.10183, the static and the dynamic schedule. Differences: fusion groups are atomic; the dynamic
// schedule is made once for a prompt and once for single tokens, from the same prices, where there each round is
// planned from the times of the rounds before (tern/plan/load_aware.hpp has the rule for when); switches have launch
// and sync in them. Weights come by the engine's copies, and activations too, where there they are read in place.
#pragma once

#include <tern/plan/activity.hpp>
#include <tern/plan/by_tensor.hpp>
#include <tern/plan/load_aware.hpp>

#include "system.hpp"

namespace systems {

struct atsinfer {
    static constexpr std::string_view name = "ATSInfer";
    static constexpr std::string_view does =
        "tensors in vram by what they gain for a token; of the others those are loaded in a round whose copy is hidden";

    tern::tiered_placement place(const setting& s) const {
        tern::tiered_placement plans;
        const tern::chain_options how{.how = s.run_of(1), .into = vram, .rest = s.rest, .headroom = s.window()};
        const tern::placement fixed = tern::by_tensor{s.cost, how}.place(s.graph, s.machine);
        for (const std::size_t tokens : {std::size_t{1}, std::max<std::size_t>(s.prompt, 2)})
            plans.tiers.push_back({tokens, loaded(s, fixed, tokens), {}, {}});
        return plans;
    }

private:
    static tern::placement loaded(const setting& s, tern::placement p, std::size_t tokens) {
        const tern::estimate_options how = s.run_of(tokens);
        const tern::placement_chain chain(s.graph, s.machine, s.cost, how, vram, {s.rest, 0, 0});
        tern::timeline time(s.machine);
        const tern::weight_stream<prices> links(s.graph, p, s.machine, s.cost, time, how.host);
        std::vector<tern::load_item> items;
        for (std::size_t u = 0; u < chain.units().size(); ++u) {
            const tern::fusion_unit& unit = chain.units()[u];
            const tern::graph_node& node = s.graph.nodes[unit.nodes.front()];
            const auto& [to_host, to_device] = chain.steps()[unit.nodes.front()].arrive;
            const double experts = double(s.graph.tensors[unit.tensors.front()].shape.experts);
            const double used =
                node.active == 0 ? 1 : tern::expected_experts(experts, double(node.active), double(tokens)) / experts;
            double bring = 0; // over all links at once
            for (const tern::hop& h : links.way({s.rest, 0, 0}, vram, {std::uint64_t(double(unit.size.count) * used)}))
                bring = std::max(bring, h.time);
            const bool there = p.tensors[unit.tensors.front()].where == vram;
            const bool may = unit.movable && !there && u != chain.embedding_unit();
            items.push_back({{unit.host_time}, {unit.device_time}, {bring}, {to_host}, {to_device}, there, may});
        }
        const tern::load_plan next = tern::plan_loads(items, {chain.departure()});
        for (std::size_t u = 0; u < items.size(); ++u)
            for (const std::size_t t : chain.units()[u].tensors)
                if (next.loaded[u] != 0) p.tensors[t] = {{s.rest}, "its copy is hidden", vram};
        if (std::count(next.loaded.begin(), next.loaded.end(), 1) != 0)
            p.pools.push_back({.where = vram, .limit = s.window()});
        p.policy = name;
        return p;
    }
};

} // namespace systems
