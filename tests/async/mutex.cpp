#include <tern/async/mutex.hpp>

#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tern/async/event.hpp>
#include <tern/async/sync_wait.hpp>
#include <tern/async/thread_executor.hpp>
#include <tern/async/when_all.hpp>

#include "async/started.hpp"

using tern::sync_wait;
using tern::task;

namespace {

static_assert(!std::is_copy_constructible_v<tern::async_mutex>);
static_assert(!std::is_copy_constructible_v<tern::async_mutex::holder>);
static_assert(std::is_nothrow_move_constructible_v<tern::async_mutex::holder>);

task<> hold_until(tern::async_mutex& m, tern::async_event& e, std::vector<int>& order, int n) {
    auto held = co_await m.lock();
    order.push_back(n);
    co_await e;
    order.push_back(-n);
}

} // namespace

TEST_CASE("async/mutex: turns are taken in order") {
    tern::async_mutex m;
    tern::async_event e;
    std::vector<int> order;
    const started a(hold_until(m, e, order, 1)), b(hold_until(m, e, order, 2)), c(hold_until(m, e, order, 3));
    CHECK(order == std::vector<int>{1});
    CHECK_FALSE(static_cast<bool>(m.try_lock()));
    e.set();
    CHECK(order == std::vector<int>{1, -1, 2, -2, 3, -3});
    CHECK(static_cast<bool>(m.try_lock()));
    CHECK(static_cast<bool>(m.try_lock())); // the first one was released
}

TEST_CASE("async/mutex: a waiter that is destroyed gives up its turn") {
    tern::async_mutex m;
    tern::async_event e;
    std::vector<int> order;
    const started a(hold_until(m, e, order, 1));
    { const started gone(hold_until(m, e, order, 2)); }
    const started c(hold_until(m, e, order, 3));
    e.set();
    CHECK(order == std::vector<int>{1, -1, 3, -3});
}

TEST_CASE("async/mutex: a holder can be moved, and releases once") {
    tern::async_mutex m;
    auto a = m.try_lock();
    auto b = std::move(a);
    CHECK(static_cast<bool>(b));
    CHECK_FALSE(static_cast<bool>(m.try_lock()));
    b = {};
    CHECK(static_cast<bool>(m.try_lock()));
}

TEST_CASE("async/mutex: excludes across threads and suspensions") {
    tern::thread_executor pool{2};
    tern::async_mutex m;
    long count = 0; // plain: a race would show
    const auto work = [](tern::thread_executor& p, tern::async_mutex& turn, long& n) -> task<> {
        for (int i = 0; i < 5'000; ++i) {
            co_await p.schedule();
            auto held = co_await turn.lock();
            const long seen = n;
            if (i % 8 == 0) co_await p.schedule();
            n = seen + 1;
        }
    };
    sync_wait(tern::when_all(work(pool, m, count), work(pool, m, count), work(pool, m, count)));
    CHECK(count == 15'000);
}
