// Carrying out a placement: copies are brought to where they were placed, and the scheduler is told what streams.
#pragma once

#include <cstddef>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <tern/plan/placement.hpp>
#include <tern/residency/scheduler.hpp>
#include <tern/residency/store.hpp>

namespace tern {

namespace detail {

/// The device that reads what lies at `where`.
inline device& device_reading(std::span<device* const> devices, const location& where, const std::string& tensor) {
    for (device* d : devices)
        if (d->reads(where)) return *d;
    throw config_error("no device computes on " + to_string(where), {.tensor = tensor});
}

/// The device in whose memory a copy at `where` lies.
inline device& device_holding(std::span<device* const> devices, const location& where, const std::string& tensor) {
    for (device* d : devices)
        if (d->memory().where() == where) return *d;
    throw config_error("no device has memory in " + to_string(where), {.tensor = tensor});
}

/// The device that computes a tensor.
inline device& computing_device(const planned_tensor& t, const placed_tensor& p, std::span<device* const> devices) {
    return device_reading(devices, p.computes.value_or(p.where), t.name);
}

/// Copies of an earlier placement that this one does not want are given up.
template <class = void>
void give_up_others(const placement& p, const graph& g, residency_store& store, std::span<device* const> devices) {
    for (std::size_t i = 0; i < g.tensors.size(); ++i)
        for (std::size_t e = 0; e < g.tensors[i].shape.experts; ++e)
            for (device* d : devices)
                if (d->memory().where() != p.tensors[i].where)
                    store.evict(g.tensors[i].first + static_cast<slice_id>(e), *d);
}

template <class = void> void bound_pools(const placement& p, residency_store& store, std::span<device* const> devices) {
    for (device* d : devices) store.bound(*d, unlimited);
    for (const pool_plan& pool : p.pools)
        store.bound(device_holding(devices, pool.where, "a pool"), pool.limit, make_eviction(pool.eviction, pool.how));
}

} // namespace detail

/// Bytes that `apply` will copy.
inline bytes bytes_to_load(const placement& p, const graph& g) {
    bytes sum{};
    for (std::size_t i = 0; i < p.tensors.size(); ++i)
        if (detail::holds_copies(p.tensors[i].where.tier)) sum += g.tensors[i].size();
    return sum;
}

/// The uses of one forward pass whose weights are brought for them, in order; experts are not among them, because only
/// their router knows. What is read from a mapping is among them too, so that the system is told.
template <class = void>
std::vector<scheduled_use> streaming_order(const placement& p, const graph& g, std::span<device* const> devices) {
    std::vector<scheduled_use> order;
    for (const graph_node& node : g.nodes)
        for (const std::size_t t : node.tensors) {
            const planned_tensor& tensor = g.tensors[t];
            const bool stays = !p.tensors[t].streamed() && p.tensors[t].where.tier != tier_of<mapped>;
            if (stays || tensor.ahead == 0 || node.active != 0 || node.op == "embed") continue;
            order.push_back(
                {tensor.first, &detail::computing_device(tensor, p.tensors[t], devices), tensor.move, tensor.ahead});
        }
    return order;
}

/// The experts that are cached, by layer in the order of the graph: what a scheduler may guess about.
template <class = void>
std::vector<expert_layer> cached_experts(const placement& p, const graph& g, std::span<device* const> devices) {
    std::vector<expert_layer> layers;
    for (const graph_node& node : g.nodes) {
        if (node.active == 0) continue;
        expert_layer layer;
        for (const std::size_t t : node.tensors) {
            const planned_tensor& tensor = g.tensors[t];
            if (!p.tensors[t].streamed() || p.tensors[t].stay != retention::cache) continue;
            layer.parts.push_back({tensor.first, tensor.move});
            layer.experts = tensor.shape.experts;
            layer.each += tensor.slice_size;
            layer.on = &detail::computing_device(tensor, p.tensors[t], devices);
        }
        if (!layer.parts.empty()) layers.push_back(std::move(layer));
    }
    return layers;
}

/// Gives up what was cached under an earlier placement: a copy that stays would be counted in its pool, also where the
/// next placement keeps it for good.
template <class = void> void give_up_cached(const std::vector<expert_layer>& layers, residency_store& store) {
    for (const expert_layer& layer : layers)
        for (const expert_layer::part& part : layer.parts)
            for (std::size_t e = 0; e < layer.experts; ++e)
                store.evict(part.first + static_cast<slice_id>(e), *layer.on);
}

namespace detail {

/// Brings cached experts while there is room: the first of each layer, then the second of each. They come beside what
/// follows.
template <class = void> void fill_pools(const std::vector<expert_layer>& layers, residency_store& store) {
    std::size_t most = 0;
    for (const expert_layer& layer : layers) most = layer.experts > most ? layer.experts : most;
    for (std::size_t e = 0; e < most; ++e)
        for (const expert_layer& layer : layers)
            for (const expert_layer::part& part : layer.parts) {
                const slice_id id = part.first + static_cast<slice_id>(e);
                if (e < layer.experts && store.bring_ahead({&id, 1}, *layer.on, part.move) == 0) return;
            }
}

/// Brings the slices that a pool is to keep, in their order, while there is room.
template <class = void>
void fill_pinned(const pool_plan& pool, const std::vector<expert_layer>& layers, residency_store& store) {
    for (const slice_id id : pool.how.pinned)
        for (const expert_layer& layer : layers)
            for (const expert_layer::part& part : layer.parts)
                if (id >= part.first && id - part.first < layer.experts && layer.on->memory().where() == pool.where &&
                    store.bring_ahead({&id, 1}, *layer.on, part.move) == 0)
                    return;
}

} // namespace detail

/// Places every slice, in the order of the graph. Copies of an earlier placement that this one does not want are given
/// up first. Throws what a transfer throws; copies that arrived before stay placed. A stop takes effect within one
/// chunk. `devices`, the graph, the placement and the listener must live until it completes.
///
///     loop.run(tern::apply(plan, graph, store, devices, stop, &progress));
template <class Void = void>
task<Void> apply(const placement& p, const graph& g, residency_store& store, std::span<device* const> devices,
                 std::stop_token stop = {}, arrival_listener* listener = nullptr) {
    detail::give_up_others(p, g, store, devices);
    detail::bound_pools(p, store, devices);
    for (std::size_t i = 0; i < g.tensors.size(); ++i) {
        const planned_tensor& t = g.tensors[i];
        const placed_tensor& placed = p.tensors[i];
        device& computing = detail::computing_device(t, placed, devices);
        for (std::size_t e = 0; e < t.shape.experts; ++e) {
            const slice_id slice = t.first + static_cast<slice_id>(e);
            device* holder = nullptr;
            if (detail::holds_copies(placed.where.tier)) {
                holder = &detail::device_holding(devices, placed.where, t.name);
                co_await store.place(slice, *holder, t.move, stop, listener);
            }
            if (holder != &computing) store.assign(slice, computing, placed.stay, placed.where.tier != tier_of<direct>);
        }
    }
    if (!p.fill) co_return;
    const std::vector<expert_layer> layers = cached_experts(p, g, devices);
    for (const pool_plan& pool : p.pools) detail::fill_pinned(pool, layers, store);
    detail::fill_pools(layers, store);
}

} // namespace tern
