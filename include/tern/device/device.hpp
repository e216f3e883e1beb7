// Devices: who computes. The base class is the run-time twin that the library sees; each kind implements `start`.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>

#include <tern/async/run_loop.hpp>
#include <tern/base/units.hpp>
#include <tern/memory/arena.hpp>
#include <tern/memory/tier.hpp>

namespace tern {

/// Which table of kernels a device runs.
enum class kernel_kind {
    host, ///< kernels of the host's processor, on memory that it can address
    cuda, ///< CUDA kernels
};

/// What a call asks of a device: for those who price it, time it, or pretend to do it. Counts are of the whole call.
struct call_work {
    std::string_view op{};          ///< the kernel's name; empty where nobody described the call
    std::string_view format{"f32"}; ///< of the weight
    std::size_t tokens = 0;
    double operations = 0;             ///< a multiplication and an addition are two
    double weight_bytes = 0;           ///< of the weight, read once
    double other_bytes = 0;            ///< of activations, keys and values, read or written
    const std::byte* weight = nullptr; ///< its bytes; null where there is none
    const void* args = nullptr;        ///< the kernel's `args`
};

/// One piece of work handed to a device. It lives in the frame of the coroutine that awaits it.
struct device_call {
    void (*compute)(const device_call&, std::size_t begin, std::size_t end) = nullptr;
    call_work (*describe)(const device_call&) = nullptr; ///< null where `fn` of `launch` has no `describe`
    std::size_t items = 0;
    std::size_t grain = 1; ///< items that one worker takes at a time
    run_loop* home = nullptr;
    run_loop::node done{};
    std::exception_ptr error{};
    device_call* next = nullptr;
};

/// Which queue of a link a copy waits in: activations do not queue behind weights.
enum class lane { weights, activations };

/// One copy over a link, likewise.
struct copy_call {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    bytes size{};
    tern::lane lane = tern::lane::weights;
    run_loop* home = nullptr;
    run_loop::node done{};
    std::exception_ptr error{};
    copy_call* next = nullptr;
};

enum class direction { to_device, to_host };

/// Bytes that went over a link so far.
struct link_traffic {
    bytes to_device{};
    bytes to_host{};
};

/// A device: it computes, owns memory in which it does so, and is reached over a link. A user's own derives from this
/// and implements the five pure members; work may finish at once (`start` returns true) or later on another thread,
/// which then posts `done` to the call's home loop.
class device {
public:
    device(const device&) = delete;
    device& operator=(const device&) = delete;
    virtual ~device() = default;

    virtual std::string_view name() const noexcept = 0;
    virtual kernel_kind kernels() const noexcept = 0;
    /// The memory in which this device computes.
    virtual arena& memory() noexcept = 0;
    /// Begins a computation; true when it is complete already.
    virtual bool start(device_call& call) = 0;
    /// Begins a copy between host memory and this device's; true when it is complete already.
    virtual bool start(copy_call& call, direction way) = 0;
    virtual link_traffic traffic() const noexcept { return {}; }
    /// How many workers share one operator.
    virtual std::size_t workers() const noexcept { return 1; }

    /// Whether the device reads operands at `where` in place.
    bool reads(const location& where) noexcept {
        const location mine = memory().where();
        if (mine.tier.reached_by == reach::host) return where.tier.reached_by == reach::host;
        return where == mine;
    }

protected:
    device() = default;
};

namespace detail {

/// Awaits a call that a device has begun: suspends only when it is not complete.
template <class Call, class Start> class [[nodiscard]] device_awaiter {
public:
    device_awaiter(Call call, Start start) : call_(call), start_(start) {}

    bool await_ready() const noexcept { return false; }
    // Not inlined: compilers may otherwise keep parts of the awaiter in a frame that runs on elsewhere by then.
    [[gnu::noinline]] bool await_suspend(std::coroutine_handle<> waiter) {
        call_.done.handle = waiter;
        return !start_(call_);
    }
    void await_resume() {
        if (call_.error) std::rethrow_exception(call_.error);
    }

private:
    Call call_;
    Start start_;
};

} // namespace detail

/// What a call asks for; nothing is known of one that nobody described.
inline call_work work_of(const device_call& call) {
    return call.describe != nullptr ? call.describe(call) : call_work{};
}

/// Awaitable: runs `fn(begin, end)` over [0, items) on a device, in pieces of `grain`. `fn` is copied into the awaiting
/// frame; what it refers to must live until the await returns. A member `fn.describe()`, if there is one, says what the
/// call asks for.
template <class Fn> auto launch(device& on, run_loop& home, std::size_t items, std::size_t grain, Fn fn) {
    struct call : device_call {
        Fn fn;
        explicit call(Fn f) : fn(std::move(f)) {}
    };
    call work{std::move(fn)};
    work.compute = [](const device_call& self, std::size_t begin, std::size_t end) {
        static_cast<const call&>(self).fn(begin, end);
    };
    if constexpr (requires(const Fn& f) { f.describe(); })
        work.describe = [](const device_call& self) { return static_cast<const call&>(self).fn.describe(); };
    work.items = items;
    work.grain = grain;
    work.home = &home;
    const auto start = [&on](call& c) { return on.start(c); };
    return detail::device_awaiter<call, decltype(start)>(std::move(work), start);
}

/// Awaitable: copies `size` bytes between host memory and the device's.
inline auto copy(device& with, run_loop& home, direction way, std::byte* to, const std::byte* from, bytes size,
                 lane queue = lane::weights) {
    copy_call work{.to = to, .from = from, .size = size, .lane = queue, .home = &home};
    const auto start = [&with, way](copy_call& c) { return with.start(c, way); };
    return detail::device_awaiter<copy_call, decltype(start)>(work, start);
}

} // namespace tern
