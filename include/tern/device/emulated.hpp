// The emulated accelerator: an arena with a hard capacity, a link with a bandwidth and a latency, and a worker of its
// own. Every way that bytes and work take to a real accelerator can be run and tested with it on any machine.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include <tern/base/error.hpp>
#include <tern/device/device.hpp>
#include <tern/device/service.hpp>

namespace tern {

/// What an emulated accelerator is like.
struct emulated_options {
    bytes capacity{};             ///< of its memory
    bytes_per_second bandwidth{}; ///< of its link, each way; infinite by default
    seconds latency{};            ///< of one copy
    seconds launch{};             ///< that one operator takes at least, by deadline
    int index = 0;                ///< which of several
};

namespace detail {

inline const emulated_options& checked(const emulated_options& options) {
    if (!(options.bandwidth.count > 0)) throw config_error("an emulated link needs a bandwidth above 0");
    if (!(options.latency.count >= 0)) throw config_error("an emulated link needs a latency of at least 0");
    if (!(options.launch.count >= 0)) throw config_error("an emulated operator takes a time of at least 0");
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
/// an operator at least `launch`, and both sleep rather than burn the time that the work itself does not need. Copies
/// of a direction and lane queue behind each other, those of different ones do not.
///
///     tern::emulated_device gpu{{.capacity = 8_MiB, .bandwidth = 12_GBps}};
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

private:
    /// The time at which something ends that takes `cost` from now on.
    static auto deadline(seconds cost) {
        using clock = std::chrono::steady_clock;
        constexpr double longest = 1e9; // thirty years: more does not fit the clock
        const std::chrono::duration<double> wait(cost.count < longest ? cost.count : longest);
        return clock::now() + std::chrono::ceil<clock::duration>(wait);
    }

    /// One direction of the link.
    struct copier {
        const basic_emulated_device* owner;
        std::atomic<std::uint64_t>* moved;

        void operator()(copy_call& call) const {
            const auto end = deadline(owner->options_.latency + call.size / owner->options_.bandwidth);
            if (call.size.count != 0) std::memcpy(call.to, call.from, call.size.count);
            moved->fetch_add(call.size.count, std::memory_order_relaxed);
            std::this_thread::sleep_until(end);
        }
    };
    struct computer {
        const basic_emulated_device* owner;

        void operator()(device_call& call) const {
            const auto end = deadline(owner->options_.launch);
            call.compute(call, 0, call.items);
            std::this_thread::sleep_until(end);
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
