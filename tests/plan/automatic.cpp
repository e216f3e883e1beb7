#include <tern/plan/automatic.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/plan/exact.hpp>
#include <tern/plan/first_fit.hpp>

#include "cost_support.hpp"

namespace test = tern::test;

namespace {

/// A cost model of one's own: bytes over 12 GB/s, 40 on the host and 400 on the accelerator.
struct flat {
    tern::seconds price(const tern::move& m) const { return m.size / tern::bytes_per_second{12e9}; }
    tern::seconds price(const tern::run& r) const {
        return r.weights / tern::bytes_per_second{r.processor == "host" ? 40e9 : 400e9};
    }
};

} // namespace

static_assert(tern::placement_policy<tern::automatic<>>);
static_assert(tern::placement_policy<tern::automatic<flat>>);

namespace {

double predicted(const tern::placement& p, const tern::graph& g, const tern::machine& m, const auto& policy) {
    return tern::estimate(g, p, m, policy.prices(m), policy.options.how).total.count;
}
double predicted(const auto& policy, const tern::graph& g, const tern::machine& m) {
    return predicted(policy.place(g, m), g, m, policy);
}

/// Every tensor once, what a call reads together in one place and treated alike, within the budget.
void check_whole(const tern::placement& p, const tern::graph& g, const tern::machine& m) {
    REQUIRE(p.tensors.size() == g.tensors.size());
    const bool sound = test::sound(p, g, m);
    CHECK(sound);
    CHECK(p.policy.substr(0, 11) == "automatic: ");
    for (const tern::graph_node& node : g.nodes)
        for (const std::size_t t : node.tensors) {
            const tern::placed_tensor &a = p.tensors[t], &b = p.tensors[node.tensors.front()];
            if (a.where == test::vram0 || a.streamed() || b.where == test::vram0 || b.streamed()) {
                CHECK(a.where == b.where);
                CHECK(a.computes == b.computes);
            }
        }
}

tern::automatic<> on(const tern::machine& m, const tern::chain_options& o) {
    return {tern::roofline(m, test::whole), o};
}

} // namespace

TEST_CASE("plan/automatic: sound, groups whole, and twice the same, on random graphs and machines") {
    std::mt19937 random(1);
    std::vector<std::string> ways;
    for (int round = 0; round < 40; ++round) {
        CAPTURE(round);
        const tern::graph g = test::random_graph(random, 1 + random() % 4);
        const tern::machine m = test::random_machine(random, {random() % (g.weight_bytes().count + 1000)});
        const tern::automatic<> policy = on(m, test::any_options(random));
        const tern::placement p = policy.place(g, m), again = policy.place(g, m);
        check_whole(p, g, m);
        CHECK(p.policy == again.policy);
        for (std::size_t t = 0; t < p.tensors.size(); ++t) {
            CHECK(p.tensors[t].where == again.tensors[t].where);
            CHECK(p.tensors[t].computes == again.tensors[t].computes);
            CHECK(p.tensors[t].reason == again.tensors[t].reason);
        }
        ways.emplace_back(p.policy);
    }
    std::sort(ways.begin(), ways.end());
    ways.erase(std::unique(ways.begin(), ways.end()), ways.end());
    CHECK(ways.size() >= 4);
    for (const std::string& way : ways) MESSAGE(way);
}

