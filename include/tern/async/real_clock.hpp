// real_clock: sleeps in real time, on a thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <tern/async/clock.hpp>
#include <tern/async/start_thread.hpp>

namespace tern {

/// Real, monotonic time since construction. Its thread starts with the first sleep, waits without spinning, and
/// resumes sleepers itself: a sleeper with work to do goes on to an executor first. Sleepers that are left when the
/// clock ends are never resumed, so it must outlive them.
///
///     tern::real_clock wall;
///     co_await wall.sleep_for({0.5});
template <class = void> class basic_real_clock final : public clock {
public:
    basic_real_clock() = default;
    ~basic_real_clock() override {
        {
            const std::lock_guard guard(lock_);
            ending_ = true;
            changed_.notify_one();
        }
        if (thread_.joinable()) thread_.join();
    }

    seconds now() const override {
        return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count()};
    }

protected:
    bool add(timer& t) override {
        const std::lock_guard guard(lock_);
        if (!thread_.joinable()) thread_ = detail::start_thread("a clock", [this] { work(); });
        if (!queue_.add(t)) return false;
        if (&queue_.front() == &t) changed_.notify_one();
        return true;
    }
    bool cancel(timer& t) noexcept override {
        const std::lock_guard guard(lock_);
        return queue_.cancel(t);
    }

private:
    void work() noexcept {
        std::unique_lock guard(lock_);
        while (!ending_) {
            if (queue_.empty()) {
                changed_.wait(guard);
            } else if (timer* due = queue_.pop(now())) {
                guard.unlock();
                resume(due->handle);
                guard.lock();
            } else {
                // At most an hour at once: a far time would not fit the wait's own type.
                const double wait = queue_.front().due.count - now().count;
                changed_.wait_for(guard, std::chrono::duration<double>(wait < 3600 ? wait : 3600));
            }
        }
    }

    const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    std::mutex lock_;
    std::condition_variable changed_;
    detail::timer_queue queue_;
    bool ending_ = false;
    std::thread thread_;
};

/// (A template underneath, so that a program compiles it only where it makes one.)
using real_clock = basic_real_clock<>;

} // namespace tern
