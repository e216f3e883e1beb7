// KTransformers: attention and what every token uses on the accelerator, experts on the CPU, some of them in vram.
//
// Source: github.com/kvcache-ai/ktransformers, kt-kernel: the mask of experts on the GPU, and the layer-wise prefill
// above a number of tokens. Differences: the mask is that of a uniform placement, the first experts of every layer, and
// is not refreshed from measured routing (expert_offload takes measured frequencies as `activity`); of a layer's other
// experts those that the prompt chose come; no expert is deferred to the next layer, which would change the answer.
#pragma once

#include <tern/model/decoder.hpp>
#include <tern/plan/expert_offload.hpp>

#include "system.hpp"

namespace systems {

struct ktransformers {
    static constexpr std::string_view name = "KTransformers";
    static constexpr std::string_view does =
        "what every token uses in vram, and some experts of each layer; the CPU computes the others, but for long "
        "prompts they come layer by layer";
    std::size_t threshold = 32; ///< tokens from which on experts come

    tern::tiered_placement place(const setting& s) const {
        tern::expert_offload mask{.from = s.rest, .experts = tern::expert_choice::by_frequency};
        for (const tern::graph_node& node : s.graph.nodes) // all layers alike: the first experts of each are kept
            if (node.active != 0) {
                std::vector<double>& layer = mask.activity.emplace_back();
                for (std::size_t e = s.graph.tensors[node.tensors.front()].shape.experts; e != 0; --e)
                    layer.push_back(static_cast<double>(e));
            }
        mask.keep.besides = s.window();
        tern::placement p = mask.place(s.graph, s.machine);
        for (tern::pool_plan& pool : p.pools) pool.limit += s.window();
        tern::tiered_placement plans{{{threshold - 1, p, {}, {}}, {any_number, p, {}, {}}}};
        plans.tiers[0].plan.misses = tern::on_miss::compute;
        plans.tiers[1].plan.misses = tern::on_miss::fetch;
        return plans;
    }

    /// Both plans place the same, so that nothing is loaded between them: the treatment of missing experts changes, and
    /// those that came for a prompt leave after it.
    template <class Runtime> struct decoder {
        const tern::decoder& inner;
        Runtime& run;
        const tern::tiered_placement& plans;
        const tern::graph& graph;

        const tern::decoder_config& config() const noexcept { return inner.config(); }
        template <tern::kv_cache Cache>
        tern::task<tern::activation> forward(tern::context& ctx, const tern::batch& b, Cache& cache) const {
            const tern::placement& plan = plans.plan_for(b.size());
            ctx.treat_misses(tern::miss_policy(*plan.misses), &run.time());
            for (std::size_t t = 0; t < plan.tensors.size() && plan.misses == tern::on_miss::compute; ++t)
                for (std::size_t e = 0; plan.tensors[t].streamed() && e < graph.tensors[t].shape.experts; ++e)
                    leave(plan, graph.tensors[t].first + static_cast<tern::slice_id>(e));
            co_return co_await inner.forward(ctx, b, cache);
        }

    private:
        void leave(const tern::placement& plan, tern::slice_id id) const {
            for (const tern::pool_plan& pool : plan.pools)
                if (std::find(pool.how.pinned.begin(), pool.how.pinned.end(), id) == pool.how.pinned.end())
                    run.store().evict(id, *run.accelerator());
        }
    };
};

} // namespace systems
