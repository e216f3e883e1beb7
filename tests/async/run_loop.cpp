#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <tern/async/event.hpp>
#include <tern/async/run_loop.hpp>
#include <tern/async/thread_executor.hpp>
#include <tern/async/virtual_clock.hpp>
#include <tern/async/when_all.hpp>

namespace {

using tern::task;

task<int> number(int n) { co_return n; }
task<std::unique_ptr<int>> owned(int n) { co_return std::make_unique<int>(n); }
task<> nothing() { co_return; }
task<> fail() {
    co_await nothing();
    throw std::out_of_range("gone");
}
struct unusual {
    int code;
};
task<int> fail_elsewhere(tern::thread_executor& pool) {
    co_await pool.schedule();
    throw unusual{7};
}
task<std::thread::id> ends_elsewhere(tern::thread_executor& pool) {
    co_await pool.schedule();
    co_return std::this_thread::get_id();
}
task<bool> comes_home(tern::thread_executor& pool, tern::run_loop& loop) {
    const std::thread::id here = std::this_thread::get_id();
    bool home = true;
    for (int i = 0; i < 20; ++i) {
        co_await pool.schedule();
        home = home && std::this_thread::get_id() != here;
        co_await loop.schedule();
        home = home && std::this_thread::get_id() == here;
    }
    co_return home;
}
// Awaits tasks on both threads in turn: what a compiler remembers of one thread must not be used on the other.
task<int> counts_on_both(tern::thread_executor& pool, tern::run_loop& loop) {
    int sum = 0;
    for (int i = 0; i < 100; ++i) {
        sum += co_await number(1);
        co_await pool.schedule();
        sum += co_await number(1);
        sum += co_await number(1);
        co_await loop.schedule();
        sum += co_await number(1);
    }
    co_return sum;
}
task<> turns(tern::run_loop& loop, std::vector<int>& order, int who) {
    for (int i = 0; i < 3; ++i) {
        order.push_back(who);
        co_await loop.schedule();
    }
}

/// Suspends until another thread posts the node.
struct posted {
    tern::run_loop& loop;
    std::thread& poster;
    tern::run_loop::node self{};

    bool await_ready() const noexcept { return false; }
    [[gnu::noinline]] void await_suspend(std::coroutine_handle<> waiter) {
        self.handle = waiter;
        poster = std::thread([this] { loop.post(self); });
    }
    void await_resume() { poster.join(); }
};
task<int> wait_for_post(tern::run_loop& loop) {
    std::thread poster;
    co_await posted{loop, poster};
    co_return 1;
}

} // namespace

TEST_CASE("async/run_loop: it gives the result of a task") {
    tern::run_loop loop;
    CHECK(loop.run(number(3)) == 3);
    CHECK(*loop.run(owned(4)) == 4);
    loop.run(nothing());
    CHECK(loop.run(number(5)) == 5);
}

TEST_CASE("async/run_loop: it throws what the task threw, from wherever") {
    tern::run_loop loop;
    tern::thread_executor pool{1};
    CHECK_THROWS_AS(loop.run(fail()), std::out_of_range);
    int code = 0;
    try {
        static_cast<void>(loop.run(fail_elsewhere(pool)));
    } catch (const unusual& u) { code = u.code; }
    CHECK(code == 7);
    CHECK_THROWS_AS(loop.run(task<int>{}), tern::error);
    CHECK(loop.run(number(1)) == 1);
}

TEST_CASE("async/run_loop: a coroutine that schedules itself goes on in the loop's thread") {
    tern::run_loop loop;
    tern::thread_executor pool{2};
    CHECK(loop.run(comes_home(pool, loop)));
    CHECK(loop.run(ends_elsewhere(pool)) != std::this_thread::get_id());
}

TEST_CASE("async/run_loop: what is ready goes on in the order of posting") {
    tern::run_loop loop;
    std::vector<int> order;
    loop.run(tern::when_all(turns(loop, order, 1), turns(loop, order, 2), turns(loop, order, 3)));
    CHECK(order == std::vector<int>{1, 2, 3, 1, 2, 3, 1, 2, 3});
}

TEST_CASE("async/run_loop: posts from other threads, many times") {
    tern::run_loop loop;
    int sum = 0;
    for (int i = 0; i < 300; ++i) sum += loop.run(wait_for_post(loop));
    CHECK(sum == 300);
}

TEST_CASE("async/run_loop: many coroutines on a pool come home") {
    tern::run_loop loop;
    tern::thread_executor pool{2};
    std::vector<task<bool>> all;
    for (int i = 0; i < 50; ++i) all.push_back(comes_home(pool, loop));
    int home = 0;
    for (const bool one : loop.run(tern::when_all(std::move(all)))) home += one;
    CHECK(home == 50);
}

TEST_CASE("async/run_loop: tasks awaited on two threads in turn") {
    tern::run_loop loop;
    tern::thread_executor pool{2};
    std::vector<task<int>> all;
    for (int i = 0; i < 8; ++i) all.push_back(counts_on_both(pool, loop));
    for (const int sum : loop.run(tern::when_all(std::move(all)))) CHECK(sum == 400);
}

TEST_CASE("async/run_loop: a loop ends as soon as its run returned, whoever posted last") {
    tern::thread_executor pool{2};
    for (int i = 0; i < 500; ++i) {
        auto loop = std::make_unique<tern::run_loop>();
        if (loop->run(ends_elsewhere(pool)) == std::this_thread::get_id()) FAIL("it did not leave");
        loop.reset();
    }
}

// In virtual time.
namespace {

task<double> sleep_between(tern::virtual_clock& time, tern::run_loop& loop, std::vector<int>& order, int who) {
    for (int i = 0; i < 2; ++i) {
        order.push_back(who);
        co_await loop.schedule();
        order.push_back(who);
        co_await time.sleep_for({1.0 * who});
    }
    co_return time.now().count;
}
task<> wait_for(tern::async_event& event) { co_await event; }
task<> set_after(tern::virtual_clock& time, tern::async_event& event) {
    co_await time.sleep_for({3600});
    event.set();
}

} // namespace

TEST_CASE("async/run_loop: virtual time jumps where nothing is ready, and not before") {
    tern::virtual_clock time;
    tern::run_loop loop{time};
    std::vector<int> order;
    const auto [one, three] =
        loop.run(tern::when_all(sleep_between(time, loop, order, 1), sleep_between(time, loop, order, 3)));
    CHECK(one == 2.0);
    CHECK(three == 6.0);
    CHECK(order == std::vector<int>{1, 3, 1, 3, 1, 1, 3, 3});
    tern::async_event event;
    loop.run(tern::when_all(wait_for(event), set_after(time, event)));
    CHECK(time.now().count == 3606.0);
    CHECK(loop.run(number(5)) == 5);
    CHECK_THROWS_AS(loop.run(fail()), std::out_of_range);
    CHECK(time.now().count == 3606.0);
}

TEST_CASE("async/run_loop: virtual time that never comes is an error") {
    tern::virtual_clock time;
    tern::run_loop loop{time};
    tern::async_event never;
    CHECK_THROWS_WITH_AS(loop.run(wait_for(never)), doctest::Contains("virtual time has run out"), tern::error);
    CHECK(loop.run(number(2)) == 2);
}
