// Carrying out a placement: copies are brought to where they were placed, the rest is computed from its mapping.
#pragma once

#include <cstddef>
#include <span>
#include <stop_token>
#include <string>
#include <utility>

#include <tern/plan/placement.hpp>
#include <tern/residency/store.hpp>

namespace tern {

namespace detail {

/// The device that computes what lies at `where`, and in whose memory it lies where it is copied.
inline device& device_at(std::span<device* const> devices, const location& where, const std::string& tensor) {
    for (device* d : devices)
        if (d->reads(where)) return *d;
    throw config_error("no device computes on " + to_string(where), {.tensor = tensor});
}

} // namespace detail

/// Bytes that `apply` will copy.
inline bytes bytes_to_load(const placement& p, const graph& g) {
    bytes sum{};
    for (std::size_t i = 0; i < p.tensors.size(); ++i)
        if (p.tensors[i].where.tier != tier_of<mapped>) sum += g.tensors[i].size();
    return sum;
}

/// Places every slice, in the order of the graph. Copies of an earlier placement that this one does not want are given
/// up first. Throws what a transfer throws; copies that arrived before stay placed. A stop takes effect within one
/// chunk. `devices`, the graph, the placement and the listener must live until it completes.
///
///     loop.run(tern::apply(plan, graph, store, devices, stop, &progress));
template <class Void = void>
task<Void> apply(const placement& p, const graph& g, residency_store& store, std::span<device* const> devices,
                 std::stop_token stop = {}, arrival_listener* listener = nullptr) {
    for (std::size_t i = 0; i < g.tensors.size(); ++i)
        for (std::size_t e = 0; e < g.tensors[i].shape.experts; ++e)
            for (device* d : devices)
                if (d->memory().where() != p.tensors[i].where)
                    store.evict(g.tensors[i].first + static_cast<slice_id>(e), *d);
    for (std::size_t i = 0; i < g.tensors.size(); ++i) {
        const planned_tensor& t = g.tensors[i];
        const location where = p.tensors[i].where;
        device& on = detail::device_at(devices, where, t.name);
        for (std::size_t e = 0; e < t.shape.experts; ++e) {
            const slice_id slice = t.first + static_cast<slice_id>(e);
            if (where.tier == tier_of<mapped>)
                store.assign(slice, on);
            else
                co_await store.place(slice, on, t.move, stop, listener);
        }
    }
}

} // namespace tern
