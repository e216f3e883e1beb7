// A thread that serves calls in the order in which they came. Calls are linked through themselves: nothing is
// allocated.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <tern/async/start_thread.hpp>

namespace tern {

/// Runs `Serve{}(call)` for each submitted call on one thread, keeps an exception in `call.error`, then posts
/// `call.done` to `call.home`. The destructor finishes what was submitted.
template <class Call, class Serve> class service {
public:
    /// Throws budget_error where the system has no thread.
    explicit service(Serve serve)
        : serve_(std::move(serve)), thread_(detail::start_thread("a queue of a device", [this] { work(); })) {}
    service(const service&) = delete;
    service& operator=(const service&) = delete;
    ~service() {
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        wake_.notify_one();
        thread_.join();
    }

    void submit(Call& call) {
        call.next = nullptr;
        // Notified under the lock: once it is released, the call may end and this service after it.
        const std::lock_guard lock(mutex_);
        (last_ != nullptr ? last_->next : first_) = &call;
        last_ = &call;
        wake_.notify_one();
    }

private:
    void work() {
        for (;;) {
            Call* call = nullptr;
            {
                std::unique_lock lock(mutex_);
                wake_.wait(lock, [this] { return first_ != nullptr || stopping_; });
                if (first_ == nullptr) return;
                call = std::exchange(first_, first_->next);
                if (first_ == nullptr) last_ = nullptr;
            }
            try {
                serve_(*call);
            } catch (...) { call->error = std::current_exception(); }
            // After the post the call may be gone: its coroutine goes on elsewhere.
            auto* home = call->home;
            home->post(call->done);
        }
    }

    Serve serve_;
    std::mutex mutex_;
    std::condition_variable wake_;
    Call* first_ = nullptr;
    Call* last_ = nullptr;
    bool stopping_ = false;
    std::thread thread_; // last: it starts when all else is there
};

} // namespace tern
