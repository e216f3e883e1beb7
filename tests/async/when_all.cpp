#include <tern/async/when_all.hpp>

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/async/event.hpp>
#include <tern/async/stop.hpp>
#include <tern/async/sync_wait.hpp>
#include <tern/async/thread_executor.hpp>

#include "async/started.hpp"

using tern::sync_wait;
using tern::task;
using tern::when_all;

namespace {

struct custom_error {
    int code;
};

task<int> value(int n) { co_return n; }
task<> nothing() { co_return; }
task<std::unique_ptr<int>> boxed(int n) { co_return std::make_unique<int>(n); }
task<int&> refer(int& x) { co_return x; }

task<int> fail_on(tern::thread_executor& pool, int code) {
    co_await pool.schedule();
    throw custom_error{code};
}
task<> until(std::stop_token token, bool& ended) {
    co_await tern::until_stopped(std::move(token));
    ended = true;
}
task<> await_event(tern::async_event& e) { co_await e; }

task<int> tree(int depth) {
    if (depth == 0) co_return 1;
    auto [a, b] = co_await when_all(tree(depth - 1), tree(depth - 1));
    co_return a + b;
}
task<int> chain(int depth) {
    if (depth == 0) co_return 0;
    auto [n] = co_await when_all(chain(depth - 1));
    co_return n + 1;
}

} // namespace

TEST_CASE("async/when_all: gives all results, in order, of every kind") {
    int target = 1;
    auto [a, b, c, d] = sync_wait(when_all(value(1), nothing(), boxed(3), refer(target)));
    CHECK(a == 1);
    CHECK(b == tern::no_value{});
    CHECK(*c == 3);
    CHECK(&d == &target);
}

TEST_CASE("async/when_all: a vector of tasks, of move-only results, of void, and none") {
    std::vector<task<std::unique_ptr<int>>> boxes;
    for (int i = 0; i < 100; ++i) boxes.push_back(boxed(i));
    const auto results = sync_wait(when_all(std::move(boxes)));
    REQUIRE(results.size() == 100);
    for (int i = 0; i < 100; ++i) CHECK(*results[static_cast<std::size_t>(i)] == i);

    int n = 0;
    const auto count = [](int& x) -> task<> {
        ++x;
        co_return;
    };
    std::vector<task<>> counters;
    for (int i = 0; i < 10; ++i) counters.push_back(count(n));
    sync_wait(when_all(std::move(counters)));
    CHECK(n == 10);
    CHECK(sync_wait(when_all(std::vector<task<int>>())).empty());
}

TEST_CASE("async/when_all: tasks run concurrently") {
    tern::async_event first, second;
    const auto ping = [](tern::async_event& mine, tern::async_event& other) -> task<> {
        mine.set();
        co_await other;
    };
    sync_wait(when_all(ping(first, second), ping(second, first)));
    CHECK(first.is_set());
}

TEST_CASE("async/when_all: an error waits for the sibling, then surfaces with its type") {
    tern::async_event release;
    bool done = false;
    const auto sibling = [](tern::async_event& e, bool& flag) -> task<> {
        co_await e;
        flag = true;
    };
    const auto fail = []() -> task<> {
        throw custom_error{7};
        co_return;
    };
    const auto both = [&]() -> task<> { co_await when_all(fail(), sibling(release, done)); };
    started s(both());
    CHECK_FALSE(s.finished);
    release.set();
    REQUIRE(s.finished);
    CHECK(done);
    REQUIRE(s.error);
    CHECK_THROWS_AS(std::rethrow_exception(s.error), custom_error);
}

TEST_CASE("async/when_all: of two errors the first in time surfaces, not the first in order") {
    tern::async_event e;
    const auto fail_after = [](tern::async_event& when, int code) -> task<> {
        co_await when;
        throw custom_error{code};
    };
    const auto fail_now = [](int code) -> task<> {
        throw custom_error{code};
        co_return;
    };
    const auto both = [&]() -> task<> { co_await when_all(fail_after(e, 1), fail_now(2)); };
    started s(both());
    e.set();
    REQUIRE(s.finished);
    int code = 0;
    try {
        std::rethrow_exception(s.error);
    } catch (const custom_error& error) { code = error.code; }
    CHECK(code == 2);
}

TEST_CASE("async/when_all: one that throws on another thread stops one that waits for stop") {
    tern::thread_executor pool{2};
    std::stop_source stop;
    bool ended = false;
    CHECK_THROWS_AS(sync_wait(when_all(stop, fail_on(pool, 1), until(stop.get_token(), ended))), custom_error);
    CHECK(ended);

    std::stop_source again;
    std::vector<task<>> tasks;
    bool flags[3] = {};
    for (bool& flag : flags) tasks.push_back(until(again.get_token(), flag));
    const auto fail = [](tern::thread_executor& p) -> task<> { static_cast<void>(co_await fail_on(p, 2)); };
    tasks.push_back(fail(pool));
    CHECK_THROWS_AS(sync_wait(when_all(again, std::move(tasks))), custom_error);
    CHECK((flags[0] && flags[1] && flags[2]));
}

TEST_CASE("async/when_all: no error, no stop") {
    std::stop_source stop;
    sync_wait(when_all(stop, value(1), nothing()));
    CHECK_FALSE(stop.stop_requested());
}

TEST_CASE("async/when_all: a null task throws before any is started") {
    bool ran = false;
    const auto set = [](bool& flag) -> task<> {
        flag = true;
        co_return;
    };
    CHECK_THROWS_WITH_AS(sync_wait(when_all(set(ran), task<int>())), doctest::Contains("empty task"), tern::error);
    CHECK_FALSE(ran);
    std::vector<task<>> tasks;
    tasks.push_back(set(ran));
    tasks.emplace_back();
    CHECK_THROWS_AS(sync_wait(when_all(std::move(tasks))), tern::error);
    CHECK_FALSE(ran);
}

TEST_CASE("async/when_all: trees and long chains do not grow the stack") {
    CHECK(sync_wait(tree(12)) == 4096);
    CHECK(sync_wait(chain(100'000)) == 100'000);
}

TEST_CASE("async/when_all: branches that end on two threads at once") {
    tern::thread_executor pool{2};
    const auto hop = [](tern::thread_executor& p, int n) -> task<int> {
        co_await p.schedule();
        co_return n;
    };
    long sum = 0;
    for (int i = 0; i < 5'000; ++i) {
        auto [a, b] = sync_wait(when_all(hop(pool, 1), hop(pool, 2)));
        sum += a + b;
    }
    CHECK(sum == 15'000);
}

TEST_CASE("async/when_all: destroyed while its branches wait, it takes them along") {
    tern::async_event e;
    const auto both = [&]() -> task<> { co_await when_all(await_event(e), await_event(e)); };
    {
        const started s(both());
        CHECK_FALSE(s.finished);
    }
    e.set(); // nobody is left to resume
    CHECK(e.is_set());
}
