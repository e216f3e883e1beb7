// async_mutex: coroutines take turns without blocking a thread.
#pragma once

#include <mutex>
#include <utility>

#include <tern/async/waiter_list.hpp>

namespace tern {

/// Mutual exclusion among coroutines, first come first served. It may be held across a co_await and released on
/// another thread. The next owner goes on in the thread that releases, when the releasing coroutine suspends. The mutex
/// must outlive its waiters and holders.
///
///     auto held = co_await turn.lock(); // released at the end of the block
class async_mutex {
public:
    async_mutex() = default;
    async_mutex(const async_mutex&) = delete;
    async_mutex& operator=(const async_mutex&) = delete;

    /// Holds the mutex until it is destroyed. Move-only.
    class [[nodiscard]] holder {
    public:
        holder() noexcept = default;
        explicit holder(async_mutex& m) noexcept : mutex_(&m) {}
        holder(holder&& other) noexcept : mutex_(std::exchange(other.mutex_, nullptr)) {}
        holder& operator=(holder&& other) noexcept {
            holder old(std::move(other));
            std::swap(mutex_, old.mutex_);
            return *this;
        }
        ~holder() {
            if (mutex_) mutex_->release();
        }
        explicit operator bool() const noexcept { return mutex_ != nullptr; }

    private:
        async_mutex* mutex_ = nullptr;
    };

    class awaiter : detail::waiter {
    public:
        explicit awaiter(async_mutex& m) noexcept : mutex_(&m) {}
        ~awaiter() {
            if (!waiting_) return;
            const std::lock_guard guard(mutex_->lock_);
            if (linked()) unlink();
        }
        bool await_ready() const noexcept { return false; }
        [[gnu::noinline]] bool await_suspend(std::coroutine_handle<> h) noexcept {
            handle = h;
            const std::lock_guard guard(mutex_->lock_);
            if (!std::exchange(mutex_->held_, true)) return false;
            waiting_ = true;
            mutex_->waiters_.push(*this);
            return true;
        }
        holder await_resume() noexcept {
            waiting_ = false;
            return holder(*mutex_);
        }

    private:
        async_mutex* mutex_;
        bool waiting_ = false;
    };

    awaiter lock() noexcept { return awaiter(*this); }

    /// A holder if nobody holds it, else an empty one.
    holder try_lock() noexcept {
        const std::lock_guard guard(lock_);
        return std::exchange(held_, true) ? holder() : holder(*this);
    }

private:
    void release() noexcept {
        detail::waiter* heir = nullptr;
        {
            const std::lock_guard guard(lock_);
            heir = waiters_.pop();
            if (!heir) held_ = false;
        }
        if (heir) detail::resume_later(*heir);
    }

    std::mutex lock_;
    detail::wait_list waiters_;
    bool held_ = false;
};

} // namespace tern
