// Pipelined sharding: a plan for each range of batch sizes; shards of layers stay in vram by priority, the others are
// computed on the CPU or stream to the accelerator, whichever is sooner for so many tokens.
//
// Source: arXiv 2604.26334 and the pull requests 22495, 22691 and 22692 of llama.cpp. Differences: prices are those of
// the cost model at hand, a profile or a roofline; a shard is a fusion group; the strategies of a tier are four, none,
// a quarter, half and all of the shards that are not in vram stream, evenly spread; all tiers keep the same shards, so
// that a change of plans moves nothing. Keys and values stay on the host, where there they come before all weights.
#pragma once

#include <tern/plan/all_cpu.hpp>
#include <tern/plan/brought.hpp>
#include <tern/plan/chain.hpp>

#include "system.hpp"

namespace systems {

struct pipelined_sharding {
    static constexpr std::string_view name = "pipelined sharding";
    static constexpr std::string_view does =
        "attention, then feed-forward, then output, then experts in vram; what is left is computed or streamed, by "
        "the number of tokens";
    std::vector<std::size_t> ranges{1, 8, 64, 512};

    tern::tiered_placement place(const setting& s) const {
        const tern::placement kept = by_priority(s);
        tern::tiered_placement plans;
        for (const std::size_t most : ranges) plans.tiers.push_back(best(s, kept, most));
        return plans;
    }

private:
    static tern::token_tier best(const setting& s, const tern::placement& kept, std::size_t tokens) {
        const tern::estimate_options how = s.run_of(tokens);
        tern::token_tier best{tokens, kept, tern::estimate(s.graph, kept, s.machine, s.cost, how).total, {}};
        for (const double share : {0.25, 0.5, 1.0}) {
            tern::placement p = kept;
            if (!tern::bring_share(p, s.graph, s.rest, vram, s.window(), share, tern::on_miss::fetch)) break;
            const tern::seconds time = tern::estimate(s.graph, p, s.machine, s.cost, how).total;
            if (time < best.time) best = {tokens, std::move(p), time, {}};
        }
        return best;
    }

    static tern::placement by_priority(const setting& s) {
        const tern::placement_chain chain(s.graph, s.machine, s.cost, s.run_of(1), vram, {s.rest, 0, 0});
        tern::placement p = tern::all_cpu{s.rest}.place(s.graph, s.machine);
        p.policy = name;
        tern::bytes room = tern::weight_room(s.graph, s.machine, vram, {.besides = s.window()});
        for (int rank = 0; rank < 4; ++rank)
            for (const tern::fusion_unit& unit : chain.units()) {
                if (!unit.movable || unit.size > room || rank_of(s.graph, unit) != rank) continue;
                room -= unit.size;
                for (const std::size_t t : unit.tensors) p.tensors[t] = {vram, "its shard has priority", {}};
            }
        return p;
    }
    static int rank_of(const tern::graph& g, const tern::fusion_unit& unit) {
        const tern::graph_node& node = g.nodes[unit.nodes.front()];
        if (node.active != 0) return 3;
        if (node.layer == tern::graph_node::no_layer) return 2;
        return g.tensors[unit.tensors.front()].name.find(".ffn") != std::string::npos ? 1 : 0;
    }
};

} // namespace systems
