#include <tern/async/event.hpp>

#include <atomic>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tern/async/sync_wait.hpp>
#include <tern/async/thread_executor.hpp>
#include <tern/async/when_all.hpp>

#include "async/started.hpp"

using tern::sync_wait;
using tern::task;

namespace {

static_assert(!std::is_copy_constructible_v<tern::async_event>);
static_assert(tern::awaitable<tern::async_event&>);

task<> note(tern::async_event& e, std::vector<int>& order, int n) {
    co_await e;
    order.push_back(n);
}

} // namespace

TEST_CASE("async/event: all waiters are resumed once, in order") {
    tern::async_event e;
    std::vector<int> order;
    const started a(note(e, order, 1)), b(note(e, order, 2)), c(note(e, order, 3));
    CHECK(order.empty());
    e.set();
    CHECK(order == std::vector<int>{1, 2, 3});
    e.set();
    CHECK(order.size() == 3);
}

TEST_CASE("async/event: set lets through, reset holds again") {
    tern::async_event e(true);
    CHECK(e.is_set());
    std::vector<int> order;
    const started a(note(e, order, 1));
    CHECK(a.finished);
    e.reset();
    CHECK_FALSE(e.is_set());
    const started b(note(e, order, 2));
    CHECK_FALSE(b.finished);
    e.set();
    CHECK(b.finished);
}

TEST_CASE("async/event: a waiter that is destroyed leaves the queue") {
    tern::async_event e;
    std::vector<int> order;
    const started a(note(e, order, 1));
    { const started gone(note(e, order, 2)); }
    const started c(note(e, order, 3));
    e.set();
    CHECK(order == std::vector<int>{1, 3});
}

TEST_CASE("async/event: the event may end as soon as its waiters run") {
    auto e = std::make_unique<tern::async_event>();
    const auto work = [](std::unique_ptr<tern::async_event>& owner) -> task<> {
        co_await *owner;
        owner.reset();
    };
    const started s(work(e));
    e->set();
    CHECK(s.finished);
    CHECK(e == nullptr);
}

TEST_CASE("async/event: set and await on two threads") {
    tern::thread_executor pool{2};
    const auto wait = [](tern::thread_executor& p, tern::async_event& e, std::atomic<int>& n) -> task<> {
        co_await p.schedule();
        co_await e;
        ++n;
    };
    const auto set = [](tern::thread_executor& p, tern::async_event& e) -> task<> {
        co_await p.schedule();
        e.set();
    };
    std::atomic<int> resumed{0};
    for (int i = 0; i < 2'000; ++i) {
        tern::async_event e;
        sync_wait(tern::when_all(wait(pool, e, resumed), set(pool, e), wait(pool, e, resumed)));
    }
    CHECK(resumed == 4'000);
}
