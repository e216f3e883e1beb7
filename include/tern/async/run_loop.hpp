// The home of a coroutine: a loop on one thread that resumes what other threads have completed.
#pragma once

#include <concepts>
#include <condition_variable>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include <tern/async/frame_arena.hpp>
#include <tern/async/task.hpp>
#include <tern/async/trampoline.hpp>

namespace tern {

namespace detail {

/// What a task's result is kept as: `void` as an empty struct.
struct nothing {};
template <class T> using stored = std::conditional_t<std::is_void_v<T>, nothing, T>;

/// The outermost coroutine of a run: started by hand, kept until it is read.
struct driver {
    struct promise_type {
        std::exception_ptr error{};

        driver get_return_object() { return driver{std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        std::suspend_always final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        void unhandled_exception() noexcept { error = std::current_exception(); }
        static void* operator new(std::size_t size) { return frame_arena::allocate(size); }
        static void operator delete(void* frame, std::size_t size) noexcept { frame_arena::deallocate(frame, size); }
    };

    explicit driver(std::coroutine_handle<promise_type> h) : handle(h) {}
    driver(const driver&) = delete;
    driver& operator=(const driver&) = delete;
    ~driver() { handle.destroy(); }

    std::coroutine_handle<promise_type> handle;
};

} // namespace detail

/// Runs one task on the calling thread. Devices, links and readers post a finished call's node from their own threads;
/// the coroutine that waits for it goes on here, so that a decoder's code always runs on one thread.
///
///     tern::run_loop loop;
///     auto logits = loop.run(decoder.forward(...));
class run_loop {
public:
    /// A coroutine that is ready to go on. It lives where it was awaited; posting it allocates nothing.
    using node = work_item;

    run_loop() = default;
    /// In virtual time: where nothing is ready, `time`, a virtual_clock, jumps to the next sleeper instead of waiting.
    /// Everything that the work waits for must then sleep on `time`, on this thread.
    template <class Clock>
        requires requires(Clock& time) {
            { time.advance_to_next() } -> std::same_as<bool>;
        }
    explicit run_loop(Clock& time)
        : time_(&time), advance_([](void* clock) { return static_cast<Clock*>(clock)->advance_to_next(); }) {}
    run_loop(const run_loop&) = delete;
    run_loop& operator=(const run_loop&) = delete;

    /// Hands a coroutine back to the loop. From any thread.
    void post(node& ready) {
        const std::lock_guard lock(mutex_);
        ready_.push(ready);
        wake_.notify_one();
    }

    /// Takes back what was posted, so that its coroutine may be destroyed; false where it has gone on already. On the
    /// loop's own thread.
    bool withdraw(node& ready) noexcept {
        const std::lock_guard lock(mutex_);
        return ready_.remove(ready);
    }

    /// Awaitable: the coroutine goes on in this loop, after what was posted before it.
    auto schedule() noexcept {
        struct awaiter {
            run_loop& loop;
            node self{};

            bool await_ready() const noexcept { return false; }
            // Not inlined: compilers may otherwise keep parts of the awaiter in a frame that runs on elsewhere by then.
            [[gnu::noinline]] void await_suspend(std::coroutine_handle<> waiter) {
                self.handle = waiter;
                loop.post(self);
            }
            void await_resume() const noexcept {}
        };
        return awaiter{*this};
    }

    /// Runs `work` to its end on this thread and returns its result, or throws what it threw. Not to be nested. In
    /// virtual time it throws tern::error when `work` waits for something that never comes.
    template <class T> T run(task<T> work) {
        std::optional<detail::stored<T>> result;
        detail::driver driver = drive(std::move(work), result);
        tern::resume(driver.handle);
        while (!driver.handle.done()) tern::resume(next());
        if (driver.handle.promise().error) std::rethrow_exception(driver.handle.promise().error);
        if constexpr (!std::is_void_v<T>) return std::move(*result);
    }

private:
    // Ends in this loop wherever the work ended, so that `run` sees it done on its own thread.
    template <class T> detail::driver drive(task<T> work, std::optional<detail::stored<T>>& result) {
        std::exception_ptr error;
        try {
            if constexpr (std::is_void_v<T>) {
                co_await std::move(work);
                result.emplace();
            } else {
                result.emplace(co_await std::move(work));
            }
        } catch (...) { error = std::current_exception(); }
        co_await schedule();
        if (error) std::rethrow_exception(error);
    }

    std::coroutine_handle<> next() {
        std::unique_lock lock(mutex_);
        while (time_ != nullptr && ready_.empty()) {
            lock.unlock();
            if (!advance_(time_)) throw error("virtual time has run out: the work waits and nobody sleeps");
            lock.lock();
        }
        wake_.wait(lock, [this] { return !ready_.empty(); });
        return ready_.pop()->handle;
    }

    void* time_ = nullptr; // a virtual clock, or null
    bool (*advance_)(void*) = nullptr;
    std::mutex mutex_;
    std::condition_variable wake_;
    work_list ready_;
};

} // namespace tern
