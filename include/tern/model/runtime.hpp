// The runtime: the loop, memories, devices and residency of one program, made from a few numbers.
#pragma once

#include <cstddef>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include <tern/async/loop_thread.hpp>
#include <tern/async/real_clock.hpp>
#include <tern/async/run_loop.hpp>
#include <tern/base/error.hpp>
#include <tern/cost/machine.hpp>
#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>
#include <tern/device/host_memory.hpp>
#include <tern/memory/arena.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/memory/pinned_arena.hpp>
#include <tern/op/context.hpp>
#include <tern/plan/apply.hpp>
#include <tern/plan/placement.hpp>
#include <tern/residency/scheduler.hpp>
#include <tern/residency/store.hpp>

namespace tern {

/// What a runtime is made of.
struct runtime_options {
    std::size_t threads = 0;           ///< workers of the cpu device; 0: one for each usable core
    bytes ram = unlimited;             ///< for copies of weights, activations and the cache; mappings do not count
    bytes pinned{};                    ///< of that, how much may be page-locked for weights
    bytes vram{};                      ///< of the emulated accelerator; 0: there is none
    bytes_per_second bandwidth{};      ///< of its link; infinite by default
    seconds latency{};                 ///< of one copy over it
    seconds launch{};                  ///< to begin one of its operators
    bytes_per_second vram_bandwidth{}; ///< at which its operators read and write; infinite by default
    double operations = std::numeric_limits<double>::infinity(); ///< of its operators a second
    bytes guess{}; ///< of experts that may be brought a layer on a guess; 0: none
    activation_policy activations = activation_policy::f32; ///< how they enter products
    bool strict = false;                                    ///< memory that cannot be page-locked is an error
    disk_reader* disk = nullptr; ///< how files are read, such as tern::open_reader's; null: by plain reads
};

/// Owns everything that outlives a model: make it first. Not movable; used by one thread. Transfers run on a thread of
/// their own, and are scheduled ahead in the order of the graph that was loaded.
///
///     tern::runtime run{{.vram = 8_MiB}};
///     auto model = tern::open_decoder(file, run.store());
template <class = void> class basic_runtime {
public:
    explicit basic_runtime(const runtime_options& options)
        : ram_(options.ram), pinned_({.limit = options.pinned, .parent = &ram_.budget(), .strict = options.strict}),
          staging_({.limit = staging_limit, .parent = &ram_.budget(), .strict = options.strict}),
          cpu_(ram_, options.threads == 0 ? usable_workers() : options.threads), locked_(cpu_, pinned_),
          store_(loop_, staging_, {.transfers = &transfers_.loop(), .disk = options.disk, .time = &time_}),
          order_(store_), guess_(options.guess), context_(loop_, cpu_) {
        context_.compute_with(options.activations);
        add(cpu_);
        machine_.memories.push_back({{tier_of<mapped>, 0, 0}, unlimited, {}});
        machine_.memories.push_back({{tier_of<direct>, 0, 0}, unlimited, {}});
        if (options.pinned.count != 0) add(locked_);
        if (options.vram.count == 0) return;
        accelerator_ = std::make_unique<emulated_device>(emulated_options{.capacity = options.vram,
                                                                          .bandwidth = options.bandwidth,
                                                                          .latency = options.latency,
                                                                          .launch = options.launch,
                                                                          .index = 0,
                                                                          .memory = options.vram_bandwidth,
                                                                          .operations = options.operations});
        add(*accelerator_);
    }
    basic_runtime(const basic_runtime&) = delete;
    basic_runtime& operator=(const basic_runtime&) = delete;

    run_loop& loop() noexcept { return loop_; }
    const clock& time() const noexcept { return time_; }
    heap_arena& ram() noexcept { return ram_; }
    pinned_arena& pinned_ram() noexcept { return pinned_; }
    pinned_arena& staging() noexcept { return staging_; }
    cpu_device& cpu() noexcept { return cpu_; }
    /// Null where options.vram was 0.
    emulated_device* accelerator() noexcept { return accelerator_.get(); }
    residency_store& store() noexcept { return store_; }
    context& ctx() noexcept { return context_; }
    const tern::machine& machine() const noexcept { return machine_; }
    std::span<device* const> devices() const noexcept { return devices_; }

    /// A device of one's own; plans may use its memory up to the limit of that memory's budget. It must outlive the
    /// runtime. Throws config_error where the machine has a memory at its location already.
    ///
    ///     my_device npu(8_MiB);
    ///     tern::runtime run{{}};
    ///     run.add(npu);
    void add(device& own) {
        const location where = own.memory().where();
        for (const memory_space& m : machine_.memories)
            if (m.where == where) throw config_error("this machine has a memory at " + to_string(where) + " already");
        devices_.push_back(&own);
        machine_.memories.push_back({where, own.memory().budget().limit(), {}, &own == &locked_});
    }
    /// Memory of the host of one's own, where the cpu computes. It must outlive the runtime; otherwise likewise.
    void add(arena& own) {
        others_.emplace_back(cpu_, own);
        add(others_.back());
    }

    /// Sets bytes of the RAM's budget aside that are no weights, such as the key-value cache, before a plan is made.
    void reserve(bytes n) { machine_ = machine_.with_reserved(cpu_.memory().where(), n); }

    /// Checks a placement against the budgets, then brings the weights to their places. Where it says how to treat
    /// missing experts, they are treated so from then on.
    void load(const placement& p, const graph& g, std::stop_token stop = {}, arrival_listener* listener = nullptr) {
        loop_.run(change(p, g, std::move(stop), listener));
    }
    /// The same between two forward passes of a coroutine in the runtime's loop. The arguments must live until it
    /// completes.
    task<void> change(const placement& p, const graph& g, std::stop_token stop = {},
                      arrival_listener* listener = nullptr) {
        check(p, g, machine_);
        order_.follow({});
        order_.guess_experts({}, {});
        give_up_cached(cached_, store_);
        cached_ = cached_experts(p, g, devices());
        co_await apply(p, g, store_, devices(), std::move(stop), listener);
        order_.guess_experts(cached_, guess_);
        order_.follow(streaming_order(p, g, devices()));
        if (p.misses) context_.treat_misses(miss_policy(*p.misses), &time_);
    }

private:
    static constexpr bytes staging_limit{32 << 20};

    run_loop loop_;
    real_clock time_;
    heap_arena ram_;
    pinned_arena pinned_;
    pinned_arena staging_; // of weights on their way to the accelerator
    cpu_device cpu_;
    host_memory locked_;
    std::deque<host_memory> others_; // addresses stay
    std::unique_ptr<emulated_device> accelerator_;
    loop_thread transfers_;
    residency_store store_; // gives its copies back to the devices' memory: ends before them
    scheduler order_;
    std::vector<expert_layer> cached_{}; // by the placement that was loaded last
    bytes guess_;
    context context_;
    tern::machine machine_;
    std::vector<device*> devices_;
};

/// The runtime. (A template underneath, so that a program compiles it only where it makes one.)
using runtime = basic_runtime<>;

} // namespace tern
