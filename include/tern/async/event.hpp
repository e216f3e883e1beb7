// async_event: coroutines wait until it is set.
#pragma once

#include <mutex>

#include <tern/async/waiter_list.hpp>

namespace tern {

/// A manual-reset event. Any number of coroutines may wait; `set()` resumes each exactly once, in the order in which
/// they came, and whoever awaits a set event goes on at once. Waiters go on in the thread that calls `set()`, before it
/// returns or, inside a coroutine, when that coroutine suspends; the event may end as soon as they run. The event must
/// outlive its waiters.
///
///     co_await arrived;   // elsewhere: arrived.set();
class async_event {
public:
    explicit async_event(bool set = false) noexcept : set_(set) {}
    async_event(const async_event&) = delete;
    async_event& operator=(const async_event&) = delete;

    bool is_set() const noexcept {
        const std::lock_guard guard(lock_);
        return set_;
    }

    void set() noexcept {
        work_list released;
        {
            const std::lock_guard guard(lock_);
            set_ = true;
            while (detail::waiter* w = waiters_.pop()) released.push(*w);
        }
        if (!released.empty()) detail::resume_later(released);
    }

    /// From now on, those who await it wait again.
    void reset() noexcept {
        const std::lock_guard guard(lock_);
        set_ = false;
    }

    class awaiter : detail::waiter {
    public:
        explicit awaiter(async_event& event) noexcept : event_(&event) {}
        ~awaiter() {
            if (!waiting_) return;
            const std::lock_guard guard(event_->lock_);
            if (linked()) unlink();
        }
        bool await_ready() const noexcept { return false; }
        [[gnu::noinline]] bool await_suspend(std::coroutine_handle<> h) noexcept {
            handle = h;
            const std::lock_guard guard(event_->lock_);
            if (event_->set_) return false;
            waiting_ = true;
            event_->waiters_.push(*this);
            return true;
        }
        void await_resume() noexcept { waiting_ = false; }

    private:
        async_event* event_;
        bool waiting_ = false;
    };

    awaiter operator co_await() noexcept { return awaiter(*this); }

private:
    mutable std::mutex lock_;
    detail::wait_list waiters_;
    bool set_;
};

} // namespace tern