TEST_CASE("plan/automatic: more budget is never slower, a faster link is never slower") {
    std::mt19937 random(2);
    for (int round = 0; round < 25; ++round) {
        CAPTURE(round);
        const tern::graph g = test::random_graph(random, 1 + random() % 3);
        const std::uint64_t all = g.weight_bytes().count + 4000;
        const tern::machine m = test::random_machine(random, {all});
        const tern::chain_options o = test::any_options(random);
        double last = 1e300;
        for (std::uint64_t budget = 0; budget <= all; budget += all / 9 + random() % 1000) {
            CAPTURE(budget);
            const double now = predicted(on(m, o), g, m.with_budget<tern::vram>({budget}));
            CHECK(now <= last * (1 + 1e-12));
            last = now;
        }
        tern::machine link = m.with_budget<tern::vram>({random() % all});
        last = predicted(on(link, o), g, link);
        for (int faster = 0; faster < 5; ++faster) {
            CAPTURE(faster);
            for (tern::link& l : link.links) {
                l.bandwidth = tern::bytes_per_second{l.bandwidth->count * 1.7};
                l.latency = tern::seconds{l.latency->count / 1.7};
            }
            const double now = predicted(on(link, o), g, link);
            CAPTURE(on(link, o).place(g, link).policy);
            CHECK(now <= last * (1 + 1e-12));
            last = now;
        }
    }
}

TEST_CASE("plan/automatic: never slower by more than 3% than any of those that it combines") {
    std::mt19937 random(3);
    for (int round = 0; round < 30; ++round) {
        CAPTURE(round);
        tern::graph g = test::random_graph(random, 1 + random() % 4);
        for (tern::planned_tensor& t : g.tensors) t.allowed = test::anywhere();
        const tern::machine m = test::random_machine(random, {random() % g.weight_bytes().count});
        const tern::automatic<> policy = on(m, test::any_options(random));
        const double mine = predicted(policy, g, m);
        const auto at_least = [&](const auto& other) {
            const tern::placement p = other.place(g, m);
            CAPTURE(p.policy);
            CHECK(mine <= predicted(p, g, m, policy) * 1.03);
        };
        at_least(tern::all_cpu{});
        at_least(tern::first_fit{});
        at_least(tern::layer_split{.layers = tern::layer_split::as_many_as_fit});
        at_least(tern::by_tensor{policy.prices(m), policy.options});
        for (const tern::expert_choice which : {tern::expert_choice::by_use, tern::expert_choice::uniform,
                                                tern::expert_choice::first_layers, tern::expert_choice::last_layers})
            at_least(tern::expert_offload{.experts = which});
    }
}

TEST_CASE("plan/automatic: what was tried is there, fastest first, each with its name and time") {
    const tern::graph g = test::mixture();
    const tern::machine m = test::timed({300 << 10});
    const tern::automatic<> policy = on(m, {});
    const std::vector<tern::tried_placement> all = policy.tried(g, m);
    REQUIRE(all.size() > 10);
    for (std::size_t i = 0; i < all.size(); ++i) {
        CAPTURE(all[i].plan.policy);
        check_whole(all[i].plan, g, m);
        CHECK(all[i].time.count == doctest::Approx(predicted(all[i].plan, g, m, policy)).epsilon(1e-12));
        if (i != 0) CHECK(all[i - 1].time <= all[i].time);
    }
    CHECK(policy.place(g, m).policy == all.front().plan.policy);
    std::size_t shared = 0;
    for (const tern::tried_placement& t : all) shared += t.plan.misses == tern::on_miss::split ? 1 : 0;
    CHECK(shared > 0);
    // Without sharing nothing is shared.
    for (const tern::tried_placement& t : tern::automatic<>{policy.cost, {}, tern::on_miss::fetch}.tried(g, m))
        CHECK(t.plan.misses.value_or(tern::on_miss::fetch) == tern::on_miss::fetch);
}

TEST_CASE("plan/automatic: without vram the host computes; with room for all nothing is brought; prices are needed") {
    const tern::graph g = test::mixture();
    const tern::machine none = test::timed({});
    tern::placement p = tern::automatic{}.place(g, none);
    check_whole(p, g, none);
    CHECK(p.policy == "automatic: all_cpu");
    const tern::machine large = test::timed({1 << 30});
    tern::chain_options o;
    o.how.shape.habits = tern::fused_engine;
    p = tern::automatic{flat{}, o}.place(g, large);
    check_whole(p, g, large);
    for (std::size_t t = 0; t < g.tensors.size(); ++t)
        if (g.tensors[t].name != "table") CHECK(p.tensors[t].where == test::vram0);
    CHECK(p.pools.empty());
    CHECK_THROWS_AS(static_cast<void>(tern::automatic<flat>{}.place(g, large)), tern::config_error);
    // A machine without processors says nothing of times.
    CHECK_THROWS_AS(static_cast<void>(tern::automatic{}.place(g, test::with({1 << 20}))), tern::config_error);
}

