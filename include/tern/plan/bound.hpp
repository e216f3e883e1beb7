// What no placement can beat: the bytes of a run over the bandwidths of the machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include <tern/cost/cost_model.hpp>
#include <tern/plan/kept_free.hpp>
#include <tern/plan/pricing.hpp>
#include <tern/plan/roles.hpp>

namespace tern {

namespace detail {

/// Bytes a second at which a cost model has something grow: what begins and ends it is not counted.
template <class Price> double rate_of(Price price) {
    constexpr double one = 1 << 30;
    const double time = price(bytes{2u << 30}) - price(bytes{1u << 30});
    return time > 0 ? one / time : 1e300;
}

} // namespace detail

/// What the least time counts.
enum class least_of : unsigned char {
    bytes,      ///< over bandwidths, alone
    arithmetic, ///< the longer of that and of the arithmetic, for each call
};

namespace detail {

/// Bytes a second of a graph's weights on one processor: of those that every token uses, and of experts.
struct weight_rates {
    double used = 0, experts = 0;
};

/// By the arithmetic of each call too: what begins a call, and its activations, are not counted.
template <cost_model Cost>
weight_rates rates_with_arithmetic(const graph& g, const pricing<Cost>& prices, const processor& p,
                                   const location& at) {
    double used = 0, used_time = 0, experts = 0, expert_time = 0;
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
        if (g.nodes[i].tensors.empty() || g.nodes[i].op == "embed") continue;
        const bool mixture = g.nodes[i].active != 0;
        run r = mixture ? prices.expert_work(i, prices.use(i, 0).touched, prices.pairs(i)) : prices.work(i);
        r.other = {};
        (mixture ? experts : used) += to_double(r.weights.count);
        (mixture ? expert_time : used_time) += prices.price_of(r, p, at) - prices.launches_of(r, p, at);
    }
    return {used_time > 0 ? used / used_time : 1e300, expert_time > 0 ? experts / expert_time : 1e300};
}

} // namespace detail

/// Seconds that a run takes at least on the host and one accelerator, by its bytes alone: no launch, latency or sync,
/// and no arithmetic unless it is asked for. The accelerator's memory holds what every token uses first, then experts,
/// all equally likely.
///
///     used there / accelerator + max(experts there / accelerator, experts elsewhere / (host + link)) + used elsewhere
///
/// Host and link work at once, together at most at the bandwidth of the host's memory: contention. Experts come when
/// their router has chosen, not before; what every token uses may come at any time, so for what does not fit the best
/// share is taken. Throws what the cost model throws.
///
///     auto least = tern::least_time(graph, machine, tern::roofline(machine), {.shape = {.tokens = 1}});
template <cost_model Cost>
seconds least_time(const graph& g, const machine& m, const Cost& cost, const estimate_options& how,
                   const kept_free& keep = {}, const location& into = {tier_of<vram>, 0, 0},
                   const location& rest = {tier_of<mapped>, 0, 0}, least_of what = least_of::bytes) {
    const pricing<Cost> prices(g, m, cost, how);
    const std::vector<tensor_role> roles = roles_of(g);
    double used = 0, experts = 0, touched = 0;
    std::string_view format;
    bytes largest{};
    for (std::size_t t = 0; t < g.tensors.size(); ++t) {
        const double size = static_cast<double>(g.tensors[t].size().count);
        if (roles[t] == tensor_role::used) used += size;
        if (roles[t] == tensor_role::expert) experts += size;
        if (g.tensors[t].size() > largest) largest = g.tensors[t].size(), format = g.tensors[t].format;
    }
    for (std::size_t i = 0; i < g.nodes.size(); ++i)
        if (g.nodes[i].active != 0)
            for (const std::size_t t : g.nodes[i].tensors)
                touched += prices.use(i, 0).touched * static_cast<double>(g.tensors[t].slice_size.count);
    const auto reads = [&](const processor& p, const location& where) {
        return detail::rate_of([&](bytes n) {
            return cost
                .price(run{.op = "linear",
                           .format = format,
                           .processor = p.name,
                           .reads = prices.read_from(p, where),
                           .weights = n})
                .count;
        });
    };
    const auto rates_of = [&](const processor& p, const location& where) {
        if (what == least_of::arithmetic) return detail::rates_with_arithmetic(g, prices, p, where);
        const double rate = reads(p, where);
        return detail::weight_rates{rate, rate};
    };
    const detail::weight_rates host = rates_of(prices.host(), rest);
    const location ram{tier_of<pageable>, 0, 0};
    const bytes room = weight_room(g, m, into, keep);
    if (room.count == 0 || m.processor_at(into) == nullptr) return {used / host.used + touched / host.experts};
    const detail::weight_rates device = rates_of(prices.processor_at(into), into);
    const double link = m.link_between(ram, into) == nullptr ? 0 : detail::rate_of([&](bytes n) {
        return cost.price(move{ram, into, n, cargo::weights, {}}).count;
    });
    const memory_space* const memory = m.memory_at(ram);
    const double most = memory != nullptr && memory->bandwidth ? memory->bandwidth->count : 1e300;
    const double both = std::min(host.experts + link, std::max(most, host.experts));
    const double there = std::min(used, static_cast<double>(room.count));
    const double share = experts > 0 ? std::min((static_cast<double>(room.count) - there) / experts, 1.0) : 0;
    const double mixture = std::max(touched * share / device.experts, touched * (1 - share) / both);
    double least = 1e300;
    for (int step = 0; step <= 1000; ++step) {
        const double brought = (used - there) * step / 1000;
        const double time = (there + brought) / device.used + (used - there - brought) / host.used;
        const double way = link > 0 ? brought / std::min(link, most) : brought > 0 ? 1e300 : 0;
        least = std::min(least, std::max(time, way));
    }
    return {least + mixture};
}

} // namespace tern
