// Stopping: helpers over std::stop_token.
#pragma once

#include <atomic>
#include <optional>
#include <stop_token>

#include <tern/async/trampoline.hpp>
#include <tern/base/error.hpp>

namespace tern {

/// Throws stopped_error when stop was requested. Call it between pieces of long work.
inline void throw_if_stopped(const std::stop_token& token) {
    if (token.stop_requested()) throw stopped_error();
}

namespace detail {

// The stop callback may fire on another thread while it is still being constructed; whoever comes second, of the
// callback and the end of await_suspend, lets the coroutine go on.
class stop_awaiter : work_item {
public:
    explicit stop_awaiter(std::stop_token token) : token_(std::move(token)) {
        if (!token_.stop_possible()) throw config_error("until_stopped needs a token of a std::stop_source");
    }
    stop_awaiter(const stop_awaiter&) = delete;

    bool await_ready() const noexcept { return token_.stop_requested(); }
    [[gnu::noinline]] bool await_suspend(std::coroutine_handle<> h) {
        handle = h;
        callback_.emplace(token_, on_stop{this});
        return !second_.exchange(true, std::memory_order_acq_rel);
    }
    void await_resume() const noexcept {}

private:
    struct on_stop {
        stop_awaiter* self;
        void operator()() const noexcept {
            if (self->second_.exchange(true, std::memory_order_acq_rel)) resume_later(*self);
        }
    };

    std::stop_token token_;
    std::atomic<bool> second_{false};
    std::optional<std::stop_callback<on_stop>> callback_;
};

} // namespace detail

/// `co_await until_stopped(token)` completes when stop is requested: at once if it was already, else on the thread that
/// calls request_stop(), before that returns or, inside a coroutine, when that coroutine suspends. Throws config_error
/// on a token that can never be stopped. Destroying the waiting task is fine.
///
///     co_await tern::until_stopped(scope.token());
inline detail::stop_awaiter until_stopped(std::stop_token token) { return detail::stop_awaiter(std::move(token)); }

} // namespace tern
