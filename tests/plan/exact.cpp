#include <tern/plan/exact.hpp>

#include <cstddef>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "cost_support.hpp"

namespace test = tern::test;

static_assert(tern::placement_policy<tern::exact<tern::roofline>>);

TEST_CASE("plan/exact: no choice at all is better, on random graphs") {
    std::mt19937 random(11);
    for (int round = 0; round < 60; ++round) {
        CAPTURE(round);
        const tern::graph g = test::random_graph(random, 1 + random() % 2);
        const tern::machine m = test::random_machine(random, {1 << 30});
        tern::estimate_options how;
        if (random() % 2 == 0) how.shape.habits = tern::fused_engine;
        const tern::placement_chain chain(g, m, tern::roofline(m, test::whole), how, test::vram0, test::mapped0);
        const tern::bytes room{random() % (g.weight_bytes().count + 1000)};
        const tern::chain_choice found = tern::branch_and_bound(chain, room);
        CHECK(chain.cost(found.chosen) == doctest::Approx(found.cost.count).epsilon(1e-9));
        CHECK(chain.size(found.chosen) <= room);
        double best = 1e300;
        const std::size_t n = chain.units().size();
        REQUIRE(n < 18);
        for (std::size_t mask = 0; mask < std::size_t{1} << n; ++mask) {
            std::vector<unsigned char> chosen(n);
            bool allowed = true;
            for (std::size_t u = 0; u < n; ++u) {
                chosen[u] = mask >> u & 1;
                allowed = allowed && (chosen[u] == 0 || chain.units()[u].movable);
            }
            if (allowed && chain.size(chosen) <= room) best = std::min(best, chain.cost(chosen));
        }
        CHECK(found.cost.count == doctest::Approx(best).epsilon(1e-9));
    }
}

TEST_CASE("plan/exact: to the byte") {
    const tern::graph g = test::layers();
    tern::machine m = test::timed({1 << 20});
    for (tern::link& l : m.links) l.latency = tern::seconds{}, l.bandwidth = tern::bytes_per_second{};
    m.processors[1].sync = tern::seconds{};
    m.processors[1].launch = tern::seconds{};
    const tern::roofline cost(m, test::whole);
    const std::uint64_t whole = g.weight_bytes().count + 64 * g.tensors.size() + 500; // and the activations
    CHECK(tern::exact{cost}.place(g, m.with_budget<tern::vram>({whole})).bytes_at(g, test::vram0) == g.weight_bytes());
    CHECK(tern::exact{cost}.place(g, m.with_budget<tern::vram>({whole - 1})).bytes_at(g, test::vram0) <
          g.weight_bytes());
    CHECK(tern::exact{cost}.place(g, m).policy == "exact");
    CHECK(tern::exact{cost}.place(g, test::with({})).bytes_at(g, test::mapped0) == g.weight_bytes());
}

TEST_CASE("plan/exact: a graph that is too large is refused") {
    const tern::graph g = test::deep_mixture(60);
    const tern::machine m = test::timed({std::uint64_t{8} << 30});
    CHECK_THROWS_AS(tern::exact{tern::roofline(m, test::whole)}.place(g, m), tern::config_error);
}
