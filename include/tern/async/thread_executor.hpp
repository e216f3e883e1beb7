// thread_executor: a fixed number of threads and one first-in first-out queue.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include <tern/async/executor.hpp>
#include <tern/async/frame_arena.hpp>
#include <tern/base/error.hpp>

namespace tern {

/// Owns its threads. Neither copied nor moved nor shared: it must outlive every task that runs on it or will come back
/// to it. The destructor runs what is queued, and what that queues, then joins; it must not run on one of its threads.
/// The queue is made of the awaiters themselves, so scheduling allocates nothing.
///
///     tern::thread_executor pool{2};
///     co_await pool.schedule(); // from here on, on a thread of the pool
class thread_executor {
public:
    /// Starts `threads` threads; throws config_error on 0.
    explicit thread_executor(std::size_t threads) {
        if (threads == 0) throw config_error("a thread_executor needs at least one thread");
        threads_.reserve(threads);
        try {
            for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
        } catch (...) {
            finish();
            throw;
        }
    }
    thread_executor(const thread_executor&) = delete;
    thread_executor& operator=(const thread_executor&) = delete;
    ~thread_executor() { finish(); }

    class schedule_awaiter;

    /// `co_await pool.schedule()` continues on one of the threads, after what was queued before.
    schedule_awaiter schedule() noexcept;

    /// Resumes `h` on one of the threads. Throws std::bad_alloc; in the steady state it allocates nothing.
    void post(std::coroutine_handle<> h) {
        enqueue(*::new (frame_arena::allocate(sizeof(queued))) queued{{h, nullptr}, true});
    }

    std::size_t thread_count() const noexcept { return threads_.size(); }

private:
    // An awaiter is its own entry; a posted handle has none, so it gets one from the arena.
    struct queued : work_item {
        bool from_arena = false;
    };

    void enqueue(queued& item) noexcept {
        // Notified under the lock: once it is released, the item may run and the executor may end.
        const std::lock_guard guard(lock_);
        queue_.push(item);
        filled_.notify_one();
    }

    void work() noexcept {
        std::unique_lock guard(lock_);
        for (;;) {
            filled_.wait(guard, [&] { return finishing_ || !queue_.empty(); });
            auto* item = static_cast<queued*>(queue_.pop());
            if (!item) return;
            guard.unlock();
            const auto h = item->handle;
            if (item->from_arena) frame_arena::deallocate(item, sizeof(queued));
            resume(h);
            guard.lock();
        }
    }

    void finish() noexcept {
        {
            const std::lock_guard guard(lock_);
            finishing_ = true;
            filled_.notify_all();
        }
        for (auto& thread : threads_) thread.join();
    }

    std::mutex lock_;
    std::condition_variable filled_;
    work_list queue_;
    bool finishing_ = false;
    std::vector<std::thread> threads_;
};

class thread_executor::schedule_awaiter : queued {
public:
    explicit schedule_awaiter(thread_executor& pool) noexcept : pool_(&pool) {}
    bool await_ready() const noexcept { return false; }
    // Not inlined: once queued, the frame may be resumed and gone, so nothing of it may be touched after that.
    [[gnu::noinline]] void await_suspend(std::coroutine_handle<> h) noexcept {
        handle = h;
        pool_->enqueue(*this);
    }
    void await_resume() const noexcept {}

private:
    thread_executor* pool_;
};

inline thread_executor::schedule_awaiter thread_executor::schedule() noexcept { return schedule_awaiter(*this); }

static_assert(executor<thread_executor>);

} // namespace tern
