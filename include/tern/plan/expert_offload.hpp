// expert_offload: what every token uses stays in fast memory; experts are cached or placed there as far as there is
// room.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/plan/all_cpu.hpp>
#include <tern/plan/kept_free.hpp>
#include <tern/plan/placement.hpp>
#include <tern/plan/roles.hpp>

namespace tern {

/// Which experts are in fast memory.
enum class expert_choice : unsigned char {
    by_use,       ///< those that were useful lately: a cache
    by_frequency, ///< the most used ones of `activity`, for good, in a cache that keeps them
    uniform,      ///< all of as many layers as fit, spread evenly over the model, for good
    first_layers, ///< all of the first layers, as many as fit, for good
    last_layers,  ///< all of the last layers, as many as fit, for good
};

/// For mixtures of experts. Everything that is no expert goes to vram where the machine has some and it fits, else to
/// RAM. Experts lie in `from` (direct, mapped, pinned or pageable); those that `experts` says are in the room that is
/// left, and the others are brought or, where the host reads `from` in place, may be computed there.
///
/// Experts of whole layers are placed: they take no RAM beside. The others are computed on the host, or fetched through
/// a `window` where there is one; `direct` needs one. Without vram nothing is chosen, and experts stay with the host.
///
///     auto plan = tern::expert_offload{.from = tern::tier_of<tern::direct>}.place(graph, run.machine());
struct expert_offload {
    static constexpr std::string_view name = "expert_offload";
    tier_info from = tier_of<mapped>;
    std::string eviction = "frequency"; ///< of a cache by use, which leave first: what make_eviction knows
    std::vector<slice_id> hot{};        ///< the slices that `pinned_set` keeps
    bool fill = false;                  ///< the cache is filled at the start: for misses that are not fetched
    expert_choice experts = expert_choice::by_use;
    /// For `by_frequency`: for each layer of the mixture, in the order of the graph, a weight for each expert.
    std::vector<std::vector<double>> activity{};
    bytes window{};   ///< beside experts that are placed: room of vram for those that are fetched; 0: none
    kept_free keep{}; ///< of vram

    /// Throws config_error where `activity` is needed and does not fit the graph.
    template <class = void> placement place(const graph& g, const machine& m) const {
        const location ram{tier_of<pageable>, 0, 0};
        const location accelerator{tier_of<vram>, 0, 0};
        const std::vector<tensor_role> roles = roles_of(g);
        placement p = all_cpu{from == tier_of<mapped> ? from : tier_of<pageable>}.place(g, m);
        p.policy = name;
        p.fill = fill || experts == expert_choice::by_frequency;
        bytes here = weight_room(g, m, accelerator, keep);
        for (std::size_t t = 0; t < g.tensors.size(); ++t) {
            placed_tensor& placed = p.tensors[t];
            const planned_tensor& tensor = g.tensors[t];
            if (roles[t] == tensor_role::looked_up && tensor.allows(tier_of<mapped>)) {
                placed = {{tier_of<mapped>}, "a row a token is looked up", {}};
            } else if (roles[t] == tensor_role::used && tensor.allows(tier_of<vram>) && need(tensor) <= here) {
                here -= need(tensor);
                placed = {accelerator, "every token uses it", {}};
            } else if (roles[t] == tensor_role::used) {
                placed.reason = "every token uses it";
            }
        }
        const std::vector<layer> layers = layers_of(g, roles);
        bytes largest{};
        for (const layer& l : layers) largest = std::max(largest, l.each);
        const bool there = largest <= here;
        const bool whole = experts != expert_choice::by_use && experts != expert_choice::by_frequency;
        if (there && whole) {
            place_layers(p, g, layers, accelerator, largest, here);
            return p;
        }
        bytes left = weight_room(g, m, ram);
        for (std::size_t t = 0; t < g.tensors.size(); ++t)
            if (roles[t] != tensor_role::expert && p.tensors[t].where == ram && left != unlimited)
                left = left > need(g.tensors[t]) ? left - need(g.tensors[t]) : bytes{};
        cache_experts(p, g, layers, there ? accelerator : ram, largest, there ? here : left);
        return p;
    }

private:
    /// The experts of one call.
    struct layer {
        std::vector<std::size_t> tensors{};
        std::size_t experts = 0;
        bytes each{}; ///< of one expert: all slices that a call leases
        bytes size{}; ///< of all, placed
        bool movable = true;
    };

    template <class = void> static std::vector<layer> layers_of(const graph& g, const std::vector<tensor_role>& roles) {
        std::vector<layer> all;
        std::vector<bool> seen(g.tensors.size());
        for (const graph_node& node : g.nodes) {
            layer l;
            for (const std::size_t t : node.tensors) {
                if (roles[t] != tensor_role::expert || seen[t]) continue;
                seen[t] = true;
                l.tensors.push_back(t);
                l.experts = g.tensors[t].shape.experts;
                l.each += g.tensors[t].slice_size + bytes{2 * 4096};
                l.size += need(g.tensors[t]);
                l.movable = l.movable && g.tensors[t].allows(tier_of<vram>);
            }
            if (!l.tensors.empty()) all.push_back(std::move(l));
        }
        return all;
    }

