// token_tiers: a plan for each range of batch sizes, chosen at run time. What a change of plans takes is priced too.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/cost/cost_model.hpp>
#include <tern/plan/automatic.hpp>
#include <tern/plan/estimate.hpp>
#include <tern/plan/placement.hpp>
#include <tern/plan/streaming.hpp>

namespace tern {

/// Whether two placements do the same, whatever their reasons.
template <class = void> bool same_plan(const placement& a, const placement& b) {
    const auto alike = [](const placed_tensor& x, const placed_tensor& y) {
        return x.where == y.where && x.computes == y.computes && (!x.computes || x.stay == y.stay);
    };
    const auto pools = [](const pool_plan& x, const pool_plan& y) {
        return x.where == y.where && x.limit == y.limit && x.eviction == y.eviction && x.how.pinned == y.how.pinned;
    };
    return a.fill == b.fill && a.misses == b.misses &&
           std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(), alike) &&
           std::equal(a.pools.begin(), a.pools.end(), b.pools.begin(), b.pools.end(), pools);
}

/// What `apply` takes to carry out `to` after `from`: copies that are not there yet come over the links, one after the
/// other, from the host's copy where there is one, else from the file; a cache that is filled at the start is filled
/// anew. What leaves costs nothing, because every weight has a backing. Throws what the cost model throws.
template <cost_model Cost>
seconds switch_price(const placement& from, const placement& to, const graph& g, const machine& m, const Cost& cost,
                     const location& host = {tier_of<pageable>, 0, 0}) {
    if (same_plan(from, to)) return {};
    timeline time(m);
    const weight_stream<Cost> links(g, to, m, cost, time, host);
    double sum = 0;
    const auto bring = [&](const location& a, const location& b, bytes size) {
        double longest = 0;
        for (const hop& h : links.way(a, b, size)) longest = std::max(longest, h.time);
        sum += longest;
    };
    std::vector<bytes> cached(to.pools.size());
    for (std::size_t t = 0; t < g.tensors.size(); ++t) {
        const placed_tensor &was = from.tensors[t], &is = to.tensors[t];
        const bool on_host = was.where.tier.reached_by == reach::host;
        const location source = on_host ? was.where : location{tier_of<mapped>, 0, 0};
        if (detail::holds_copies(is.where.tier) && was.where != is.where) bring(source, is.where, g.tensors[t].size());
        for (std::size_t i = 0; is.streamed() && is.stay == retention::cache && to.fill && i < cached.size(); ++i)
            if (to.pools[i].where == *is.computes && cached[i] < to.pools[i].limit) {
                const bytes size = std::min(g.tensors[t].size(), to.pools[i].limit - cached[i]);
                bring(is.where, *is.computes, size);
                cached[i] += size;
            }
    }
    return {sum};
}

/// A plan for runs of up to `most` tokens.
struct token_tier {
    std::size_t most = 0;
    placement plan{};
    seconds time{};   ///< predicted, of a run of `most` tokens
    seconds change{}; ///< predicted, from the plan of one token to this one and back; 0 where it is the same
};

/// Plans by the number of tokens, ascending; the last serves all that are more.
struct tiered_placement {
    std::vector<token_tier> tiers{};

    std::size_t index_of(std::size_t tokens) const noexcept {
        std::size_t i = 0;
        while (i + 1 < tiers.size() && tokens > tiers[i].most) ++i;
        return i;
    }
    /// Throws config_error where there is none.
    const placement& plan_for(std::size_t tokens) const {
        if (tiers.empty()) throw config_error("there is no plan: place a graph first");
        return tiers[index_of(tokens)].plan;
    }
};

/// Where a range of batch sizes ends, and how many runs of it follow each other, which a change of plans pays by.
struct token_range {
    std::size_t most = 1;
    double runs = 1;
};

/// A plan for each range of tokens, of those that `automatic` tries for it. A tier has another plan than the first only
/// where that pays within the runs that follow each other: what the runs take and what the change takes, there and
/// back, is the least there is. Plans that differ in how they bring weights, and not in what is placed, change for
/// nothing.
///
///     auto plans = tern::token_tiers{}.place(graph, machine);
///     run.load(plans.plan_for(1), graph);
template <cost_model Cost = roofline> struct token_tiers {
    automatic<Cost> policy{};
    /// Single tokens, a few sequences at once, a prompt's chunk, and larger ones.
    std::vector<token_range> ranges{{1, 256}, {16, 256}, {512, 8}, {2048, 8}};

    /// Throws config_error where ranges do not rise, and what `automatic` throws.
    tiered_placement place(const graph& g, const machine& m) const {
        const Cost cost = policy.prices(m);
        tiered_placement plans;
        for (const token_range& range : ranges) {
            const std::size_t before = plans.tiers.empty() ? 0 : plans.tiers.back().most;
            if (range.most <= before || !(range.runs > 0))
                throw config_error("token_tiers: ranges rise, from one token on, and have runs");
            automatic<Cost> own = policy;
            own.options.how.shape.tokens = range.most;
            if (plans.tiers.empty()) {
                std::vector<tried_placement> all = own.tried(g, m);
                plans.tiers.push_back({range.most, std::move(all.front().plan), all.front().time, {}});
            } else {
                plans.tiers.push_back(another(plans.tiers.front().plan, range, own, g, m, cost));
            }
        }
        return plans;
    }

private:
    static token_tier another(const placement& first, const token_range& range, const automatic<Cost>& own,
                              const graph& g, const machine& m, const Cost& cost) {
        token_tier best{range.most, first, estimate(g, first, m, cost, own.options.how).total, {}};
        const seconds kept = best.time;
        for (tried_placement& t : own.tried(g, m)) {
            if (!(t.time < kept)) break; // they are in order, and the others gain nothing
            const seconds way = switch_price(first, t.plan, g, m, cost) + switch_price(t.plan, first, g, m, cost);
            if (t.time.count * range.runs + way.count < best.time.count * range.runs + best.change.count)
                best = {range.most, std::move(t.plan), t.time, way};
        }
        return best;
    }
};

/// What is asked of a model with a plan for each number of tokens.
struct tiered_speed {
    double prefill = 0; ///< tokens a second, without changes of plans
    double decode = 0;
    seconds changing{}; ///< between the plan of the prompt and that of single tokens, once
};

/// Prefill and decode as `speed_of` has them, each under the plan of its tier, and the change between them.
template <cost_model Cost>
tiered_speed speed_of(const graph& g, const tiered_placement& plans, const machine& m, const Cost& cost,
                      const estimate_options& how, const workload& w) {
    const placement& prompt = plans.plan_for(std::min(w.chunk, w.prompt));
    const placement& token = plans.plan_for(1);
    return {speed_of(g, prompt, m, cost, how, w).prefill, speed_of(g, token, m, cost, how, w).decode,
            switch_price(prompt, token, g, m, cost)};
}

} // namespace tern
