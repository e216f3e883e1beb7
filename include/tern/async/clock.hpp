// The one interface of time: the same coroutines run in real and in virtual time.
#pragma once

#include <optional>
#include <stop_token>

#include <tern/async/timer_queue.hpp>
#include <tern/base/error.hpp>

namespace tern {

class clock;

namespace detail {

// The clock's lock decides between firing and stopping: whichever takes the timer out of the queue resumes the
// coroutine. A stop that comes before the timer is queued marks it, so that it never is.
class sleep_awaiter : timer {
public:
    sleep_awaiter(clock& c, seconds when, std::stop_token stop) : clock_(&c), stop_(std::move(stop)) {
        if (when.count != when.count) throw config_error("a coroutine cannot sleep until a time that is no number");
        due = when;
    }
    sleep_awaiter(const sleep_awaiter&) = delete;
    inline ~sleep_awaiter();

    inline bool await_ready() const;
    [[gnu::noinline]] inline bool await_suspend(std::coroutine_handle<> h);
    void await_resume() {
        waiting_ = false;
        on_stop_.reset();
        if (now == state::cancelled || (now == state::fresh && stop_.stop_requested())) throw stopped_error();
    }

private:
    struct on_stop {
        sleep_awaiter* self;
        inline void operator()() const noexcept;
    };

    clock* clock_;
    std::stop_token stop_;
    bool waiting_ = false;
    std::optional<std::stop_callback<on_stop>> on_stop_; // last, so that it ends before what it uses
};

} // namespace detail

/// A clock that coroutines sleep on. Its time is seconds since its start. It must outlive its sleepers; destroying a
/// sleeping task takes it off the clock. Which thread sleepers go on in is the clock's affair.
///
///     tern::task<> beat(tern::clock& c) { for (;;) { tick(); co_await c.sleep_for({0.01}); } }
class clock {
public:
    clock() = default;
    clock(const clock&) = delete;
    clock& operator=(const clock&) = delete;
    virtual ~clock() = default;

    virtual seconds now() const = 0;

    /// `co_await c.sleep_until(t)` goes on at time `t`: at once where that has passed, never at infinity. Sleepers of
    /// one time go on in the order in which they came. When `stop` is requested the sleep ends with stopped_error, on
    /// the thread that requests it. Throws config_error where `t` is not a number.
    detail::sleep_awaiter sleep_until(seconds t, std::stop_token stop = {}) {
        return detail::sleep_awaiter(*this, t, std::move(stop));
    }
    detail::sleep_awaiter sleep_for(seconds t, std::stop_token stop = {}) {
        return sleep_until(now() + t, std::move(stop));
    }

protected:
    friend detail::sleep_awaiter;

    /// Queues a timer, whose handle is resumed once when it is due; false when it was cancelled before.
    virtual bool add(timer& t) = 0;
    /// Takes a timer out; true when it was queued, so that its handle will not be resumed. See timer_queue::cancel.
    virtual bool cancel(timer& t) noexcept = 0;
};

namespace detail {

sleep_awaiter::~sleep_awaiter() {
    if (!waiting_) return;
    on_stop_.reset();
    clock_->cancel(*this);
}

bool sleep_awaiter::await_ready() const { return stop_.stop_requested() || due <= clock_->now(); }

bool sleep_awaiter::await_suspend(std::coroutine_handle<> h) {
    handle = h;
    if (stop_.stop_possible()) on_stop_.emplace(stop_, on_stop{this});
    waiting_ = true;
    try {
        return clock_->add(*this);
    } catch (...) {
        waiting_ = false;
        throw;
    }
}

void sleep_awaiter::on_stop::operator()() const noexcept {
    if (self->clock_->cancel(*self)) resume_later(*self);
}

} // namespace detail
} // namespace tern
