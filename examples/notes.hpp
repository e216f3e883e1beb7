// Combinations of options: those that contradict each other are refused, and those that change nothing are said.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/plan/placement.hpp>
#include <tern/plan/roles.hpp>

#include "options.hpp"
#include "placing.hpp"

/// Throws config_error for what cannot be meant, before a file is opened.
inline void refuse_contradictions(const options& args, const placing& where, bool has_vram) {
    if (args.plain().size() > 1 && args.has("prompt"))
        throw tern::config_error("the prompt is given twice: as \"" + args.plain()[1] + "\" and with --prompt");
    if (has_vram) return;
    if (where.policy == "layer_split" && where.layers > 0)
        throw tern::config_error("--policy layer_split=" + std::to_string(where.layers) + " needs --vram");
    if (where.policy == "layer_stream" && (args.on("load") || args.on("pinned")))
        throw tern::config_error(
            "--policy layer_stream without --vram brings weights to RAM for each use, and --load and "
            "--pinned keep them there: give --vram, or take --policy all_cpu");
}

/// What a plan makes of the options that may come to nothing.
struct plan_facts {
    bool in_vram = false;   ///< weights lie there, or are brought there
    bool cached = false;    ///< experts come and go
    bool elsewhere = false; ///< experts that the CPU could read in place of their device
    tern::bytes expert{};   ///< of the smallest one that comes and goes

    plan_facts(const tern::placement& p, const tern::graph& g) {
        const std::vector<tern::tensor_role> roles = tern::roles_of(g);
        for (std::size_t t = 0; t < p.tensors.size(); ++t) {
            const tern::placed_tensor& placed = p.tensors[t];
            const bool on_device = placed.computes.value_or(placed.where).tier == tern::tier_of<tern::vram>;
            in_vram = in_vram || on_device;
            cached = cached || placed.stay == tern::retention::cache;
            elsewhere = elsewhere || (roles[t] == tern::tensor_role::expert && placed.streamed() && on_device &&
                                      placed.where.tier != tern::tier_of<tern::direct>);
        }
        for (const tern::graph_node& node : g.nodes) {
            tern::bytes each{};
            for (const std::size_t t : node.tensors)
                if (p.tensors[t].stay == tern::retention::cache) each += g.tensors[t].slice_size;
            if (each != tern::bytes{} && (expert == tern::bytes{} || each < expert)) expert = each;
        }
    }
};

/// A sentence for each option that was given and changes nothing in this run.
inline std::vector<std::string> without_effect(const options& args, const placing& where, bool has_vram,
                                               const plan_facts& plan) {
    std::vector<std::string> notes;
    const auto note = [&](const std::string& option, const std::string& why) {
        notes.push_back("--" + option + " changes nothing: " + why);
    };
    for (const char* name : {"link", "latency-us", "gops", "vram-bandwidth", "launch-us"})
        if (args.has(name) && !plan.in_vram)
            note(name, has_vram ? "no weights go over the link" : "without --vram there is no link");
    if (has_vram && !plan.in_vram) note("vram", "this plan puts no weights there (--explain says why)");
    for (const char* name : {"eviction", "guess"})
        if (args.has(name) && !plan.cached)
            note(name, "this plan caches no experts; --policy expert_offload does, with --vram or --disk direct");
    if (const tern::bytes guess = args.size("guess", {}); plan.cached && guess.count != 0 && guess < plan.expert)
        note("guess", "an expert has " + to_string(plan.expert));
    if (args.has("machine") && where.policy != "automatic") note("machine", "only --policy automatic goes by prices");
    if (where.fill && !plan.elsewhere && where.direct && plan.cached)
        notes.push_back(
            "--on-miss fills the cache of experts at the start and changes nothing else: the CPU cannot read "
            "experts on the disk, so those that are missing are fetched");
    else if (where.fill && !plan.elsewhere)
        note("on-miss", "this plan brings no experts to vram");
    if (where.strict && !where.direct && !has_vram && !args.on("pinned"))
        note("strict", "it is about --disk direct, --pinned and the stages of --vram, and none of them is given");
    for (const char* name : {"seed", "top-k", "top-p", "min-p"})
        if (args.has(name) && args.real("temperature", 0) == 0)
            note(name, "at temperature 0 the most probable token is taken");
    return notes;
}
