// automatic: tern's own policy. Every way that others have is tried and priced, and so are their combinations; the one
// that is predicted to be fastest is taken.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/cost/cost_model.hpp>
#include <tern/cost/roofline.hpp>
#include <tern/plan/all_cpu.hpp>
#include <tern/plan/brought.hpp>
#include <tern/plan/by_tensor.hpp>
#include <tern/plan/estimate.hpp>
#include <tern/plan/expert_offload.hpp>
#include <tern/plan/layer_split.hpp>
#include <tern/plan/layer_stream.hpp>
#include <tern/plan/placement.hpp>

namespace tern {

/// A placement that was tried, and the time of a run under it.
struct tried_placement {
    placement plan{}; ///< `policy` names the way, such as "automatic: by_tensor"
    seconds time{};
};

namespace detail {

/// What happens to what a placement leaves on the host, as the names of placements say it.
enum class tried_way : unsigned char { stays, fetched, computed, shared, streams, streams_a_share };

/// "automatic: by what, and what else"; a constant.
inline std::string_view name_of(std::string_view family, tried_way way) {
    static constexpr std::array<std::array<std::string_view, 6>, 5> names{{
        {"automatic: layer_split", "automatic: layer_split, experts cached",
         "automatic: layer_split, experts cached, misses computed",
         "automatic: layer_split, experts cached, misses shared", "automatic: layer_stream",
         "automatic: layer_stream, shared with the host"},
        {"automatic: expert_offload, all on the host",
         "automatic: expert_offload",
         "automatic: expert_offload, misses computed",
         "automatic: expert_offload, misses shared",
         {},
         {}},
        {"automatic: expert_offload, first layers", {}, {}, {}, {}, {}},
        {"automatic: expert_offload, last layers",
         "automatic: expert_offload, last layers, others cached",
         "automatic: expert_offload, last layers, others cached, misses computed",
         "automatic: expert_offload, last layers, others cached, misses shared",
         {},
         {}},
        {"automatic: expert_offload, uniform", {}, {}, {}, {}, {}},
    }};
    static constexpr std::array<std::string_view, 5> families{"layer_split", "expert_offload", "first", "last",
                                                              "uniform"};
    std::size_t f = 0;
    while (families[f] != family) ++f;
    return names[f][static_cast<std::size_t>(way)];
}

/// Placements to be tried, whose members do not depend on the accelerator's budget: more memory lets more of them in
/// and shuts none out, so that the best of them is never slower. `offer` takes each that fits into `room`.
template <class Offer> class placement_families {
public:
    placement_families(const graph& g, const machine& m, const chain_options& o, on_miss misses, bytes room,
                       Offer& offer)
        : graph_(g), machine_(m), options_(o), room_(room), window_(least_window(g, o.into)), offer_(offer),
          roles_(roles_of(g)), host_(all_cpu{o.rest}.place(g, m)), ways_{on_miss::fetch} {
        if (misses != on_miss::fetch) ways_.push_back(on_miss::compute);
        if (misses == on_miss::split) ways_.push_back(on_miss::split);
        for (const graph_node& node : g.nodes) {
            if (node.layer != graph_node::no_layer) layers_ = std::max(layers_, node.layer + 1);
            if (node.active != 0) mixtures_.push_back(node.tensors);
        }
    }

    void offer_all() {
        for (std::size_t n = 0; n <= layers_; ++n) {
            const placement p =
                n == 0 ? host_ : layer_split{n, options_.into, options_.rest, {}}.place(graph_, machine_);
            if (!fits(p)) break;
            if (n != 0) submit(p, name_of("layer_split", tried_way::stays));
            cache_experts(p, "layer_split");
            stream(p);
        }
        if (mixtures_.empty()) return;
        for (std::size_t n = 1; n <= layers_; ++n) {
            const placement p = used_of(n);
            if (!fits(p)) break;
            cache_experts(p, "expert_offload");
            cache_in_ram(p);
        }
        for (const std::string_view which : {"first", "last", "uniform"}) experts_of_layers(which);
    }

private:
    bool fits(const placement& p) const { return taken_at(p, graph_, options_.into) <= room_; }
    bool may_go(std::size_t t) const {
        return roles_[t] != tensor_role::looked_up && graph_.tensors[t].allows(options_.into.tier);
    }

    /// What every token uses of the first layers; with the last of them also what follows.
    placement used_of(std::size_t layers) const {
        placement p = host_;
        for (const graph_node& node : graph_.nodes)
            for (const std::size_t t : node.tensors)
                if (roles_[t] == tensor_role::used && may_go(t) && (node.layer < layers || layers == layers_))
                    p.tensors[t] = {options_.into, "every token uses it", {}};
        keep_groups_whole(p, graph_, options_.into, host_);
        return p;
    }

    /// What every token uses, and all experts of some layers.
    void experts_of_layers(std::string_view which) {
        const placement base = used_of(layers_);
        const std::size_t all = mixtures_.size();
        for (std::size_t n = 0; n <= all; ++n) {
            placement p = base;
            for (std::size_t i = 0; i < n; ++i)
                for (const std::size_t t : mixtures_[which == "first"  ? i
                                                     : which == "last" ? all - 1 - i
                                                                       : (2 * i + 1) * all / (2 * n)])
                    if (may_go(t)) p.tensors[t] = {options_.into, "all experts of its layer are placed", {}};
            if (!fits(p)) break;
            submit(p, name_of(n == 0 ? "expert_offload" : which, tried_way::stays));
            if (which == "last" && n != 0) cache_experts(p, which);
        }
    }

    /// Experts that are on the host come through a cache in what is left.
    void cache_experts(const placement& p, std::string_view family) {
        const bytes taken = taken_at(p, graph_, options_.into);
        if (mixtures_.empty() || (room_ != unlimited && taken + window_ > room_)) return;
        for (const tier_info& from : sources(p))
            for (const on_miss way : ways_) {
                placement cached = on(p, from);
                if (!bring_experts(cached, graph_, from, options_.into, window_, way)) return;
                cached.policy = name_of(family, way == on_miss::fetch     ? tried_way::fetched
                                                : way == on_miss::compute ? tried_way::computed
                                                                          : tried_way::shared);
                best_pool(std::move(cached), taken);
                if (from == tier_of<direct>) break; // the host reads nothing there
            }
    }

    /// The cache as large as is fastest. Its size is one of a row that the graph gives. The time over it is convex: a
    /// call takes the longest of times that each change in proportion to the share that is cached.
    void best_pool(placement p, bytes taken) {
        constexpr std::uint64_t steps = 512;
        std::uint64_t all = 0; // with more than that all are cached
        for (std::size_t t = 0; t < p.tensors.size(); ++t)
            if (p.tensors[t].streamed()) all += graph_.tensors[t].size().count;
        const std::uint64_t step = all / steps + 1;
        std::uint64_t high = all > window_.count ? (all - window_.count) / step : 0;
        if (room_ != unlimited) high = std::min(high, (room_ - taken - window_).count / step);
        keep_groups_whole(p, graph_, options_.into, host_);
        const auto at = [&](std::uint64_t k) {
            p.pools.front().limit = window_ + bytes{k * step};
            return offer_(p);
        };
        double best = at(high).count;
        if (high == 0 || !(at(high - 1).count < best)) return;
        for (std::uint64_t low = 0; low + 1 < high;) {
            const std::uint64_t middle = low + (high - low) / 2;
            (at(middle - 1).count < at(middle).count ? high : low) = middle;
        }
    }

    /// Experts that RAM does not hold are cached there, from the disk, and the host computes them.
    void cache_in_ram(const placement& p) {
        const std::vector<tier_info> from = sources(p);
        if (from.back() != tier_of<direct>) return;
        const location ram{tier_of<pageable>, 0, 0};
        placement cached = on(p, tier_of<direct>);
        const memory_space* const memory = machine_.memory_at(ram);
        if (memory == nullptr) return;
        const bytes room = memory->room(), taken = room_taken(cached, graph_, machine_, *memory);
        if (room == unlimited || taken >= room) return;
        if (bring_experts(cached, graph_, tier_of<direct>, ram, room - taken, on_miss::fetch))
            submit(std::move(cached), "automatic: expert_offload, experts cached in RAM");
    }

    /// A share of the groups on the host is brought for each use.
    void stream(const placement& p) {
        placement q = p;
        for (std::size_t t = 0; t < q.tensors.size(); ++t) // a transfer of little is all latency
            if (may_go(t) && graph_.tensors[t].size().count <= 64 * 1024)
                q.tensors[t] = {options_.into, "it is small", {}};
        keep_groups_whole(q, graph_, options_.into, host_);
        for (const tier_info& from : sources(q))
            for (const double share : {0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 1.0}) {
                placement streamed = on(q, from);
                if (!bring_share(streamed, graph_, from, options_.into, window_, share, ways_.back())) continue;
                submit(std::move(streamed),
                       name_of("layer_split", share == 1 ? tried_way::streams : tried_way::streams_a_share));
            }
    }

    /// Where what is brought lies: where the host has it; where RAM does not hold the mapped file, a copy of what is
    /// needed of it, and where that does not fit either, the disk.
    std::vector<tier_info> sources(const placement& p) const {
        const location copy{tier_of<pageable>, 0, 0};
        if (options_.rest != tier_of<mapped> || !(cold_share(graph_, host_, machine_, options_.how.host) > 0))
            return {options_.rest};
        const placement copied = on(p, copy.tier);
        const memory_space* const memory = machine_.memory_at(copy);
        if (memory != nullptr && room_taken(copied, graph_, machine_, *memory) <= memory->room()) return {copy.tier};
        return {tier_of<mapped>, tier_of<direct>};
    }
    /// What is mapped, in another tier. What every token uses is not read from the disk each time.
    placement on(placement p, const tier_info& tier) const {
        const tier_info used = tier == tier_of<direct> ? tier_of<pageable> : tier;
        for (std::size_t t = 0; t < p.tensors.size(); ++t) {
            if (p.tensors[t].where.tier != tier_of<mapped> || roles_[t] == tensor_role::looked_up) continue;
            if (roles_[t] == tensor_role::expert && tier == tier_of<direct>) continue;
            if (graph_.tensors[t].allows(used)) p.tensors[t].where = {used, 0, 0};
        }
        return p;
    }

    void submit(placement p, std::string_view name) {
        keep_groups_whole(p, graph_, options_.into, host_);
        if (!fits(p)) return;
        p.policy = name;
        offer_(std::move(p));
    }

    const graph& graph_;
    const machine& machine_;
    const chain_options& options_;
    bytes room_;
    bytes window_;
    Offer& offer_;
    std::vector<tensor_role> roles_;
    placement host_; // everything is there
    std::vector<on_miss> ways_;
    std::size_t layers_ = 0;
    std::vector<std::vector<std::size_t>> mixtures_{}; // the experts of each layer that has some
};

} // namespace detail

/// Takes the placement that is predicted to be fastest for the run of `options.how` among
///
/// - all on the host; a share of the layers on the accelerator, for every number of layers (layer_split);
/// - what every token uses on the accelerator, with all experts of the first, the last or evenly spread layers, for
///   every number of them (expert_offload);
/// - group by group (by_tensor);
/// - the same with the other experts cached in what room is left, misses shared between link and host;
/// - the same with a share of the other groups brought for each use (layer_stream) while the host computes the rest.
///
/// So it is never slower than any of them, as far as the cost model knows. More memory lets more of them in and shuts
/// none out: it is never slower. Fusion groups stay whole. The name of the placement tells what was taken, the reasons
/// of its tensors tell why. Throws what the cost model throws.
///
///     auto plan = tern::automatic{}.place(graph, machine);             // by the machine's roofline
///     auto mine = tern::automatic{my_cost{}}.place(graph, machine);
template <cost_model Cost = roofline> struct automatic {
    static constexpr std::string_view name = "automatic";
    std::optional<Cost> cost{}; ///< nothing: the machine's roofline
    chain_options options{};
    on_miss misses = on_miss::split; ///< of the combinations: `split` lets timing decide who computes an expert

    placement place(const graph& g, const machine& m) const {
        tried_placement best;
        each(g, m, [&](tried_placement t) {
            if (best.plan.tensors.empty() || t.time < best.time) best = std::move(t);
        });
        return std::move(best.plan);
    }

    /// Everything that was tried, fastest first.
    std::vector<tried_placement> tried(const graph& g, const machine& m) const {
        std::vector<tried_placement> all;
        each(g, m, [&](tried_placement t) { all.push_back(std::move(t)); });
        std::stable_sort(all.begin(), all.end(),
                         [](const tried_placement& a, const tried_placement& b) { return a.time < b.time; });
        return all;
    }

    /// The cost model, for a machine.
    Cost prices(const machine& m) const {
        if constexpr (std::same_as<Cost, roofline>)
            return cost ? *cost : roofline(m);
        else if (cost)
            return *cost;
        throw config_error("automatic needs a cost model: give one, or take tern::roofline");
    }

private:
    static constexpr double never = std::numeric_limits<double>::infinity();

    template <class Take> void each(const graph& g, const machine& m, Take take) const {
        const Cost model = prices(m);
        bool some = false;
        const auto offer = [&](placement p) {
            try {
                check(p, g, m);
            } catch (const budget_error&) { return seconds{never}; } // of another memory, such as RAM
            const seconds time = estimate(g, p, m, model, options.how).total;
            take(tried_placement{std::move(p), time});
            some = true;
            return time;
        };
        placement host = all_cpu{options.rest}.place(g, m);
        host.policy = "automatic: all_cpu";
        offer(host);
        offer_all(g, m, model, offer);
        // Where nothing fits, the error of this one says what is missing.
        if (!some) take(tried_placement{std::move(host), {never}});
    }

    template <class Offer> void offer_all(const graph& g, const machine& m, const Cost& model, Offer& offer) const {
        for (placement p : {layer_stream{.from = tier_of<direct>, .keep = options.kept()}.place(g, m),
                            expert_offload{.from = tier_of<direct>, .keep = options.kept()}.place(g, m)}) {
            if (p.pools.empty()) continue; // nothing is brought
            p.policy = p.policy == layer_stream::name ? "automatic: layer_stream" : "automatic: expert_offload";
            if (m.room_at(options.into).count == 0) offer(std::move(p));
        }
        if (m.room_at(options.into).count == 0) return;
        const bytes room = detail::chain_room(g, m, options);
        placement grouped = by_tensor<Cost>{model, options}.place(g, m);
        grouped.policy = "automatic: by_tensor";
        offer(std::move(grouped));
        detail::placement_families<Offer>(g, m, options, misses, room, offer).offer_all();
    }
};

automatic() -> automatic<roofline>;
template <cost_model Cost> automatic(Cost) -> automatic<Cost>;
template <cost_model Cost> automatic(Cost, chain_options) -> automatic<Cost>;
template <cost_model Cost> automatic(Cost, chain_options, on_miss) -> automatic<Cost>;

static_assert(placement_policy<automatic<>>);

} // namespace tern
