// AirLLM: one layer at a time, from the disk, for every token.
//
// Source: github.com/lyogavin/airllm. Differences: reads, staging and copies of several weights are under way at once
// and not one file of a layer; the layer that comes ahead comes to vram, so that there is room for two, where there it
// waits in RAM; of experts only those that were chosen come, when the router has chosen them; the embedding is looked
// up row by row in its mapping; keys and values stay on the host.
#pragma once

#include <tern/plan/all_cpu.hpp>
#include <tern/plan/roles.hpp>

#include "system.hpp"

namespace systems {

struct airllm {
    static constexpr std::string_view name = "AirLLM";
    static constexpr std::string_view does =
        "every weight comes from the disk for each use, through room for two layers; nothing stays";

    tern::tiered_placement place(const setting& s) const {
        const std::vector<tern::tensor_role> roles = tern::roles_of(s.graph);
        tern::placement p = tern::all_cpu{tern::tier_of<tern::mapped>}.place(s.graph, s.machine);
        p.policy = name;
        tern::bytes largest = s.window(); // the output is a layer of its own
        for (std::size_t t = 0; t < p.tensors.size(); ++t) {
            const tern::planned_tensor& tensor = s.graph.tensors[t];
            const bool comes = tensor.allows(s.disk) && tensor.allows(vram.tier);
            if (roles[t] == tern::tensor_role::looked_up || !comes) continue;
            p.tensors[t] = {{s.disk}, "its layer comes for each token", vram};
            largest = std::max(largest, tensor.slice_size);
        }
        const tern::bytes room = tern::weight_room(s.graph, s.machine, vram);
        p.pools.push_back({.where = vram, .limit = std::min(largest * 2, room)}); // one computes, the next one comes
        return {{{any_number, std::move(p), {}, {}}}};
    }
};

} // namespace systems
