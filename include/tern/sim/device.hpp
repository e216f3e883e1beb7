// A device in virtual time that computes nothing and moves nothing: it takes what a cost model says.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <tern/device/virtual_device.hpp>
#include <tern/kernel/router.hpp>
#include <tern/sim/world.hpp>

namespace tern {

namespace detail {

constexpr bytes whole_bytes(double n) noexcept { return {n > 0 ? static_cast<std::uint64_t>(n + 0.5) : 0}; }

} // namespace detail

/// A processor of a machine. Operators run one after the other, copies by direction and lane; each takes its price.
/// Only what steers the run is done: routers choose, as the world draws, and tokens are grouped by expert. The memory
/// is of a size that need not exist: it is never touched, but by those.
///
///     tern::sim_device gpu(world, machine.processors[1], vram);
template <class = void> class basic_sim_device final : public device {
public:
    /// All must outlive it.
    basic_sim_device(sim_world& world, const processor& p, arena& memory)
        : world_(world), processor_(p), memory_(memory), computes_{p.name}, brings_{"to " + p.name, true},
          returns_{"from " + p.name, true}, compute_(world.time, computer{this}),
          link_{queue(world.time, {this, true, cargo::weights}), queue(world.time, {this, false, cargo::weights}),
                queue(world.time, {this, true, cargo::activations}),
                queue(world.time, {this, false, cargo::activations})} {}

    std::string_view name() const noexcept override { return processor_.name; }
    kernel_kind kernels() const noexcept override { return kernel_kind::host; }
    arena& memory() noexcept override { return memory_; }

    bool start(device_call& call) override {
        if (call.items == 0) return true;
        compute_.submit(call);
        return false;
    }
    bool start(copy_call& call, direction way) override {
        link_.of(call, way).submit(call);
        return false;
    }
    link_traffic traffic() const noexcept override {
        return {detail::whole_bytes(brings_.bytes), detail::whole_bytes(returns_.bytes)};
    }

    const sim_track& computing() const noexcept { return computes_; }
    const sim_track& bringing() const noexcept { return brings_; }
    const sim_track& returning() const noexcept { return returns_; }

private:
    struct computer {
        basic_sim_device* owner;
        seconds cost(const device_call& call) const { return owner->begin(call); }
        void operator()(device_call& call) const { owner->steer(call); }
    };
    struct copier {
        basic_sim_device* owner;
        bool in;
        cargo what;
        route now{};
        seconds cost(const copy_call& call) {
            const location mine = owner->memory_.where();
            const location ram{tier_of<pageable>, 0, 0};
            now = in ? route{owner->world_.places.of(call.from, ram), mine}
                     : route{mine, owner->world_.places.of(call.to, ram)};
            const seconds t = owner->world_.begin({now.from, now.to, call.size, what, {}});
            owner->world_.note(in ? owner->brings_ : owner->returns_,
                               what == cargo::weights ? "weights" : "activations", t,
                               static_cast<double>(call.size.count));
            return t;
        }
        void operator()(copy_call&) noexcept { owner->world_.end(now); }
    };
    using queue = detail::virtual_service<copy_call, copier>;

    seconds begin(const device_call& call) {
        const call_work w = work_of(call);
        const seconds t = world_.cost.price({.op = w.op,
                                             .format = w.weight_bytes > 0 ? w.format : std::string_view{},
                                             .processor = processor_.name,
                                             .reads = world_.places.of(w.weight, memory_.where()),
                                             .tokens = static_cast<double>(w.tokens),
                                             .calls = 1,
                                             .weights = detail::whole_bytes(w.weight_bytes),
                                             .other = detail::whole_bytes(w.other_bytes),
                                             .operations = w.operations});
        world_.note(computes_, w.op, t, w.weight_bytes + w.other_bytes);
        return t;
    }

    void steer(const device_call& call) {
        const call_work w = work_of(call);
        if (w.op == kernel::route::name) choose(*static_cast<const kernel::route::args*>(w.args));
        if (w.op == kernel::group_by_expert::name) call.compute(call, 0, call.items);
    }
    void choose(const kernel::route::args& a) {
        const std::size_t layer = a.experts > 1 ? world_.routed++ : 0;
        for (std::size_t t = 0; t < a.tokens; ++t) world_.routing.choose(layer, a.experts, a.k, a.ids + t * a.k);
        std::fill_n(a.weights, a.tokens * a.k, 1.0f / static_cast<float>(a.k));
    }

    sim_world& world_;
    const processor& processor_;
    arena& memory_;
    sim_track computes_;
    sim_track brings_;
    sim_track returns_;
    detail::virtual_service<device_call, computer> compute_;
    detail::link_queues<queue> link_;
};

/// (A template underneath, so that a program compiles it only where it makes one.)
using sim_device = basic_sim_device<>;

} // namespace tern
