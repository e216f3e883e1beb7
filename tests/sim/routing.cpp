#include <tern/sim/routing.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include <doctest/doctest.h>

namespace {

std::vector<double> shares(double skew, std::size_t layer, std::size_t experts, std::size_t k, int draws) {
    tern::expert_draw draw({.skew = skew, .seed = 7});
    std::vector<double> counts(experts);
    std::vector<std::int32_t> ids(k);
    for (int i = 0; i < draws; ++i) {
        draw.choose(layer, experts, k, ids.data());
        CHECK(std::set<std::int32_t>(ids.begin(), ids.end()).size() == k);
        for (const std::int32_t id : ids) counts[static_cast<std::size_t>(id)] += 1.0 / draws;
    }
    return counts;
}

} // namespace

TEST_CASE("sim/routing: a skew of 0 is uniform") {
    for (const double share : shares(0, 3, 64, 4, 40000)) CHECK(share == doctest::Approx(4.0 / 64).epsilon(0.1));
}

TEST_CASE("sim/routing: a skew of 1 is Zipf's law, in another order in each layer") {
    constexpr std::size_t experts = 40;
    double all = 0;
    for (std::size_t r = 1; r <= experts; ++r) all += 1.0 / static_cast<double>(r);
    std::vector<std::size_t> orders;
    for (const std::size_t layer : {0u, 1u}) {
        std::vector<double> found = shares(1, layer, experts, 1, 60000);
        const tern::expert_draw draw({.skew = 1});
        const auto best = static_cast<std::size_t>(std::max_element(found.begin(), found.end()) - found.begin());
        CHECK(best == static_cast<std::size_t>(draw.at_rank(layer, experts, 0)));
        orders.push_back(best);
        std::sort(found.rbegin(), found.rend());
        for (const std::size_t r : {1u, 2u, 5u, 10u})
            CHECK(found[r - 1] == doctest::Approx(1 / (static_cast<double>(r) * all)).epsilon(0.1));
    }
    CHECK(orders[0] != orders[1]);
}

TEST_CASE("sim/routing: ranks are a permutation of the experts; a seed repeats; nonsense is refused") {
    const tern::expert_draw draw;
    for (const std::size_t experts : {1u, 2u, 7u, 64u, 896u})
        for (const std::size_t layer : {0u, 1u, 91u}) {
            std::set<std::int32_t> seen;
            for (std::size_t r = 0; r < experts; ++r) seen.insert(draw.at_rank(layer, experts, r));
            CHECK(seen.size() == experts);
            CHECK(*seen.begin() == 0);
            CHECK(*seen.rbegin() == static_cast<std::int32_t>(experts) - 1);
        }
    CHECK(shares(0.5, 2, 16, 3, 100) == shares(0.5, 2, 16, 3, 100));
    tern::expert_draw again;
    std::int32_t ids[3];
    again.choose(0, 3, 3, ids); // all of them
    CHECK(std::set<std::int32_t>(ids, ids + 3).size() == 3);
    CHECK_THROWS_AS(again.choose(0, 2, 3, ids), tern::config_error);
    CHECK_THROWS_AS(tern::expert_draw({.skew = -1}), tern::config_error);
    CHECK_THROWS_AS(tern::expert_draw({.skew = std::nan("")}), tern::config_error);
}