    /// Every layer's number in the order in which they are placed, of `count` that are to fit.
    std::vector<std::size_t> order_of(std::size_t layers, std::size_t count) const {
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < count; ++i)
            order.push_back(experts == expert_choice::uniform        ? (2 * i + 1) * layers / (2 * count)
                            : experts == expert_choice::first_layers ? i
                                                                     : layers - 1 - i);
        return order;
    }

    template <class = void>
    void place_layers(placement& p, const graph& g, const std::vector<layer>& layers, const location& to, bytes largest,
                      bytes room) const {
        bytes pool = window.count != 0 || from == tier_of<direct> ? std::max(window, largest) : bytes{};
        pool = std::min(pool, room);
        const bytes left = room == unlimited ? room : room - pool;
        std::vector<bool> chosen(layers.size());
        for (std::size_t count = layers.size(); count != 0; --count) {
            bytes size{};
            const std::vector<std::size_t> order = order_of(layers.size(), count);
            for (const std::size_t i : order) size += layers[i].movable ? layers[i].size : bytes{};
            if (size > left) continue;
            for (const std::size_t i : order) chosen[i] = layers[i].movable;
            break;
        }
        bool others = false;
        for (std::size_t i = 0; i < layers.size(); ++i)
            for (const std::size_t t : layers[i].tensors) {
                if (chosen[i]) {
                    p.tensors[t] = {to, "its layer's experts are placed: " + word(), {}};
                } else if (pool.count != 0 && g.tensors[t].allows(from) && g.tensors[t].allows(to.tier)) {
                    p.tensors[t] = {{from}, "experts of other layers are placed, these fetched", to, retention::cache};
                    others = true;
                } else if (g.tensors[t].allows(from) && from != tier_of<direct>) {
                    p.tensors[t] = {{from}, "experts of other layers are placed, these computed where they lie", {}};
                }
            }
        if (others) p.pools.push_back({.where = to, .limit = pool, .eviction = "lru"});
    }
    std::string word() const {
        return experts == expert_choice::uniform        ? "layers are spread evenly"
               : experts == expert_choice::first_layers ? "the first layers"
                                                        : "the last layers";
    }

    template <class = void>
    void cache_experts(placement& p, const graph& g, const std::vector<layer>& layers, const location& to,
                       bytes largest, bytes room) const {
        std::size_t cached = 0;
        for (const layer& l : layers)
            for (const std::size_t t : l.tensors) {
                if (!g.tensors[t].allows(from)) continue;
                if (to.tier.reached_by == reach::host && from != tier_of<direct>) {
                    p.tensors[t] = {{from}, "experts are computed where they lie", {}};
                } else if (g.tensors[t].allows(to.tier)) {
                    p.tensors[t] = {{from}, "experts are cached by use", to, retention::cache};
                    cached += g.tensors[t].shape.experts;
                }
            }
        pool_plan pool{to, room, eviction, {.half_life = ticks_a_slice * static_cast<double>(cached), .pinned = hot}};
        if (experts == expert_choice::by_frequency) {
            pool.eviction = "pinned_set";
            // Room for one expert that is not among them is left.
            pool.how.pinned = most_used(p, g, layers, room > largest ? room - largest : bytes{});
        }
        if (cached != 0) p.pools.push_back(std::move(pool));
    }

    /// The slices of the most used experts that fit.
    template <class = void>
    std::vector<slice_id> most_used(placement& p, const graph& g, const std::vector<layer>& layers, bytes room) const {
        struct one {
            std::size_t layer, expert;
            double weight;
        };
        if (activity.size() != layers.size())
            throw config_error("expert_offload by frequency: there is activity for " + std::to_string(activity.size()) +
                               " layers, and " + std::to_string(layers.size()) + " have experts");
        std::vector<one> all;
        for (std::size_t i = 0; i < layers.size(); ++i) {
            double sum = 0;
            for (const double w : activity[i]) sum += w >= 0 ? w : never;
            if (activity[i].size() != layers[i].experts || !(sum > 0 && sum < never))
                throw config_error("expert_offload by frequency: the activity of layer " + std::to_string(i) +
                                   " of the mixture is not one weight for each of its " +
                                   std::to_string(layers[i].experts) + " experts");
            for (std::size_t e = 0; e < layers[i].experts; ++e) all.push_back({i, e, activity[i][e] / sum});
        }
        std::stable_sort(all.begin(), all.end(), [](const one& a, const one& b) { return a.weight > b.weight; });
        std::vector<slice_id> kept;
        for (const one& o : all) {
            if (layers[o.layer].each > room) continue;
            if (room != unlimited) room -= layers[o.layer].each;
            for (const std::size_t t : layers[o.layer].tensors) {
                if (!p.tensors[t].streamed()) continue;
                kept.push_back(g.tensors[t].first + static_cast<slice_id>(o.expert));
                p.tensors[t].reason = "its most used experts are kept, the others fetched";
            }
        }
        return kept;
    }

    static constexpr double never = 1e300;

    static bytes need(const planned_tensor& t) {
        return {checked_add<std::uint64_t>(t.size().count, 3 * 4096 * t.shape.experts)};
    }
};

static_assert(placement_policy<expert_offload>);

} // namespace tern
