#include <tern/profile/timing.hpp>

#include <vector>

#include <doctest/doctest.h>

#include <tern/async/run_loop.hpp>

namespace {

tern::task<tern::seconds> counted(int& n, double each) {
    ++n;
    co_return tern::seconds{each};
}
int calls(tern::timing_limits limits, double each) {
    tern::run_loop home;
    std::vector<tern::seconds> times;
    int n = 0;
    const auto once = [&] { return counted(n, each); };
    home.run(tern::repeat(once, limits, times));
    CHECK(times.size() == static_cast<std::size_t>(n));
    return n;
}

} // namespace

TEST_CASE("profile/timing: the median is the middle one, or the mean of the middle two") {
    CHECK(tern::median_of({}).count == 0);
    CHECK(tern::median_of({{3}}).count == 3);
    CHECK(tern::median_of({{9}, {1}, {2}}).count == 2);
    CHECK(tern::median_of({{9}, {1}, {2}, {4}}).count == 3);
    CHECK(tern::median_of({{1}, {1}, {1}, {1000}}).count == 1); // what disturbs does not count
}

TEST_CASE("profile/timing: something is repeated as often as it must be, and until its time is over") {
    CHECK(calls({.least = 3, .most = 10, .each = {0.0}}, 1) == 3);
    CHECK(calls({.least = 3, .most = 10, .each = {5.5}}, 1) == 6);
    CHECK(calls({.least = 3, .most = 10, .each = {100}}, 1) == 10);
    CHECK(calls({.least = 1, .most = 1, .each = {100}}, 0) == 1);
    CHECK_THROWS_AS(calls({.least = 0}, 1), tern::config_error);
    CHECK_THROWS_AS(calls({.least = 3, .most = 2}, 1), tern::config_error);
}
