#include <tern/async/scope.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>

#include <doctest/doctest.h>

#include <tern/async/event.hpp>
#include <tern/async/stop.hpp>
#include <tern/async/sync_wait.hpp>
#include <tern/async/thread_executor.hpp>

#include "async/started.hpp"

using tern::sync_wait;
using tern::task;

namespace {

template <class... A>
concept may_spawn = requires(tern::scope& s, A... a) { s.spawn(std::forward<A>(a)...); };
using gives_task = task<> (*)();
using gives_int_task = task<int> (*)();
using takes_int = task<> (*)(int);
static_assert(may_spawn<task<>>);
static_assert(may_spawn<gives_task>);
static_assert(may_spawn<takes_int, int>);
static_assert(!may_spawn<task<>&>);   // moved in, not copied
static_assert(!may_spawn<task<int>>); // its result would be lost
static_assert(!may_spawn<gives_int_task>);
static_assert(!may_spawn<takes_int>);
static_assert(!may_spawn<int>);
static_assert(!std::is_copy_constructible_v<tern::scope>);
static_assert(!std::is_move_constructible_v<tern::scope>);

struct custom_error {
    int code;
};

task<> add(tern::thread_executor& pool, std::atomic<int>& sum, int n) {
    co_await pool.schedule();
    sum += n;
}
task<> wait_and_flag(tern::async_event& e, bool& flag) {
    co_await e;
    flag = true;
}
task<> fail(tern::async_event& e, int code) {
    co_await e;
    throw custom_error{code};
}
task<> until(std::stop_token token, bool& ended) {
    co_await tern::until_stopped(std::move(token));
    ended = true;
}

task<> spawn_chain(tern::scope& s, int depth, int& deepest) {
    deepest = std::max(deepest, depth);
    if (depth < 100'000) s.spawn(spawn_chain(s, depth + 1, deepest));
    co_return;
}

} // namespace

TEST_CASE("async/scope: join waits for all that was spawned") {
    tern::thread_executor pool{2};
    std::atomic<int> sum{0};
    tern::scope s;
    for (int i = 1; i <= 100; ++i) s.spawn(add(pool, sum, i));
    sync_wait(s.join());
    CHECK(sum == 5050);
    sync_wait(s.join()); // nothing runs: done at once
    s.spawn(add(pool, sum, 1));
    sync_wait(s.join());
    CHECK(sum == 5051);
}

TEST_CASE("async/scope: a spawned task runs up to its first suspension at once") {
    tern::async_event e;
    int steps = 0;
    const auto work = [](tern::async_event& event, int& n) -> task<> {
        ++n;
        co_await event;
        ++n;
    };
    const auto outer = [&]() -> task<> {
        tern::scope s;
        s.spawn(work(e, steps));
        CHECK(steps == 1);
        e.set();
        co_await s.join();
        CHECK(steps == 2);
    };
    sync_wait(outer());
    CHECK(steps == 2);
}

TEST_CASE("async/scope: a temporary lambda that captures a long string stays alive") {
    tern::thread_executor pool{1};
    std::string seen;
    tern::scope s;
    s.spawn([&pool, &seen, text = std::string(1000, 'x')]() -> task<> {
        co_await pool.schedule();
        seen = text;
    });
    sync_wait(s.join());
    CHECK(seen == std::string(1000, 'x'));
}

TEST_CASE("async/scope: a callable's arguments are moved into its frame") {
    int sum = 0;
    tern::async_event e;
    tern::scope s;
    s.spawn(
        [](std::unique_ptr<int> p, std::string text, tern::async_event* event, int* result) -> task<> {
            co_await *event;
            *result = *p + static_cast<int>(text.size());
        },
        std::make_unique<int>(2), std::string(40, 'y'), &e, &sum);
    e.set();
    sync_wait(s.join());
    CHECK(sum == 42);
}

TEST_CASE("async/scope: the first error stops the others and surfaces at join, once") {
    tern::async_event e;
    bool ended = false;
    tern::scope s;
    s.spawn(until(s.token(), ended));
    s.spawn(fail(e, 1));
    s.spawn(fail(e, 2));
    CHECK_FALSE(ended);
    e.set();
    int code = 0;
    try {
        sync_wait(s.join());
    } catch (const custom_error& error) { code = error.code; }
    CHECK(code == 1);
    CHECK(ended);
    sync_wait(s.join());
}

TEST_CASE("async/scope: destroyed with running tasks, it stops them and waits") {
    tern::thread_executor pool{1};
    bool ended = false, ended_here = true;
    const auto work = [](tern::thread_executor& p, std::stop_token token, bool& flag) -> task<> {
        co_await p.schedule();
        co_await tern::until_stopped(std::move(token));
        co_await p.schedule();
        flag = true;
    };
    SUBCASE("by ordinary code") {
        tern::scope s;
        s.spawn(work(pool, s.token(), ended));
    }
    SUBCASE("inside a coroutine") {
        const auto outer = [&]() -> task<> {
            tern::scope s;
            ended_here = false;
            s.spawn(until(s.token(), ended_here));
            s.spawn(work(pool, s.token(), ended));
            co_return;
        };
        sync_wait(outer());
    }
    CHECK(ended);
    CHECK(ended_here);
}

TEST_CASE("async/scope: a task that throws in a scope that is never joined ends nothing") {
    const auto throws = []() -> task<> {
        throw custom_error{1};
        co_return;
    };
    bool after = false;
    {
        tern::scope s;
        s.spawn(throws());
    }
    after = true;
    CHECK(after);
}

TEST_CASE("async/scope: null tasks and overlapping joins throw") {
    tern::scope s;
    CHECK_THROWS_WITH_AS(s.spawn(task<>()), doctest::Contains("empty task"), tern::error);
    tern::async_event e;
    bool flag = false;
    s.spawn(wait_and_flag(e, flag));
    started first(s.join());
    CHECK_THROWS_WITH_AS(sync_wait(s.join()), doctest::Contains("overlap"), tern::error);
    e.set();
    CHECK(first.finished);
    CHECK(flag);
}

TEST_CASE("async/scope: a chain of tasks that spawn tasks does not grow the stack") {
    tern::scope s;
    int deepest = 0;
    s.spawn(spawn_chain(s, 0, deepest));
    sync_wait(s.join());
    CHECK(deepest == 100'000);
}

TEST_CASE("async/scope: when join completes, the frames are gone") {
    tern::thread_executor pool{2};
    for (int i = 0; i < 1'000; ++i) {
        auto alive = std::make_shared<int>(0);
        tern::scope s;
        s.spawn([](tern::thread_executor& p, std::shared_ptr<int>) -> task<> { co_await p.schedule(); }, std::ref(pool),
                alive);
        sync_wait(s.join());
        REQUIRE(alive.use_count() == 1);
    }
}
