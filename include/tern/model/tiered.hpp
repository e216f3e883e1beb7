// A decoder whose weights move when the number of tokens in a pass calls for another plan.
#pragma once

#include <cstddef>
#include <utility>

#include <tern/model/decoder.hpp>
#include <tern/model/runtime.hpp>
#include <tern/plan/token_tiers.hpp>

namespace tern {

/// Before each forward pass the plan of its number of tokens is carried out, where that is another one than the last.
/// The tokens are the same as under any plan. What it refers to must outlive it; the first pass loads the first plan.
///
///     tern::tiered_decoder tiered(*model, run, plans, graph);
///     loop.run(tern::generate(ctx, tiered, cache, tokens, choose, {.tokens = 40}, print));
template <class Runtime> class tiered_decoder {
public:
    tiered_decoder(const decoder& inner, Runtime& run, const tiered_placement& plans, const graph& g)
        : inner_(inner), run_(run), plans_(plans), graph_(g) {}

    const decoder_config& config() const noexcept { return inner_.config(); }
    /// Times that weights moved for another plan, the first included.
    std::size_t changes() const noexcept { return changes_; }

    /// Throws what `apply` throws; then the next pass tries again.
    template <kv_cache Cache> task<activation> forward(context& ctx, const batch& b, Cache& cache) const {
        const placement* const wanted = &plans_.plan_for(b.size());
        if (now_ == nullptr || (now_ != wanted && !same_plan(*now_, *wanted))) {
            now_ = nullptr;
            co_await run_.change(*wanted, graph_);
            ++changes_;
        }
        now_ = wanted;
        co_return co_await inner_.forward(ctx, b, cache);
    }

private:
    const decoder& inner_;
    Runtime& run_;
    const tiered_placement& plans_;
    const graph& graph_;
    mutable const placement* now_ = nullptr; // carried out
    mutable std::size_t changes_ = 0;
};

} // namespace tern
