#include <tern/plan/chain.hpp>

#include <cstddef>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <tern/plan/all_cpu.hpp>
#include <tern/plan/estimate.hpp>

#include "cost_support.hpp"

namespace test = tern::test;

namespace {

tern::placement placed(const tern::graph& g, const tern::machine& m, const tern::placement_chain& chain,
                       const std::vector<unsigned char>& chosen) {
    tern::placement p = tern::all_cpu{}.place(g, m);
    for (std::size_t u = 0; u < chain.units().size(); ++u)
        for (const std::size_t t : chain.units()[u].tensors)
            if (chosen[u] == 1) p.tensors[t].where = test::vram0;
    return p;
}

/// A random choice among the units that may move.
std::vector<unsigned char> any_choice(const tern::placement_chain& chain, std::mt19937& random) {
    std::vector<unsigned char> chosen(chain.units().size());
    for (std::size_t u = 0; u < chosen.size(); ++u) chosen[u] = chain.units()[u].movable ? random() % 2 : 0;
    return chosen;
}

} // namespace

TEST_CASE("plan/chain: tensors that calls share are one unit, in the order of the graph") {
    const tern::graph g = test::layers();
    const tern::machine m = test::timed({1 << 20});
    const tern::placement_chain chain(g, m, tern::roofline(m, test::whole), {}, test::vram0, test::mapped0);
    REQUIRE(chain.units().size() == 1 + 3 * 3);
    CHECK(chain.units()[0].tensors == std::vector<std::size_t>{0}); // the table is the output too
    CHECK(chain.units()[0].nodes == std::vector<std::size_t>{0, 10});
    CHECK(chain.units()[0].movable);
    CHECK(chain.units()[2].tensors == std::vector<std::size_t>{2, 3}); // gate and up
    CHECK(chain.units()[2].size.count == 2000 + 2 * 64);
    CHECK(chain.units()[2].host_time * 1e6 == doctest::Approx(3 + 2 + 0.266 * 4));
    CHECK(tern::detail::scattered_units(chain) == std::vector<std::size_t>{0});
    // A tensor that two pairs share joins them.
    tern::graph shared = g;
    shared.nodes[5].tensors[0] = 2; // the second layer's gate is the first one's
    const tern::placement_chain one(shared, m, tern::roofline(m, test::whole), {}, test::vram0, test::mapped0);
    CHECK(one.units()[2].tensors == std::vector<std::size_t>{2, 3, 7});
    CHECK(one.units()[2].nodes == std::vector<std::size_t>{2, 5});
}

TEST_CASE("plan/chain: a type that keeps one tensor on the host keeps its group; a table stays where it is looked up") {
    tern::graph g = test::layers();
    g.tensors[3].allowed = {tern::tier_of<tern::mapped>};
    g.nodes.back().tensors = {test::add(g, "output", 2000, test::anywhere())};
    const tern::machine m = test::timed({1 << 20});
    const tern::placement_chain chain(g, m, tern::roofline(m, test::whole), {}, test::vram0, test::mapped0);
    CHECK(!chain.units()[2].movable);
    CHECK(!chain.units()[0].movable);
    CHECK(chain.units()[3].movable);
    CHECK(chain.units().back().movable);
}

TEST_CASE("plan/chain: its cost is what estimate says, for any choice, engine and number of tokens") {
    std::mt19937 random(3);
    for (int round = 0; round < 200; ++round) {
        CAPTURE(round);
        const tern::graph g = test::random_graph(random, 1 + random() % 4);
        const tern::machine m = test::random_machine(random, {1 << 30});
        const tern::roofline cost(m, test::whole);
        tern::estimate_options how;
        how.shape.tokens = 1 + random() % 3;
        how.shape.context = random() % 100;
        how.shape.cache_per_token = {1000};
        if (random() % 2 == 0) how.shape.habits = tern::fused_engine;
        const tern::placement_chain chain(g, m, cost, how, test::vram0, test::mapped0);
        const std::vector<unsigned char> chosen = any_choice(chain, random);
        const tern::prediction e = tern::estimate(g, placed(g, m, chain, chosen), m, cost, how);
        CHECK(chain.cost(chosen) == doctest::Approx(e.total.count).epsilon(1e-9));
        tern::bytes sum{};
        for (std::size_t u = 0; u < chosen.size(); ++u)
            if (chosen[u] == 1)
                for (const std::size_t t : chain.units()[u].tensors)
                    sum += tern::bytes{g.tensors[t].size().count + 64 * g.tensors[t].shape.experts};
        CHECK(chain.size(chosen) == sum);
    }
}

TEST_CASE("plan/chain: cut into segments it costs the same, and each movable unit is chosen once") {
    std::mt19937 random(4);
    for (int round = 0; round < 100; ++round) {
        CAPTURE(round);
        const tern::graph g = test::random_graph(random, 1 + random() % 4);
        const tern::machine m = test::random_machine(random, {1 << 30});
        tern::estimate_options how;
        if (random() % 2 == 0) how.shape.habits = tern::fused_engine;
        const tern::placement_chain chain(g, m, tern::roofline(m, test::whole), how, test::vram0, test::mapped0);
        const std::vector<std::size_t> scattered = tern::detail::scattered_units(chain);
        const std::vector<bool> is_given = tern::detail::given_units(chain, scattered);
        std::vector<unsigned char> chosen = any_choice(chain, random);
        const tern::bytes least{random() % 2 == 0 ? 0u : 100'000u};
        std::vector<unsigned char> given = chosen;
        for (std::size_t u = 0; u < given.size(); ++u)
            if (!is_given[u]) given[u] = 0;
        const std::vector<tern::detail::chain_segment> segments = tern::detail::cut(chain, given, is_given, least);
        std::vector<int> seen(chosen.size());
        std::size_t state = 0;
        double sum = 0;
        for (const tern::detail::chain_segment& s : segments) {
            tern::bytes size{};
            const unsigned char choice = s.units.empty() ? 0 : chosen[s.units.front()];
            for (const std::size_t u : s.units) {
                ++seen[u];
                chosen[u] = choice; // joined units go together
                size += chain.units()[u].size;
            }
            CHECK(size == s.size);
            CHECK((s.units.size() <= 1 || least.count != 0));
            CHECK(s.movable == !s.units.empty());
            sum += s.cost[state][choice];
            state = s.after[state][choice];
        }
        if ((state & 1) == 1) sum += chain.departure();
        CHECK(sum == doctest::Approx(chain.cost(chosen)).epsilon(1e-9));
        for (std::size_t u = 0; u < seen.size(); ++u) CHECK(seen[u] == (is_given[u] ? 0 : 1));
    }
}
