// sync_wait: runs a task from ordinary code and blocks until it is done.
#pragma once

#include <condition_variable>
#include <mutex>

#include <tern/async/task.hpp>

namespace tern {

namespace detail {

struct blocked_thread : completion {
    std::mutex lock;
    std::condition_variable changed;
    bool finished = false;

    blocked_thread() noexcept : completion{&wake} {}

    static std::coroutine_handle<> wake(completion& c) noexcept {
        auto& self = static_cast<blocked_thread&>(c);
        // Notified under the lock: once it is released, the waiter may return and end this object.
        const std::lock_guard guard(self.lock);
        self.finished = true;
        self.changed.notify_one();
        return {};
    }
    void wait() {
        std::unique_lock guard(lock);
        changed.wait(guard, [&] { return finished; });
    }
};

} // namespace detail

/// Runs `t` on this thread up to where it suspends, blocks until it is done, and gives its result or rethrows its
/// exception. Throws tern::error on a null task. Inside a coroutine, `co_await` instead: this blocks its thread.
///
///     int n = tern::sync_wait(count(path));
template <class T> T sync_wait(task<T> t) {
    detail::task_access::require(t);
    detail::blocked_thread blocked;
    resume(detail::task_access::prepare(t, blocked));
    detail::run_pending();
    blocked.wait();
    return detail::task_access::take(t);
}

} // namespace tern