TEST_CASE("plan/automatic: room for the cache is kept free, more with a longer context") {
    const tern::graph g = test::mixture();
    const tern::machine m = test::timed({600 << 10});
    tern::chain_options o;
    o.how.shape.habits.cache_on_host = false;
    o.how.shape.cache_per_token = {300};
    for (std::size_t context = 0; context <= 1500; context += 300) {
        o.context = context;
        const tern::placement p = on(m, o).place(g, m);
        check_whole(p, g, m);
        const tern::bytes taken = p.bytes_at(g, test::vram0) + p.pool_at(test::vram0);
        CHECK(taken.count + 500 + 300 * context <= (600 << 10));
    }
}

TEST_CASE("plan/automatic: missing experts are shared where the link and the host are about as fast") {
    const tern::graph g = test::deep_mixture(8);
    tern::machine m = test::timed({std::uint64_t{1} << 30}).with_budget<tern::pageable>(tern::unlimited);
    for (tern::link& l : m.links) l.bandwidth = tern::bytes_per_second{6e8};
    const tern::automatic<> policy; // the host decodes at half of what its memory gives, so the link has the rest
    const tern::placement p = policy.place(g, m);
    check_whole(p, g, m);
    CHECK(std::string(p.policy).find("shared") != std::string::npos);
    const double computed = predicted(tern::by_tensor{policy.prices(m), policy.options}.place(g, m), g, m, policy);
    CHECK(predicted(p, g, m, policy) < 0.7 * computed);
}

namespace {

/// Prices whose sums are no numbers any more.
struct endless {
    tern::seconds price(const tern::move&) const { return {1e308}; }
    tern::seconds price(const tern::run&) const { return {1e308}; }
};

} // namespace

TEST_CASE(
    "plan/automatic: with times beyond all numbers everything lies on the host, here and in by_tensor and exact") {
    std::mt19937 random(9);
    for (int round = 0; round < 10; ++round) {
        const tern::graph g = test::random_graph(random, 2);
        const tern::machine m = test::random_machine(random, {g.weight_bytes().count / 2});
        CHECK(tern::by_tensor<endless>{{}, {}}.place(g, m).bytes_at(g, test::vram0) == tern::bytes{});
        CHECK(tern::exact<endless>{{}, {}}.place(g, m).bytes_at(g, test::vram0) == tern::bytes{});
        CHECK(tern::automatic<endless>{endless{}, {}}.place(g, m).tensors.size() == g.tensors.size());
    }
}

TEST_CASE("plan/automatic: what RAM does not hold is not taken where another way fits") {
    std::mt19937 random(10);
    int tight = 0;
    for (int round = 0; round < 30; ++round) {
        CAPTURE(round);
        const tern::graph g = test::random_graph(random, 2);
        tern::machine m = test::random_machine(random, {2 * g.weight_bytes().count});
        for (tern::memory_space& s : m.memories)
            if (s.where == tern::location{tern::tier_of<tern::pageable>, 0, 0})
                s.budget = {g.weight_bytes().count / 2}, s.reserved = {};
        tern::chain_options o;
        o.rest = tern::tier_of<tern::pageable>;
        const tern::placement p = on(m, o).place(g, m);
        bool others = false;
        try {
            tern::check(tern::first_fit{.rest = o.rest}.place(g, m), g, m);
            others = true;
        } catch (const tern::budget_error&) {}
        if (!others) continue;
        ++tight;
        CHECK_NOTHROW(tern::check(p, g, m));
    }
    CHECK(tight > 5);
}
