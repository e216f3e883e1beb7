#include <tern/plan/token_tiers.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cost_support.hpp"

namespace test = tern::test;

namespace {

tern::token_tiers<> tiers(const tern::machine& m) {
    tern::token_tiers<> policy;
    policy.policy.cost = tern::roofline(m);
    return policy;
}

} // namespace

TEST_CASE("plan/token_tiers: a number of tokens has its plan, the last serves all that are more") {
    tern::tiered_placement plans;
    CHECK_THROWS_AS(static_cast<void>(plans.plan_for(1)), tern::config_error);
    plans.tiers = {{1, {}, {}, {}}, {16, {}, {}, {}}, {512, {}, {}, {}}};
    const std::size_t wanted[][2] = {{0, 0}, {1, 0}, {2, 1}, {16, 1}, {17, 2}, {512, 2}, {513, 2}, {100'000, 2}};
    for (const auto& [tokens, at] : wanted) CHECK(plans.index_of(tokens) == at);
    CHECK(&plans.plan_for(5) == &plans.tiers[1].plan);
}

TEST_CASE("plan/token_tiers: a change costs what comes over the links, and nothing where only uses differ") {
    const tern::graph g = test::layers();
    const tern::machine m = test::timed({1 << 20}); // 100 MB/s after 10 us
    const tern::roofline cost(m, test::whole);
    const tern::placement host = tern::all_cpu{}.place(g, m);
    CHECK(tern::switch_price(host, host, g, m, cost).count == 0);
    tern::placement p = host;
    p.tensors[4].where = test::vram0; // 600 bytes
    CHECK(tern::switch_price(host, p, g, m, cost).count * 1e6 == doctest::Approx(10 + 6));
    CHECK(tern::switch_price(p, host, g, m, cost).count == 0); // the file has them
    tern::placement more = p;
    more.tensors[2].where = more.tensors[3].where = test::vram0; // twice 1000
    CHECK(tern::switch_price(p, more, g, m, cost).count * 1e6 == doctest::Approx(2 * (10 + 10)));
    tern::placement streamed = p;
    streamed.tensors[2] = {test::mapped0, "", test::vram0};
    streamed.pools.push_back({test::vram0, {4000}});
    CHECK(!tern::same_plan(p, streamed));
    CHECK(tern::switch_price(p, streamed, g, m, cost).count == 0);
    // A cache that is filled is filled again: 500 of 1000 bytes.
    streamed.tensors[2].stay = tern::retention::cache;
    streamed.fill = true;
    streamed.pools[0].limit = {500};
    CHECK(tern::switch_price(p, streamed, g, m, cost).count * 1e6 == doctest::Approx(10 + 5));
    tern::placement other = streamed;
    other.tensors[2].reason = "told otherwise";
    CHECK(tern::same_plan(streamed, other));
    other.misses = tern::on_miss::split;
    CHECK(!tern::same_plan(streamed, other));
}

TEST_CASE("plan/token_tiers: each tier is as fast as its changes allow, and never slower than with the first plan") {
    const tern::graph g = test::deep_mixture(8);
    tern::machine m = test::timed({std::uint64_t{1} << 30}).with_budget<tern::pageable>(tern::unlimited);
    for (tern::link& l : m.links) l.bandwidth = tern::bytes_per_second{6e8};
    for (tern::processor& p : m.processors) // computing counts: the host is the slower, the more tokens there are
        p.rates = p.kind == tern::processor_kind::cpu ? tern::arithmetic_rates{1e10, 1e10, {}}
                                                      : tern::arithmetic_rates{1e13, 1e13, {}};
    for (const double runs : {1e-6, 1.0, 1e6}) {
        CAPTURE(runs);
        tern::token_tiers<> policy = tiers(m);
        for (std::size_t i = 1; i < policy.ranges.size(); ++i) policy.ranges[i].runs = runs;
        const tern::tiered_placement plans = policy.place(g, m);
        REQUIRE(plans.tiers.size() == 4);
        const tern::roofline cost = policy.policy.prices(m);
        for (std::size_t i = 0; i < 4; ++i) {
            const tern::token_tier& tier = plans.tiers[i];
            CAPTURE(tier.most);
            CHECK(tier.most == policy.ranges[i].most);
            CHECK(test::sound(tier.plan, g, m));
            tern::automatic<> own = policy.policy;
            own.options.how.shape.tokens = tier.most;
            const double first = tern::estimate(g, plans.tiers[0].plan, m, cost, own.options.how).total.count;
            const double best = own.tried(g, m).front().time.count;
            const double mine = tern::estimate(g, tier.plan, m, cost, own.options.how).total.count;
            CHECK(mine == doctest::Approx(tier.time.count));
            const double change = (tern::switch_price(plans.tiers[0].plan, tier.plan, g, m, cost) +
                                   tern::switch_price(tier.plan, plans.tiers[0].plan, g, m, cost))
                                      .count;
            CHECK(change == doctest::Approx(tier.change.count));
            if (i == 0) continue;
            CHECK(mine * runs + change <= first * runs * (1 + 1e-12));
            if (runs > 1e5) CHECK(mine <= best * 1.0001);
            if (runs < 1e-5) CHECK(change == 0); // nothing moves for so little
        }
        const tern::tiered_speed s =
            tern::speed_of(g, plans, m, cost, policy.policy.options.how, {.prompt = 512, .chunk = 512});
        CHECK(s.decode > 0);
        CHECK(s.prefill > s.decode);
        CHECK(s.changing.count ==
              doctest::Approx(tern::switch_price(plans.tiers[2].plan, plans.tiers[0].plan, g, m, cost).count));
    }
}

TEST_CASE("plan/token_tiers: ranges that do not rise are refused") {
    const tern::graph g = test::mixture();
    const tern::machine m = test::timed({300 << 10});
    for (const std::vector<tern::token_range>& wrong :
         {std::vector<tern::token_range>{{0, 1}}, {{1, 1}, {1, 1}}, {{4, 1}, {2, 1}}, {{1, 0}}}) {
        tern::token_tiers<> policy = tiers(m);
        policy.ranges = wrong;
        CHECK_THROWS_AS(static_cast<void>(policy.place(g, m)), tern::config_error);
    }
}
