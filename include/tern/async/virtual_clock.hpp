// virtual_clock: time that jumps to the next sleeper instead of passing.
#pragma once

#include <limits>
#include <mutex>

#include <tern/async/clock.hpp>
#include <tern/async/task.hpp>

namespace tern {

/// Time moves only when told to: to the earliest sleeper, which then goes on in the thread that told. Never sleeps, and
/// with tasks of one thread always gives the same order.
///
///     tern::virtual_clock time;
///     auto result = time.run(simulate(time)); // hours in no time
class virtual_clock final : public clock {
public:
    seconds now() const override {
        const std::lock_guard guard(lock_);
        return now_;
    }

    /// Advances from sleeper to sleeper until none is left (those at infinity stay).
    void run() {
        while (step(last_time)) {}
    }

    /// Advances by `t`, through every sleeper due by then. Throws config_error unless `t` is finite and not negative.
    void advance(seconds t) {
        if (!(t >= seconds{0} && t <= last_time)) throw config_error("time advances by a finite number, 0 or more");
        const seconds target = now() + t;
        while (step(target)) {}
        const std::lock_guard guard(lock_);
        if (now_ < target) now_ = target;
    }

    /// Advances to the earliest sleeper, which goes on; false where there is none.
    bool advance_to_next() { return step(last_time); }

    /// Runs `t` to its end in virtual time and gives its result. Throws tern::error when nobody sleeps any more and
    /// `t` is not done: it waits for something that never comes. Every part of `t` must run on this thread.
    template <class T> T run(task<T> t) {
        detail::task_access::require(t);
        finished f;
        resume(detail::task_access::prepare(t, f));
        detail::run_pending();
        while (!f.is) {
            if (!step(last_time))
                throw error("virtual time has run out: the task waits and nobody sleeps on its clock");
        }
        return detail::task_access::take(t);
    }

protected:
    bool add(timer& t) override {
        const std::lock_guard guard(lock_);
        return queue_.add(t);
    }
    bool cancel(timer& t) noexcept override {
        const std::lock_guard guard(lock_);
        return queue_.cancel(t);
    }

private:
    static constexpr seconds last_time{std::numeric_limits<double>::max()};

    struct finished : detail::completion {
        bool is = false;
        finished() noexcept : completion{&set} {}
        static std::coroutine_handle<> set(completion& c) noexcept {
            static_cast<finished&>(c).is = true;
            return {};
        }
    };

    // Moves to the earliest sleeper due by `limit` and lets it go on; false when there is none.
    bool step(seconds limit) {
        timer* due = nullptr;
        {
            const std::lock_guard guard(lock_);
            due = queue_.pop(limit);
            if (due && now_ < due->due) now_ = due->due;
        }
        if (due) resume(due->handle);
        return due != nullptr;
    }

    mutable std::mutex lock_;
    detail::timer_queue queue_;
    seconds now_{0};
};

} // namespace tern
