#include <tern/op/misses.hpp>

#include <cmath>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "support.hpp"

namespace test = tern::test;
using tern::miss_policy;
using tern::on_miss;

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// A policy that has measured a host bandwidth.
miss_policy measured(double host) {
    miss_policy p(on_miss::split);
    p.computed({1'000'000}, {1'000'000 / host});
    return p;
}

} // namespace

TEST_CASE("op/misses: words and ways") {
    CHECK(tern::parse_on_miss("fetch") == on_miss::fetch);
    CHECK(tern::parse_on_miss("compute") == on_miss::compute);
    CHECK(tern::parse_on_miss("split") == on_miss::split);
    for (const char* wrong : {"", "Fetch", "both", "fetch "})
        CHECK(test::has(test::text_of<tern::config_error>([&] { static_cast<void>(tern::parse_on_miss(wrong)); }),
                        "fetch, compute or split"));
    CHECK(miss_policy{}.how() == on_miss::fetch);
}

TEST_CASE("op/misses: fetch takes all and compute none, whatever was measured") {
    for (const double link : {0.0, 1.0, 1e9, infinite})
        for (std::size_t n = 0; n < 20; ++n) {
            miss_policy fetch(on_miss::fetch), compute(on_miss::compute);
            fetch.computed({1000}, {1});
            compute.computed({1000}, {1});
            CHECK(fetch.fetched(n, {link}) == n);
            CHECK(compute.fetched(n, {link}) == 0);
        }
}

TEST_CASE("op/misses: split fetches a half, rounded up, until both bandwidths are measured") {
    const miss_policy fresh(on_miss::split);
    for (const double link : {1.0, 1e9, infinite})
        for (std::size_t n = 0; n < 9; ++n) CHECK(fresh.fetched(n, {link}) == (n + 1) / 2);
    const miss_policy known = measured(1e9);
    for (const double link : {0.0, -1.0, infinite, std::numeric_limits<double>::quiet_NaN()})
        CHECK(known.share({link}) == 0.5);
}

TEST_CASE("op/misses: split shares by link / (link + host), to the nearest whole expert") {
    for (const double host : {1e8, 1e9, 3e9, 5e10})
        for (const double link : {1e6, 1e8, 1e9, 2e9, 1e12}) {
            const miss_policy p = measured(host);
            const double q = link / (link + host);
            CHECK(p.share({link}) == doctest::Approx(q));
            for (std::size_t n = 0; n <= 64; ++n) {
                const auto fetched = static_cast<double>(p.fetched(n, {link}));
                CHECK(fetched <= static_cast<double>(n));
                CHECK(std::fabs(fetched - q * static_cast<double>(n)) <= 0.5 + 1e-9);
            }
        }
    const miss_policy p = measured(1e9);
    CHECK(p.fetched(4, {3e9}) == 3); // 3/4 of 4
    CHECK(p.fetched(5, {3e9}) == 4); // 3.75
    CHECK(p.fetched(1, {3e9}) == 1);
    CHECK(p.fetched(1, {0.9e9}) == 0);
    CHECK(p.fetched(2, {3e9}) == 2); // 1.5 goes up
}

TEST_CASE("op/misses: the host's bandwidth follows what is measured, and times that are none change nothing") {
    miss_policy p(on_miss::split);
    CHECK(p.host().count == infinite);
    for (const double t : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) p.computed({1000}, {t});
    CHECK(p.host().count == infinite);
    p.computed({1000}, {1});
    CHECK(p.host().count == doctest::Approx(1000));
    p.computed({2000}, {1});
    CHECK(p.host().count == doctest::Approx(1200)); // a fifth of the way
    for (int i = 0; i < 100; ++i) p.computed({2000}, {1});
    CHECK(p.host().count == doctest::Approx(2000));
}
