// A simulation: a runtime whose machine is a description and whose time is virtual. Decoders, policies, scheduler and
// residency are the real ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tern/async/run_loop.hpp>
#include <tern/async/virtual_clock.hpp>
#include <tern/base/checked.hpp>
#include <tern/base/error.hpp>
#include <tern/device/host_memory.hpp>
#include <tern/file/checkpoint.hpp>
#include <tern/memory/arena.hpp>
#include <tern/memory/region_arena.hpp>
#include <tern/model/decoder.hpp>
#include <tern/op/context.hpp>
#include <tern/plan/apply.hpp>
#include <tern/plan/placement.hpp>
#include <tern/residency/scheduler.hpp>
#include <tern/residency/store.hpp>
#include <tern/sim/cache.hpp>
#include <tern/sim/device.hpp>
#include <tern/sim/disk.hpp>

namespace tern {

struct simulation_options {
    expert_draw routing{};
    on_miss misses = on_miss::fetch;
    bytes guess{}; ///< of experts that may be brought a layer on a guess; 0: none
};

/// What one forward pass took.
struct pass_report {
    std::size_t tokens = 0;
    seconds took{};
    std::vector<sim_track> tracks{}; ///< of each device, link and disk, in this pass

    double tokens_per_second() const noexcept { return static_cast<double>(tokens) / took.count; }
    /// Who was busy longest.
    const sim_track* bound() const noexcept {
        const sim_track* most = nullptr;
        for (const sim_track& t : tracks)
            if (most == nullptr || t.busy > most->busy) most = &t;
        return most;
    }
};

/// Runs decoders on a machine that need not exist, faster than it would. Nothing is computed and no weight is read.
/// Memories are addresses that nobody touches, as large as the machine says. Make it before the model; on one thread.
///
///     tern::cost_by cost{tern::roofline(machine)};
///     tern::simulation sim(machine, cost);
///     auto model = tern::open_decoder(file, sim.store());
///     auto graph = tern::record(*model, sim.loop(), sim.host(), 512);
///     sim.load(policy.place(graph, sim.machine()), graph);
///     auto decode = sim.decode(*model, 2048);
template <class = void> class basic_simulation {
public:
    /// Throws config_error where the machine has no cpu or no RAM, and budget_error where the system does not reserve
    /// addresses for a memory.
    basic_simulation(tern::machine m, const any_cost& cost, const simulation_options& options = {})
        : machine_(checked(std::move(m))), world_{time_, cost}, ram_(ram(), capacity_of(ram())),
          staging_({tier_of<pinned>, 0, 0}, staging_size), disk_(world_, ram()), host_(world_, host_processor(), ram_),
          store_(loop_, staging_, {.disk = &disk_, .time = &time_}), order_(store_), guess_(options.guess),
          misses_(options.misses), context_(loop_, host_) {
        world_.routing = options.routing;
        know(ram_);
        know(staging_);
        devices_.push_back(&host_);
        for (const memory_space& memory : machine_.memories) add(memory);
        context_.treat_misses(miss_policy(options.misses), &time_);
    }
    basic_simulation(const basic_simulation&) = delete;
    basic_simulation& operator=(const basic_simulation&) = delete;

    run_loop& loop() noexcept { return loop_; }
    const clock& time() const noexcept { return time_; }
    sim_device& host() noexcept { return host_; }
    residency_store& store() noexcept { return store_; }
    context& ctx() noexcept { return context_; }
    const tern::machine& machine() const noexcept { return machine_; }
    std::span<device* const> devices() const noexcept { return devices_; }

    /// Weights that lie in this file's mapping are priced as lying there. Before a forward pass of its model.
    void maps(const checkpoint& file) {
        for (std::uint32_t shard = 0; shard < file.shard_count(); ++shard) {
            const std::span<const std::byte> all = file.mapping(shard);
            world_.places.add(all.data(), {all.size()}, {tier_of<mapped>, 0, 0});
        }
    }

    /// Told of everything that devices and links do from now on; null: nobody is.
    void tell(std::vector<sim_event>* events) noexcept { world_.events = events; }

    /// Sets the room of a cache for `tokens` tokens aside, before a plan is made: each layer lies where its keys are
    /// made. An accelerator is expected to hold the share of the layers that it holds of the weights.
    void reserve_cache(const decoder& model, const graph& g, std::size_t tokens) {
        const kv_shape s = model.config().cache_for(tokens);
        std::uint64_t numbers = checked_mul<std::uint64_t>(checked_mul<std::uint64_t>(s.layers, s.width), tokens);
        const auto all = static_cast<double>(checked_mul<std::uint64_t>(numbers, 2 * sizeof(float)));
        double rest = 1;
        for (memory_space& m : machine_.memories) {
            if (m.where.tier.reached_by == reach::host) continue;
            // What the cache takes is lost to the weights: share = (room - share * cache) / weights.
            const double room = static_cast<double>(m.room().count);
            const double share = std::min(rest, room / (static_cast<double>(g.weight_bytes().count) + all));
            m.reserved += bytes{static_cast<std::uint64_t>(share * all)};
            rest -= share;
        }
        for (memory_space& m : machine_.memories)
            if (m.where == ram()) m.reserved += bytes{static_cast<std::uint64_t>(rest * all)};
    }

    /// Checks a placement and carries it out; gives the time that loading takes. From then on the system keeps files
    /// in RAM that fit there, but for a placement that reads them past its cache.
    seconds load(const placement& p, const graph& g) {
        check(p, g, machine_);
        const seconds begin = time_.now();
        disk_.kept_in_ram(nullptr);
        order_.follow({});
        order_.guess_experts({}, {});
        give_up_cached(cached_, store_);
        cached_ = cached_experts(p, g, devices());
        loop_.run(apply(p, g, store_, devices()));
        order_.guess_experts(cached_, guess_);
        const seconds took = time_.now() - begin;
        cache_on_ = keepers(p, g);
        context_.treat_misses(miss_policy(p.misses.value_or(misses_)), &time_);
        if (stays_in_ram(p, g)) disk_.kept_in_ram(&host_processor());
        order_.follow(streaming_order(p, g, devices()));
        return took;
    }

    /// One forward pass over `tokens` tokens after `depth` others.
    pass_report prefill(const decoder& model, std::size_t tokens, std::size_t depth = 0) {
        return forward(model, tokens, depth);
    }
    /// The mean of `tokens` passes of one token each, from `depth` on.
    pass_report decode(const decoder& model, std::size_t depth, std::size_t tokens = 8) {
        pass_report sum;
        for (std::size_t i = 0; i < tokens; ++i) {
            const pass_report one = forward(model, 1, depth + i);
            sum.tokens += one.tokens;
            sum.took += one.took;
            sum.tracks = sum.tracks.empty() ? one.tracks : added(sum.tracks, one.tracks, 1);
        }
        return sum;
    }

private:
    static constexpr bytes staging_size{32 << 20};

    static location ram() { return {tier_of<pageable>, 0, 0}; }

    static tern::machine checked(tern::machine m) {
        if (m.processors.empty() || m.processors.front().kind != processor_kind::cpu)
            throw config_error("the machine \"" + m.name + "\" has no cpu: its first processor must be one");
        if (m.memory_at(ram()) == nullptr)
            throw config_error("the machine \"" + m.name + "\" has no RAM: add a memory in pageable");
        return m;
    }
    const processor& host_processor() const noexcept { return machine_.processors.front(); }

    bytes capacity_of(const location& where) const {
        const memory_space& m = *machine_.memory_at(where);
        const bytes size = m.budget != unlimited ? m.budget : m.capacity.value_or(unlimited);
        if (size == unlimited)
            throw config_error("the machine \"" + machine_.name + "\" does not say how much " + to_string(where) +
                               " there is: give it a capacity or a budget");
        return size;
    }
    /// The addresses of a region: where its first allocation lies.
    void know(region_arena& memory) {
        const bytes size = memory.budget().limit();
        if (size.count == 0) return;
        const allocation first = memory.allocate({1}, "an address");
        world_.places.add(first.data(), size, memory.where());
    }

    void add(const memory_space& memory) {
        if (memory.where == ram() || memory.where.tier == tier_of<mapped> || memory.where.tier == tier_of<direct>)
            return;
        region_arena& arena = arenas_.emplace_back(memory.where, capacity_of(memory.where));
        know(arena);
        if (memory.where.tier.reached_by == reach::host) {
            devices_.push_back(&hosts_.emplace_back(host_, arena));
            return;
        }
        const processor* const p = machine_.processor_at(memory.where);
        if (p == nullptr) throw config_error("nobody computes from " + to_string(memory.where));
        devices_.push_back(&accelerators_.emplace_back(world_, *p, arena));
    }

    /// For each layer the device that makes its values; the host where nothing says so.
    std::vector<device*> keepers(const placement& p, const graph& g) const {
        std::vector<device*> on;
        device* last = nullptr;
        for (const graph_node& node : g.nodes) {
            if (!node.tensors.empty()) {
                const std::size_t t = node.tensors.front();
                last = &detail::computing_device(g.tensors[t], p.tensors[t], devices());
            }
            if (node.op != "attention" || node.layer == graph_node::no_layer) continue;
            on.resize(std::max(on.size(), node.layer + 1));
            on[node.layer] = last;
        }
        return on;
    }

    bool stays_in_ram(const placement& p, const graph& g) const {
        for (const placed_tensor& t : p.tensors)
            if (t.where.tier == tier_of<direct>) return false;
        bytes used = p.bytes_at(g, ram()) + p.pool_at(ram());
        for (const memory_space& m : machine_.memories)
            if (m.in_ram) used += p.bytes_at(g, m.where);
        return g.weight_bytes() + used <= machine_.room_at(ram());
    }

    std::vector<sim_track> tracks() const {
        std::vector<sim_track> all{host_.computing(), disk_.reading()};
        for (const sim_device& d : accelerators_)
            for (const sim_track* t : {&d.computing(), &d.bringing(), &d.returning()}) all.push_back(*t);
        return all;
    }
    static std::vector<sim_track> added(std::vector<sim_track> a, const std::vector<sim_track>& b, int sign) {
        for (std::size_t i = 0; i < a.size(); ++i) {
            a[i].busy += b[i].busy * sign;
            a[i].bytes += b[i].bytes * sign;
            a[i].calls += b[i].calls * static_cast<std::uint64_t>(sign);
        }
        return a;
    }

    pass_report forward(const decoder& model, std::size_t tokens, std::size_t depth) {
        sim_cache cache(model.config().cache_for(depth + tokens), cache_on_);
        cache.start_at(depth);
        batch b;
        for (std::size_t i = 0; i < tokens; ++i) b.add(0, depth + i, 0, i + 1 == tokens);
        world_.routed = 0;
        pass_report report{.tokens = tokens};
        const std::vector<sim_track> before = tracks();
        const seconds begin = time_.now();
        static_cast<void>(loop_.run(model.forward(context_, b, cache)));
        report.took = time_.now() - begin;
        report.tracks = added(tracks(), before, -1);
        return report;
    }

    virtual_clock time_;
    run_loop loop_{time_};
    tern::machine machine_; // its processors stay where they are
    sim_world world_;
    region_arena ram_;
    region_arena staging_;
    std::deque<region_arena> arenas_; // addresses stay
    sim_disk disk_;
    sim_device host_;
    std::deque<host_memory> hosts_;
    std::deque<sim_device> accelerators_;
    residency_store store_; // gives its copies back to the devices' memory: ends before them
    scheduler order_;
    std::vector<expert_layer> cached_{}; // by the placement that was loaded last
    bytes guess_;
    on_miss misses_;
    context context_;
    std::vector<device*> devices_;
    std::vector<device*> cache_on_; // by layer
};

/// (A template underneath, so that a program compiles it only where it makes one.)
using simulation = basic_simulation<>;

} // namespace tern
