#include <tern/async/virtual_clock.hpp>

#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tern/async/event.hpp>
#include <tern/async/when_all.hpp>

#include "async/started.hpp"

using tern::seconds;
using tern::task;
using namespace tern::literals;

namespace {

task<> note(tern::clock& c, seconds t, std::vector<int>& order, int n, std::stop_token stop = {}) {
    co_await c.sleep_until(t, std::move(stop));
    order.push_back(n);
}

} // namespace

TEST_CASE("async/virtual_clock: run goes from sleeper to sleeper, first come first served among equals") {
    tern::virtual_clock c;
    std::vector<int> order;
    const started a(note(c, 2.0_s, order, 3)), b(note(c, 1.0_s, order, 1)), d(note(c, 1.0_s, order, 2)),
        e(note(c, 1e9_s, order, 4));
    CHECK(order.empty());
    c.run();
    CHECK(order == std::vector<int>{1, 2, 3, 4});
    CHECK(c.now() == 1e9_s);
}

TEST_CASE("async/virtual_clock: advance wakes those due, and new sleepers within the span") {
    tern::virtual_clock c;
    std::vector<int> order;
    const auto twice = [](tern::clock& time, std::vector<int>& log) -> task<> {
        co_await time.sleep_for(1.0_s);
        log.push_back(static_cast<int>(time.now().count));
        co_await time.sleep_for(1.0_s);
        log.push_back(static_cast<int>(time.now().count));
        co_await time.sleep_for(1.0_s);
        log.push_back(static_cast<int>(time.now().count));
    };
    const started s(twice(c, order));
    c.advance(0.5_s);
    CHECK(order.empty());
    CHECK(c.now() == 0.5_s);
    c.advance(2.0_s);
    CHECK(order == std::vector<int>{1, 2});
    CHECK(c.now() == 2.5_s);
    c.advance(0.5_s);
    CHECK(s.finished);
    CHECK_THROWS_AS(c.advance(seconds{-1}), tern::config_error);
    CHECK_THROWS_AS(c.advance(seconds{std::numeric_limits<double>::infinity()}), tern::config_error);
}

TEST_CASE("async/virtual_clock: a stop ends a sleep at the time at which it comes, others sleep on") {
    tern::virtual_clock c;
    std::stop_source stop;
    std::vector<int> order;
    started stopped(note(c, 10.0_s, order, 1, stop.get_token()));
    const started other(note(c, 10.0_s, order, 2));
    c.advance(4.0_s);
    stop.request_stop();
    REQUIRE(stopped.finished);
    CHECK_THROWS_AS(std::rethrow_exception(stopped.error), tern::stopped_error);
    CHECK(c.now() == 4.0_s);
    c.run();
    CHECK(order == std::vector<int>{2});
}

TEST_CASE("async/virtual_clock: a stop after the time does nothing") {
    tern::virtual_clock c;
    std::stop_source stop;
    std::vector<int> order;
    const started s(note(c, 1.0_s, order, 1, stop.get_token()));
    c.run();
    stop.request_stop();
    CHECK(s.error == nullptr);
    CHECK(order == std::vector<int>{1});
}

TEST_CASE("async/virtual_clock: a sleeper that is destroyed leaves the clock") {
    tern::virtual_clock c;
    std::vector<int> order;
    std::stop_source stop;
    { const started gone(note(c, 1.0_s, order, 1, stop.get_token())); }
    c.run();
    stop.request_stop();
    CHECK(order.empty());
    CHECK(c.now() == 0.0_s);
}

TEST_CASE("async/virtual_clock: run(task) gives the result, and says when it can never come") {
    tern::virtual_clock c;
    const auto answer = [](tern::clock& time) -> task<int> {
        co_await time.sleep_for(3600.0_s);
        co_return 42;
    };
    CHECK(c.run(answer(c)) == 42);
    CHECK(c.now() == 3600.0_s);

    tern::async_event never;
    const auto wait = [](tern::async_event& e) -> task<> { co_await e; };
    CHECK_THROWS_WITH_AS(c.run(wait(never)), doctest::Contains("virtual time has run out"), tern::error);
    const auto sleep = [](tern::clock& time) -> task<> {
        co_await time.sleep_until({std::numeric_limits<double>::infinity()});
    };
    CHECK_THROWS_AS(c.run(sleep(c)), tern::error);
    CHECK_THROWS_WITH_AS(c.run(task<int>()), doctest::Contains("empty task"), tern::error);
    never.set();
}

TEST_CASE("async/virtual_clock: a simulation repeats exactly") {
    const auto simulate = [] {
        tern::virtual_clock c;
        std::vector<int> order;
        const auto worker = [](tern::clock& time, std::vector<int>& log, int n) -> task<> {
            for (int i = 0; i < 50; ++i) {
                co_await time.sleep_for({0.25 * ((n * 7 + i * 3) % 5)});
                log.push_back(n);
            }
        };
        std::vector<task<>> workers;
        for (int n = 0; n < 20; ++n) workers.push_back(worker(c, order, n));
        c.run(tern::when_all(std::move(workers)));
        return order;
    };
    const auto first = simulate();
    CHECK(first.size() == 1000);
    CHECK(first == simulate());
}
