// The emulated accelerator: an arena with a hard capacity, a link with a bandwidth and a latency, and a worker of its
// own. Every way that bytes and work take to a real accelerator can be run and tested with it on any machine.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <string>
#include <thread>

#include <sys/prctl.h>

#include <tern/base/error.hpp>
#include <tern/device/device.hpp>
#include <tern/device/service.hpp>
#include <tern/memory/region_arena.hpp>

namespace tern {

/// What an emulated accelerator is like. Its operators take a roofline's time, by deadline:
///
///     launch + max(bytes / memory, arithmetic operations / operations)
///
/// where bytes and operations are those that the call says of itself (`work_of`); one that says nothing takes `launch`.
struct emulated_options {
    bytes capacity{};             ///< of its memory
    bytes_per_second bandwidth{}; ///< of its link, each way; infinite by default
    seconds latency{};            ///< of one copy
    seconds launch{};             ///< to begin one operator
    int index = 0;                ///< which of several
    bytes_per_second memory{};    ///< at which its operators read and write; infinite by default
    double operations = std::numeric_limits<double>::infinity(); ///< a second; a product and an addition are two
    double slowdown = 1; ///< an operator takes at least so many times what the host needs for it

    /// What a call takes at least. (Williams, Waterman and Patterson, 2009.)
    seconds time_of(const call_work& w) const noexcept {
        return launch + seconds{std::max((w.weight_bytes + w.other_bytes) / memory.count, w.operations / operations)};
    }
    seconds time_of(bytes copied) const noexcept { return latency + copied / bandwidth; }
};

namespace detail {

inline const emulated_options& checked(const emulated_options& options) {
    if (!(options.bandwidth.count > 0)) throw config_error("an emulated link needs a bandwidth above 0");
    if (!(options.latency.count >= 0)) throw config_error("an emulated link needs a latency of at least 0");
    if (!(options.launch.count >= 0)) throw config_error("an emulated operator takes a time of at least 0");
    if (!(options.memory.count > 0)) throw config_error("an emulated memory needs a bandwidth above 0");
    if (!(options.operations > 0)) throw config_error("an emulated accelerator needs a rate of operations above 0");
    if (!(options.slowdown >= 1 && options.slowdown <= 1e6))
        throw config_error("an emulated operator takes 1 to 1000000 times what the host needs");
    return options;
}

/// The queues of a link: copies of a direction and lane come after one another.
template <class Queue> struct link_queues {
    Queue in;
    Queue out;
    Queue activations_in;
    Queue activations_out;

    Queue& of(const copy_call& call, direction way) noexcept {
        if (call.lane == lane::activations) return way == direction::to_device ? activations_in : activations_out;
        return way == direction::to_device ? in : out;
    }
};

} // namespace detail

/// A device whose memory no other device reads. It keeps deadlines: a copy of n bytes takes latency + n / bandwidth,
/// an operator what `emulated_options` say, and both sleep rather than burn the time that the work itself does not
/// need; what the host needs longer for takes longer. Copies of a direction and lane queue behind each other, those of
/// different ones do not.
///
///     tern::emulated_device gpu{{.capacity = 8_MiB, .bandwidth = 12_GBps, .memory = {40e9}, .operations = 1e12}};
template <class = void> class basic_emulated_device final : public device {
public:
    /// Throws config_error for a bandwidth or a latency that is no such thing, and what `region_arena` throws.
    explicit basic_emulated_device(const emulated_options& options)
        : options_(detail::checked(options)), name_("emulated:" + std::to_string(options.index)),
          memory_({tier_of<vram>, options.index, 0}, options.capacity) {}

    std::string_view name() const noexcept override { return name_; }
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
    link_traffic traffic() const noexcept override { return {{to_device_.load()}, {to_host_.load()}}; }
    const emulated_options& options() const noexcept { return options_; }

private:
    using clock = std::chrono::steady_clock;

    /// The time at which something ends that takes `cost` from `begin` on.
    static clock::time_point deadline(clock::time_point begin, seconds cost) {
        constexpr double longest = 1e9; // thirty years: more does not fit the clock
        const std::chrono::duration<double> wait(cost.count < longest ? cost.count : longest);
        return begin + std::chrono::ceil<clock::duration>(wait);
    }
    /// The system lets a thread oversleep by 50 microseconds, longer than small operators take, unless it is asked.
    static void sleep_until(clock::time_point end) {
        if (end <= clock::now()) return;
        [[maybe_unused]] static thread_local const int asked = ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
        std::this_thread::sleep_until(end);
    }

    /// One direction of the link.
    struct copier {
        const basic_emulated_device* owner;
        std::atomic<std::uint64_t>* moved;

        void operator()(copy_call& call) const {
            const auto end = deadline(clock::now(), owner->options_.time_of(call.size));
            if (call.size.count != 0) std::memcpy(call.to, call.from, call.size.count);
            moved->fetch_add(call.size.count, std::memory_order_relaxed);
            sleep_until(end);
        }
    };
    struct computer {
        const basic_emulated_device* owner;

        void operator()(device_call& call) const {
            const emulated_options& how = owner->options_;
            const auto begin = clock::now();
            const auto end = deadline(begin, how.time_of(work_of(call)));
            call.compute(call, 0, call.items);
            if (how.slowdown == 1) return sleep_until(end);
            const std::chrono::duration<double> needed = clock::now() - begin;
            sleep_until(std::max(end, deadline(begin, {needed.count() * how.slowdown})));
        }
    };

    emulated_options options_;
    std::string name_;
    region_arena memory_;
    std::atomic<std::uint64_t> to_device_{0};
    std::atomic<std::uint64_t> to_host_{0};
    service<device_call, computer> compute_{computer{this}};
    using queue = service<copy_call, copier>;
    detail::link_queues<queue> link_{queue{copier{this, &to_device_}}, queue{copier{this, &to_host_}},
                                     queue{copier{this, &to_device_}}, queue{copier{this, &to_host_}}};
};

/// (A template underneath, so that a program compiles it only where it makes one.)
using emulated_device = basic_emulated_device<>;

} // namespace tern
