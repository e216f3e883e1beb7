// Counts every allocation of the program, to show that coroutines in the steady state make none.
#include <functional>
#include <stop_token>

#include <doctest/doctest.h>

#include <tern/async/event.hpp>
#include <tern/async/mutex.hpp>
#include <tern/async/real_clock.hpp>
#include <tern/async/scope.hpp>
#include <tern/async/sync_wait.hpp>
#include <tern/async/thread_executor.hpp>
#include <tern/async/virtual_clock.hpp>
#include <tern/async/when_all.hpp>

#include "support/allocations.hpp"

namespace {

using tern::task;

template <class F> long steady_allocations(F f) {
    return tern::test::fewest_allocations([&] {
        for (int i = 0; i < 100; ++i) f();
    });
}

task<int> value(int n) { co_return n; }
task<int> hop(tern::thread_executor& pool, int n) {
    co_await pool.schedule();
    co_return n;
}
task<> step(tern::thread_executor& pool, tern::async_event& e) {
    co_await pool.schedule();
    co_await e;
}
task<> many_ready() {
    for (int i = 0; i < 100; ++i) static_cast<void>(co_await value(i));
}
task<> sleeps(tern::clock& c) {
    for (int i = 0; i < 3; ++i) co_await c.sleep_for({1e-6});
}
task<> locks(tern::async_mutex& m) {
    for (int i = 0; i < 3; ++i) auto held = co_await m.lock();
}

} // namespace

TEST_CASE("async/allocation_count: operator new is counted") { tern::test::check_allocations_count(); }

TEST_CASE("async/allocation_count: steady-state coroutines allocate nothing" *
          doctest::skip(tern::frame_arena::pass_through)) {
    tern::thread_executor pool{2};
    tern::real_clock wall;
    tern::virtual_clock simulated;
    tern::async_mutex turn;
    CHECK(steady_allocations([] { tern::sync_wait(many_ready()); }) == 0);
    CHECK(steady_allocations([&] { tern::sync_wait(hop(pool, 1)); }) == 0);
    CHECK(steady_allocations([&] { tern::sync_wait(tern::when_all(hop(pool, 1), hop(pool, 2), value(3))); }) == 0);
    CHECK(steady_allocations([&] {
              tern::async_event e;
              tern::scope s;
              s.spawn(step(pool, e));
              s.spawn(step, std::ref(pool), std::ref(e));
              e.set();
              tern::sync_wait(s.join());
          }) == 0);
    CHECK(steady_allocations([&] { tern::sync_wait(sleeps(wall)); }) == 0);
    CHECK(steady_allocations([&] { simulated.run(sleeps(simulated)); }) == 0);
    CHECK(steady_allocations([&] { tern::sync_wait(tern::when_all(locks(turn), locks(turn))); }) == 0);
}
