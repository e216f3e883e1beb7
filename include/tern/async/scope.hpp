// scope: owns tasks that run while others go on.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <new>
#include <stop_token>

#include <tern/async/task.hpp>

namespace tern {

namespace detail {

// The callable and its arguments live in this frame until the task that they gave has ended.
template <class F, class... Args> task<void> keep_alive(F f, Args... args) { co_await f(std::move(args)...); }

} // namespace detail

/// Owns the tasks spawned in it. Neither copied nor moved. All members may be called from any thread.
///
/// The first task that throws requests stop on `token()`; its error surfaces at `join()`, later ones are dropped.
/// Always `co_await join()` before the scope ends. A scope destroyed with running tasks requests stop and blocks its
/// thread until they have ended, and drops their error; this hangs if the tasks need that very thread to go on.
///
///     tern::scope s;
///     s.spawn(load(path));
///     s.spawn([name = std::string("a long string")]() -> tern::task<> { co_await use(name); });
///     co_await s.join();
class scope {
public:
    scope() = default;
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    ~scope() {
        if (!idle()) request_stop();
        detail::run_pending();
        std::unique_lock guard(lock_);
        ended_.wait(guard, [&] { return running_ == 0; });
    }

    /// Starts `t` on this thread, up to its first suspension. Throws tern::error on a null task.
    /// A lambda's captures are not in the task that it gave: pass the lambda itself, below.
    void spawn(task<void> t) {
        detail::task_access::require(t);
        auto* one = ::new (frame_arena::allocate(sizeof(spawned))) spawned(*this, std::move(t));
        {
            const std::lock_guard guard(lock_);
            ++running_;
        }
        detail::resume_soon(*one);
    }

    /// Copies the callable and the arguments into a frame where they stay alive until the task has ended, calls it
    /// there and runs the task<void> that it gives.
    ///
    ///     s.spawn([](std::stop_token stop) -> tern::task<> { co_await tern::until_stopped(stop); }, s.token());
    template <class F, class... Args>
        requires(!std::same_as<std::remove_cvref_t<F>, task<void>> &&
                 std::same_as<std::invoke_result_t<std::decay_t<F>&, std::decay_t<Args>...>, task<void>>)
    void spawn(F&& f, Args&&... args) {
        spawn(detail::keep_alive<std::decay_t<F>, std::decay_t<Args>...>(std::forward<F>(f),
                                                                         std::forward<Args>(args)...));
    }

    /// Completes when no task runs; rethrows the first error, once. The scope may be used again after it. One join at
    /// a time: a second one that overlaps throws tern::error.
    template <class Void = void> task<Void> join() {
        co_await joining{*this};
        std::exception_ptr error;
        {
            const std::lock_guard guard(lock_);
            std::swap(error, error_);
        }
        if (error) std::rethrow_exception(error);
    }

    /// The token that `request_stop` and the first error stop.
    std::stop_token token() { return source().get_token(); }

    /// Asks the tasks that watch `token()` to end.
    void request_stop() { source().request_stop(); }

private:
    struct spawned : detail::completion, work_item {
        scope* owner;
        task<void> body;

        spawned(scope& s, task<void> t) noexcept : completion{&ended}, owner(&s), body(std::move(t)) {
            handle = detail::task_access::prepare(body, *this);
        }
        static std::coroutine_handle<> ended(completion& c) noexcept {
            auto* self = static_cast<spawned*>(&c);
            scope* owner = self->owner;
            std::exception_ptr error = detail::task_access::error(self->body);
            // The frame goes first: once the scope is told, what the task's objects refer to may end.
            self->~spawned();
            frame_arena::deallocate(self, sizeof(spawned));
            return owner->leave(std::move(error));
        }
    };

    struct joining {
        scope& owner;
        bool await_ready() const noexcept { return false; }
        [[gnu::noinline]] bool await_suspend(std::coroutine_handle<> h) {
            const std::lock_guard guard(owner.lock_);
            if (owner.running_ == 0) return false;
            if (owner.joiner_) throw error("two joins of one scope overlap: join it once");
            owner.joiner_ = h;
            return true;
        }
        void await_resume() const noexcept {}
    };

    bool idle() {
        const std::lock_guard guard(lock_);
        return running_ == 0;
    }

    std::stop_source source() {
        const std::lock_guard guard(lock_);
        if (!stop_.stop_possible()) stop_ = std::stop_source();
        return stop_;
    }

    std::coroutine_handle<> leave(std::exception_ptr error) noexcept {
        if (error) {
            bool first = false;
            {
                const std::lock_guard guard(lock_);
                first = !error_;
                if (first) error_ = std::move(error);
            }
            if (first) request_stop();
        }
        // Notified under the lock: once it is released, the scope may end.
        const std::lock_guard guard(lock_);
        if (--running_ > 0) return {};
        ended_.notify_all();
        return std::exchange(joiner_, {});
    }

    std::mutex lock_;
    std::condition_variable ended_;
    std::size_t running_ = 0;
    std::exception_ptr error_{};
    std::coroutine_handle<> joiner_{};
    std::stop_source stop_{std::nostopstate}; // made when first asked for: it allocates
};

} // namespace tern
