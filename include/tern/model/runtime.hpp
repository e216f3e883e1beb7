// The runtime: the loop, memories, devices and residency of one program, made from a few numbers.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stop_token>
#include <utility>

#include <tern/async/run_loop.hpp>
#include <tern/cost/machine.hpp>
#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>
#include <tern/memory/arena.hpp>
#include <tern/op/context.hpp>
#include <tern/plan/apply.hpp>
#include <tern/plan/placement.hpp>
#include <tern/residency/store.hpp>

namespace tern {

/// What a runtime is made of.
struct runtime_options {
    std::size_t threads = 0;      ///< workers of the cpu device; 0: one for each usable core
    bytes ram = unlimited;        ///< for copies of weights, activations and the cache; mappings do not count
    bytes vram{};                 ///< of the emulated accelerator; 0: there is none
    bytes_per_second bandwidth{}; ///< of its link; infinite by default
    seconds latency{};            ///< of one copy over it
};

/// Owns everything that outlives a model: make it first. Not movable; used by one thread.
///
///     tern::runtime run{{.vram = 8_MiB}};
///     auto model = tern::open_decoder(file, run.store());
template <class = void> class basic_runtime {
public:
    explicit basic_runtime(const runtime_options& options)
        : ram_(options.ram), cpu_(ram_, options.threads == 0 ? usable_workers() : options.threads), store_(loop_, ram_),
          context_(loop_, cpu_) {
        devices_[0] = &cpu_;
        machine_.memories.push_back({{tier_of<pageable>, 0, 0}, options.ram});
        machine_.memories.push_back({{tier_of<mapped>, 0, 0}, unlimited});
        if (options.vram.count == 0) return;
        accelerator_ = std::make_unique<emulated_device>(emulated_options{
            .capacity = options.vram, .bandwidth = options.bandwidth, .latency = options.latency, .index = 0});
        devices_[1] = accelerator_.get();
        machine_.memories.push_back({accelerator_->memory().where(), options.vram});
    }
    basic_runtime(const basic_runtime&) = delete;
    basic_runtime& operator=(const basic_runtime&) = delete;

    run_loop& loop() noexcept { return loop_; }
    heap_arena& ram() noexcept { return ram_; }
    cpu_device& cpu() noexcept { return cpu_; }
    /// Null where options.vram was 0.
    emulated_device* accelerator() noexcept { return accelerator_.get(); }
    residency_store& store() noexcept { return store_; }
    context& ctx() noexcept { return context_; }
    const tern::machine& machine() const noexcept { return machine_; }
    std::span<device* const> devices() const noexcept { return {devices_, accelerator_ ? 2u : 1u}; }

    /// Checks a placement against the budgets, then brings the weights to their places.
    void load(const placement& p, const graph& g, std::stop_token stop = {}, arrival_listener* listener = nullptr) {
        check(p, g, machine_);
        loop_.run(apply(p, g, store_, devices(), std::move(stop), listener));
    }

private:
    run_loop loop_;
    heap_arena ram_;
    cpu_device cpu_;
    std::unique_ptr<emulated_device> accelerator_;
    residency_store store_; // gives its copies back to the devices' memory: ends before them
    context context_;
    tern::machine machine_;
    device* devices_[2] = {};
};

/// The runtime. (A template underneath, so that a program compiles it only where it makes one.)
using runtime = basic_runtime<>;

} // namespace tern
