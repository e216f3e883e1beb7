#include <tern/plan/activity.hpp>

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

using tern::expected_use;

TEST_CASE("plan/activity: distinct experts of some tokens, against the formula and a count of all choices") {
    CHECK(tern::expected_experts(128, 8, 1) == doctest::Approx(8));
    CHECK(tern::expected_experts(128, 8, 16) == doctest::Approx(128 * (1 - std::pow(120.0 / 128, 16))));
    CHECK(tern::expected_experts(8, 8, 1) == doctest::Approx(8));
    CHECK(tern::expected_experts(8, 2, 0) == 0);
    CHECK(tern::expected_experts(8, 2, 1e6) == doctest::Approx(8));
    // Three tokens that each choose 1 of 4: 64 equally likely outcomes.
    double sum = 0;
    for (int a = 0; a < 4; ++a)
        for (int b = 0; b < 4; ++b)
            for (int c = 0; c < 4; ++c) sum += 1 + (b != a) + (c != a && c != b);
    CHECK(tern::expected_experts(4, 1, 3) == doctest::Approx(sum / 64));
    CHECK_THROWS_AS(tern::expected_experts(4, 5, 1), tern::config_error);
    CHECK_THROWS_AS(tern::expected_experts(0, 0, 1), tern::config_error);
    CHECK_THROWS_AS(tern::expected_experts(4, 1, -1), tern::config_error);
}

TEST_CASE("plan/activity: a cache of equal experts holds its share of the choices") {
    const tern::expert_use use = expected_use(128, 8, 1, {}, 32);
    CHECK(use.touched == doctest::Approx(8));
    CHECK(use.cached == doctest::Approx(2));
    CHECK(use.share == doctest::Approx(0.25));
    CHECK(expected_use(128, 8, 4, {}, 1000).cached == doctest::Approx(expected_use(128, 8, 4, {}, 0).touched));
    const std::vector<double> equal(128, 3.5);
    const tern::expert_use same = expected_use(128, 8, 5, equal, 32);
    CHECK(same.touched == doctest::Approx(expected_use(128, 8, 5, {}, 32).touched));
    CHECK(same.cached == doctest::Approx(expected_use(128, 8, 5, {}, 32).cached));
}

TEST_CASE("plan/activity: popular experts are in the cache") {
    // p = 0.8, 0.8, 0.2, 0.2: the sum is 2.
    const std::vector<double> popularity{1, 4, 1, 4};
    const tern::expert_use use = expected_use(4, 2, 1, popularity, 2);
    CHECK(use.touched == doctest::Approx(2));
    CHECK(use.cached == doctest::Approx(1.6));
    CHECK(use.share == doctest::Approx(0.8));
    CHECK(expected_use(4, 2, 1, popularity, 1.5).cached == doctest::Approx(1.2));
    const tern::expert_use two = expected_use(4, 2, 2, popularity, 2);
    CHECK(two.touched == doctest::Approx(2 * 0.96 + 2 * 0.36));
    CHECK(two.cached == doctest::Approx(2 * 0.96));
    // One that every token uses.
    CHECK(expected_use(3, 1, 5, std::vector<double>{1, 0, 0}, 0).touched == doctest::Approx(1));
    for (const std::vector<double>& bad : {std::vector<double>{1, 2}, std::vector<double>{0, 0, 0, 0},
                                           std::vector<double>{1, -1, 1, 1}, std::vector<double>{1, 0.0 / 0.0, 1, 1}})
        CHECK_THROWS_AS(expected_use(4, 2, 1, bad, 0), tern::config_error);
}
