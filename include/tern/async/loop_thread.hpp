// loop_thread: a run_loop with a thread of its own, for coroutines that mostly wait.
#pragma once

#include <thread>

#include <tern/async/event.hpp>
#include <tern/async/run_loop.hpp>
#include <tern/async/start_thread.hpp>

namespace tern {

/// Runs whatever is posted to `loop()` until it is destroyed. It does not finish what is left then: whoever starts
/// coroutines there waits for them first.
///
///     tern::loop_thread transfers;
///     co_await transfers.loop().schedule(); // from here on, on that thread
template <class = void> class basic_loop_thread {
public:
    /// Throws budget_error where the system has no thread.
    basic_loop_thread() : thread_(detail::start_thread("a loop", [this] { loop_.run(wait_for(ending_)); })) {}
    basic_loop_thread(const basic_loop_thread&) = delete;
    basic_loop_thread& operator=(const basic_loop_thread&) = delete;
    ~basic_loop_thread() {
        ending_.set();
        thread_.join();
    }

    run_loop& loop() noexcept { return loop_; }

private:
    template <class Void = void> static task<Void> wait_for(async_event& event) { co_await event; }

    run_loop loop_;
    async_event ending_;
    std::thread thread_; // last: it starts when all else is there
};

/// (A template underneath, so that a program compiles it only where it makes one.)
using loop_thread = basic_loop_thread<>;

} // namespace tern
