// Who resumes coroutines: the concept executor, and the executor that does it on the spot.
#pragma once

#include <tern/async/trampoline.hpp>

namespace tern {

/// 1. `co_await e.schedule()` continues on the executor.
/// 2. `e.post(h)` resumes the suspended coroutine `h` on the executor, once, and does not wait for it.
/// Both may be called from any thread. An executor is uniquely owned and outlives all that runs on it.
template <class E>
concept executor = requires(E& e, std::coroutine_handle<> h) {
    { e.schedule() } -> awaitable;
    { e.post(h) } -> std::same_as<void>;
};

/// Runs everything where it is: the executor of tests and of single-threaded programs.
///
///     tern::inline_executor here;  co_await here.schedule(); // goes on at once
class inline_executor {
public:
    std::suspend_never schedule() const noexcept { return {}; }
    void post(std::coroutine_handle<> h) const noexcept { resume(h); }
};

static_assert(executor<inline_executor>);

} // namespace tern
