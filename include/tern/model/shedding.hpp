// A decoder whose weights leave the accelerator as the context grows beyond what was planned for.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <tern/model/decoder.hpp>
#include <tern/model/runtime.hpp>
#include <tern/plan/shed.hpp>

namespace tern {

/// What a plan was made for, and how it shrinks.
struct shedding {
    bytes cache_per_token{};     ///< that the cache takes at `from`
    std::size_t context = 0;     ///< tokens that the plan has room for
    std::size_t step = 256;      ///< tokens that room is made for at once; whole pages of the cache
    std::vector<double> gains{}; ///< of each tensor, see gains_of; empty: the last placed leave first
    location from{tier_of<vram>, 0, 0};
    tier_info to = tier_of<mapped>;
};

/// Before a pass that makes the cache longer than there is room for, weights leave (`shed`), so that memory does not
/// run out. The tokens stay the same. What it refers to must outlive it. `plan` is loaded already.
///
///     tern::shedding_decoder longer(*model, run, plan, graph, {.cache_per_token = {4096}, .context = 2048});
///     loop.run(tern::generate(ctx, longer, cache, tokens, choose, {.tokens = 4000}, print));
template <class Runtime> class shedding_decoder {
public:
    shedding_decoder(const decoder& inner, Runtime& run, placement plan, const graph& g, shedding how)
        : inner_(inner), run_(run), plan_(std::move(plan)), graph_(g), how_(std::move(how)) {
        if (how_.step == 0) throw config_error("room is made for at least one token at once");
    }

    const decoder_config& config() const noexcept { return inner_.config(); }
    const placement& plan() const noexcept { return plan_; }
    /// Tokens that there is room for now.
    std::size_t context() const noexcept { return how_.context; }

    /// Throws budget_error where no weight is left to leave; the plan and the cache are then as before.
    template <kv_cache Cache> task<activation> forward(tern::context& ctx, const batch& b, Cache& cache) const {
        std::size_t tokens = b.size();
        for (std::size_t s = 0; s < cache.shape().sequences; ++s) tokens += cache.length(s);
        if (tokens > how_.context) {
            const std::size_t steps = (tokens - how_.context + how_.step - 1) / how_.step;
            placement next =
                shed(plan_, graph_, how_.from, how_.to, how_.cache_per_token * (steps * how_.step), how_.gains);
            co_await run_.change(next, graph_);
            plan_ = std::move(next);
            how_.context += steps * how_.step;
        }
        co_return co_await inner_.forward(ctx, b, cache);
    }

private:
    const decoder& inner_;
    Runtime& run_;
    mutable placement plan_;
    const graph& graph_;
    mutable shedding how_;
};

} // namespace tern
