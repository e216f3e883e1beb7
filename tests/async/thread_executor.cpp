#include <tern/async/thread_executor.hpp>

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tern/async/sync_wait.hpp>
#include <tern/async/when_all.hpp>

#include "async/started.hpp"

using tern::task;
using tern::thread_executor;

namespace {

static_assert(tern::executor<thread_executor>);
static_assert(!std::is_copy_constructible_v<thread_executor>);
static_assert(!std::is_move_constructible_v<thread_executor>);
static_assert(!std::is_default_constructible_v<thread_executor>);

struct park {
    std::coroutine_handle<>& where;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) const noexcept { where = h; }
    void await_resume() const noexcept {}
};

} // namespace

TEST_CASE("async/thread_executor: schedule continues on one of its threads") {
    thread_executor pool{1};
    CHECK(pool.thread_count() == 1);
    const auto where = [](thread_executor& p) -> task<std::thread::id> {
        co_await p.schedule();
        co_return std::this_thread::get_id();
    };
    const auto id = tern::sync_wait(where(pool));
    CHECK(id != std::this_thread::get_id());
    CHECK(tern::sync_wait(where(pool)) == id);
}

TEST_CASE("async/thread_executor: no threads are refused") { CHECK_THROWS_AS(thread_executor{0}, tern::config_error); }

TEST_CASE("async/thread_executor: one thread runs in the order of scheduling") {
    thread_executor pool{1};
    std::vector<int> order;
    const auto step = [](thread_executor& p, std::vector<int>& log, int n) -> task<> {
        co_await p.schedule();
        log.push_back(n);
        co_await p.schedule();
        log.push_back(n + 10);
    };
    const auto all = [&]() -> task<> {
        co_await pool.schedule(); // so that all three are queued before the first one runs
        co_await tern::when_all(step(pool, order, 1), step(pool, order, 2), step(pool, order, 3));
    };
    tern::sync_wait(all());
    CHECK(order == std::vector<int>{1, 2, 3, 11, 12, 13});
}

TEST_CASE("async/thread_executor: a million hops of one task") {
    thread_executor pool{1};
    const auto hop = [](thread_executor& p, int n) -> task<int> {
        int done = 0;
        for (; done < n; ++done) co_await p.schedule();
        co_return done;
    };
    CHECK(tern::sync_wait(hop(pool, 100'000)) == 100'000);
}

TEST_CASE("async/thread_executor: a posted handle is resumed once on a thread of the pool") {
    std::coroutine_handle<> where;
    std::thread::id id{};
    const auto work = [](std::coroutine_handle<>& w, std::thread::id& ran_on) -> task<> {
        co_await park{w};
        ran_on = std::this_thread::get_id();
    };
    const auto s = std::make_unique<started>(work(where, id));
    {
        thread_executor pool{2};
        pool.post(where);
    }
    CHECK(s->finished);
    CHECK(id != std::thread::id{});
    CHECK(id != std::this_thread::get_id());
}

TEST_CASE("async/thread_executor: the destructor runs what is queued and what that queues") {
    std::atomic<int> steps{0};
    const auto work = [](thread_executor& p, std::atomic<int>& n) -> task<> {
        for (int i = 0; i < 10; ++i) {
            co_await p.schedule();
            ++n;
        }
    };
    std::vector<std::unique_ptr<started>> tasks;
    {
        thread_executor pool{2};
        for (int i = 0; i < 100; ++i) tasks.push_back(std::make_unique<started>(work(pool, steps)));
    }
    CHECK(steps == 1'000);
    for (const auto& t : tasks) CHECK(t->finished);
}
