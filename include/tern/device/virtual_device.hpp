// An accelerator in virtual time: the emulated one without threads, on a clock that jumps. What it takes is exact and
// repeats exactly, however long it would be.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include <tern/async/clock.hpp>
#include <tern/async/event.hpp>
#include <tern/async/task.hpp>
#include <tern/base/error.hpp>
#include <tern/device/device.hpp>
#include <tern/device/emulated.hpp>
#include <tern/memory/region_arena.hpp>

namespace tern {

namespace detail {

/// Serves calls one after the other, in the order in which they came, each after its time on a clock. Calls are linked
/// through themselves. It waits as a coroutine, which goes with it.
template <class Call, class Serve> class virtual_service : completion {
public:
    virtual_service(clock& time, Serve serve)
        : completion{&ended}, time_(time), serve_(std::move(serve)), work_(serve_all()) {
        resume(task_access::prepare(work_, *this));
    }
    virtual_service(const virtual_service&) = delete;
    virtual_service& operator=(const virtual_service&) = delete;

    void submit(Call& call) noexcept {
        call.next = nullptr;
        (last_ != nullptr ? last_->next : first_) = &call;
        last_ = &call;
        some_.set();
    }

private:
    static std::coroutine_handle<> ended(completion&) noexcept { return {}; }

    task<void> serve_all() {
        for (;;) {
            while (first_ == nullptr) {
                some_.reset();
                co_await some_;
            }
            Call& call = *std::exchange(first_, first_->next);
            if (first_ == nullptr) last_ = nullptr;
            try {
                co_await time_.sleep_for(serve_.cost(call));
            } catch (...) { call.error = std::current_exception(); } // a clock may want memory
            carry_out(call);
        }
    }
    void carry_out(Call& call) noexcept {
        try {
            if (!call.error) serve_(call);
        } catch (...) { call.error = std::current_exception(); }
        call.home->post(call.done);
    }

    clock& time_;
    Serve serve_;
    async_event some_;
    Call* first_ = nullptr;
    Call* last_ = nullptr;
    task<void> work_; // last: it ends before what it uses
};

} // namespace detail

/// An accelerator as emulated_options describe it, whose every operator and every copy takes exactly what they say on
/// `time`; bytes move and operators compute when that has passed. It computes one
/// operator at a time; copies queue by direction and lane, and those of one queue come after one another.
///
/// It has no threads: calls begin, and `time` lets its sleepers go on, on one thread, as a virtual_clock does under
/// `run_loop loop{time}`. The clock must outlive it, and it whatever was begun on it.
///
///     tern::virtual_clock time;
///     tern::run_loop loop{time};
///     tern::virtual_device gpu{{.capacity = 8_MiB, .bandwidth = 12_GBps, .launch = 1.0_ms}, time};
template <class = void> class basic_virtual_device final : public device {
public:
    /// Throws config_error for a bandwidth or a time that is no such thing and for a slowdown, since nothing takes the
    /// host any virtual time; and what `region_arena` throws.
    basic_virtual_device(const emulated_options& options, clock& time)
        : options_(checked(options)), name_("virtual:" + std::to_string(options.index)),
          memory_({tier_of<vram>, options.index, 0}, options.capacity), compute_(time, computer{this}),
          link_{queue(time, {this, &traffic_.to_device}), queue(time, {this, &traffic_.to_host}),
                queue(time, {this, &traffic_.to_device}), queue(time, {this, &traffic_.to_host})} {}

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
    link_traffic traffic() const noexcept override { return traffic_; }

    /// What a copy of `n` bytes takes where nothing is before it.
    seconds time_of_copy(bytes n) const noexcept { return options_.time_of(n); }

private:
    static const emulated_options& checked(const emulated_options& options) {
        if (options.slowdown != 1)
            throw config_error("a virtual device has no host's time to multiply: give it rates in place of a slowdown");
        return detail::checked(options);
    }

    /// One queue of the link.
    struct copier {
        const basic_virtual_device* owner;
        bytes* moved;

        seconds cost(const copy_call& call) const noexcept { return owner->time_of_copy(call.size); }
        void operator()(copy_call& call) const noexcept {
            if (call.size.count != 0) std::memcpy(call.to, call.from, call.size.count);
            moved->count += call.size.count;
        }
    };
    struct computer {
        const basic_virtual_device* owner;

        seconds cost(const device_call& call) const { return owner->options_.time_of(work_of(call)); }
        void operator()(device_call& call) const { call.compute(call, 0, call.items); }
    };

    emulated_options options_;
    std::string name_;
    region_arena memory_;
    link_traffic traffic_{};
    detail::virtual_service<device_call, computer> compute_;
    using queue = detail::virtual_service<copy_call, copier>;
    detail::link_queues<queue> link_;
};

/// (A template underneath, so that a program compiles it only where it makes one.)
using virtual_device = basic_virtual_device<>;

} // namespace tern
