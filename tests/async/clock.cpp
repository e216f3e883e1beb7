#include <tern/async/clock.hpp>

#include <limits>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tern/async/real_clock.hpp>
#include <tern/async/sync_wait.hpp>
#include <tern/async/virtual_clock.hpp>
#include <tern/async/when_all.hpp>

using tern::task;
using namespace tern::literals;

namespace {

static_assert(std::is_abstract_v<tern::clock>);
static_assert(!std::is_copy_constructible_v<tern::virtual_clock>);

// The same coroutines for both clocks: three sleepers, whose order is that of their times.
task<> sleeper(tern::clock& c, tern::seconds time, std::vector<int>& order, int n) {
    co_await c.sleep_until(time);
    order.push_back(n);
}
task<std::vector<int>> three(tern::clock& c) {
    std::vector<int> order;
    const tern::seconds start = c.now();
    co_await tern::when_all(sleeper(c, start + 0.03_s, order, 3), sleeper(c, start + 0.01_s, order, 1),
                            sleeper(c, start + 0.02_s, order, 2));
    CHECK(c.now() >= start + 0.03_s);
    co_return order;
}

} // namespace

TEST_CASE("async/clock: the same coroutines run in real and in virtual time") {
    const std::vector<int> expected{1, 2, 3};
    tern::real_clock wall;
    CHECK(tern::sync_wait(three(wall)) == expected);
    tern::virtual_clock simulated;
    CHECK(simulated.run(three(simulated)) == expected);
    CHECK(simulated.now() == 0.03_s);
}

TEST_CASE("async/clock: a time that is no number is refused") {
    tern::virtual_clock c;
    const auto sleep = [](tern::clock& time) -> task<> {
        co_await time.sleep_for({std::numeric_limits<double>::quiet_NaN()});
    };
    CHECK_THROWS_AS(c.run(sleep(c)), tern::config_error);
}

TEST_CASE("async/clock: a time that has passed does not suspend") {
    tern::virtual_clock c;
    c.advance(5.0_s);
    const auto sleep = [](tern::clock& time) -> task<> {
        co_await time.sleep_until(3.0_s);
        co_await time.sleep_for(0.0_s);
        co_await time.sleep_for(tern::seconds{-1});
    };
    tern::sync_wait(sleep(c)); // nobody advances the clock
    CHECK(c.now() == 5.0_s);
}
