// profile_moves: measures how long weights and activations take between the memories of a machine, to fill `profiled`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tern/async/run_loop.hpp>
#include <tern/cost/machine.hpp>
#include <tern/cost/profiled.hpp>
#include <tern/device/device.hpp>
#include <tern/memory/arena.hpp>
#include <tern/plan/graph.hpp>
#include <tern/profile/timing.hpp>
#include <tern/residency/store.hpp>

namespace tern {

struct move_profile_options {
    location from{tier_of<mapped>, 0, 0}; ///< where weights lie that are brought for a use
    std::vector<bytes> activations{{64}, {4 << 10}, {64 << 10}, {1 << 20}};
    std::size_t sizes = 5; ///< of weights: the smallest, the largest, and so many in all
    timing_limits limits{};
};

namespace detail {

template <class = void> class move_profiler {
public:
    move_profiler(run_loop& home, std::span<device* const> devices, residency_store& store, const graph& g,
                  const move_profile_options& how, profile& into)
        : home_(home), devices_(devices), store_(store), graph_(g), how_(how), into_(into) {}

    void measure() {
        for (device* d : devices_) {
            const location there = d->memory().where();
            const bool host = there.tier.reached_by == reach::host;
            if (!host) activations(*d);
            if (host && (how_.from.tier != tier_of<direct> || d != devices_.front())) continue;
            for (const std::size_t t : chosen(there)) weights(*d, graph_.tensors[t]);
        }
    }

private:
    void activations(device& d) {
        const location ram = devices_.front()->memory().where(), there = d.memory().where();
        for (const bytes size : how_.activations) {
            std::vector<std::byte> here(size.count);
            allocation far;
            try {
                far = d.memory().allocate(size, "a copy that is timed");
            } catch (const budget_error&) { continue; } // it cannot have such activations either
            for (const direction way : {direction::to_device, direction::to_host}) {
                std::vector<seconds> times;
                const auto once = [&] { return copied(d, way, far.data(), here.data(), size); };
                home_.run(repeat(once, how_.limits, times));
                const bool in = way == direction::to_device;
                into_.moves.push_back(
                    {in ? ram : there, in ? there : ram, cargo::activations, size, 0, median_of(std::move(times))});
            }
        }
    }
    task<seconds> copied(device& d, direction way, std::byte* far, std::byte* near, bytes size) {
        const seconds begin = clock_now();
        const bool in = way == direction::to_device;
        co_await copy(d, home_, way, in ? far : near, in ? near : far, size, lane::activations);
        co_return clock_now() - begin;
    }

    /// Tensors of different sizes, from the smallest to the largest, that may lie there.
    std::vector<std::size_t> chosen(const location& there) const {
        std::vector<std::size_t> all;
        for (std::size_t t = 0; t < graph_.tensors.size(); ++t)
            if (graph_.tensors[t].allows(there.tier) && graph_.tensors[t].move != nullptr) all.push_back(t);
        const auto size = [&](std::size_t t) { return graph_.tensors[t].slice_size.count; };
        std::stable_sort(all.begin(), all.end(), [&](std::size_t a, std::size_t b) { return size(a) < size(b); });
        all.erase(std::unique(all.begin(), all.end(), [&](std::size_t a, std::size_t b) { return size(a) == size(b); }),
                  all.end());
        const std::size_t most = std::max<std::size_t>(how_.sizes, 2);
        std::vector<std::size_t> some;
        for (std::size_t i = 0; i < most && all.size() > most; ++i)
            some.push_back(all[i * (all.size() - 1) / (most - 1)]);
        return all.size() > most ? some : all;
    }
    void weights(device& d, const planned_tensor& t) {
        std::vector<seconds> times, first;
        try {
            std::size_t turn = 0;
            const auto once = [&] { return brought(d, t, turn++ % t.shape.experts); };
            home_.run(repeat(once, {.least = t.shape.experts < 8 ? 1u : 8u, .most = 8}, first)); // files into the cache
            home_.run(repeat(once, how_.limits, times));
        } catch (const budget_error&) { return; } // it cannot be brought in a run either
        into_.moves.push_back(
            {how_.from, d.memory().where(), cargo::weights, t.slice_size, 0, median_of(std::move(times))});
    }
    task<seconds> brought(device& d, const planned_tensor& t, std::size_t expert) {
        const slice_id id = t.first + static_cast<slice_id>(expert);
        const seconds begin = clock_now();
        co_await store_.place(id, d, t.move);
        const seconds took = clock_now() - begin;
        store_.evict(id, d);
        co_return took;
    }

    run_loop& home_;
    std::span<device* const> devices_;
    residency_store& store_;
    const graph& graph_;
    const move_profile_options& how_;
    profile& into_;
};

} // namespace detail

/// Adds to a profile: activations of some sizes over the links of each accelerator, both ways; and weights of some of
/// the graph's sizes, each brought from its backing by the transfer of its type, to each accelerator and, from
/// `direct`, to RAM. The store is that of the graph's model, before anything is loaded; nothing stays. What does not
/// fit is left out. The first device is the host. Throws what a transfer throws.
///
///     tern::profile_moves(run.loop(), run.devices(), run.store(), graph, {}, measured.table);
template <class = void>
void profile_moves(run_loop& home, std::span<device* const> devices, residency_store& store, const graph& g,
                   const move_profile_options& how, profile& into) {
    detail::move_profiler<>(home, devices, store, g, how, into).measure();
}

} // namespace tern
