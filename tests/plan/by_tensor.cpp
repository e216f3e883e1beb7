#include <tern/plan/by_tensor.hpp>

#include <chrono>
#include <cstddef>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/cost/presets.hpp>
#include <tern/plan/estimate.hpp>
#include <tern/plan/exact.hpp>
#include <tern/plan/first_fit.hpp>
#include <tern/plan/layer_split.hpp>

#include "cost_support.hpp"

namespace test = tern::test;

static_assert(tern::placement_policy<tern::by_tensor<tern::roofline>>);

namespace {

double predicted(const auto& policy, const tern::graph& g, const tern::machine& m) {
    const tern::placement p = policy.place(g, m);
    return tern::estimate(g, p, m, policy.cost, policy.options.how).total.count;
}

/// Every tensor once, those that a call reads together in one place, within the budget.
void check_whole(const tern::placement& p, const tern::graph& g, const tern::machine& m) {
    REQUIRE(p.tensors.size() == g.tensors.size());
    bool sound = test::sound(p, g, m);
    CHECK(sound);
    for (const tern::graph_node& node : g.nodes)
        for (const std::size_t t : node.tensors) CHECK(p.tensors[t].where == p.tensors[node.tensors.front()].where);
    for (const tern::placed_tensor& t : p.tensors) CHECK(!t.streamed());
}

} // namespace

TEST_CASE("plan/by_tensor: within one per cent of the best, and never over the budget, on 200 random graphs") {
    std::mt19937 random(1);
    double worst = 0;
    int mixed = 0;
    for (int round = 0; round < 200; ++round) {
        CAPTURE(round);
        const tern::graph g = test::random_graph(random, 1 + random() % 3);
        const tern::machine m = test::random_machine(random, {random() % (g.weight_bytes().count + 1000)});
        const tern::chain_options o = test::any_options(random);
        const tern::roofline cost(m, test::whole);
        const tern::by_tensor policy{cost, o};
        const tern::exact best{cost, o};
        check_whole(policy.place(g, m), g, m);
        check_whole(best.place(g, m), g, m);
        const std::uint64_t there = best.place(g, m).bytes_at(g, test::vram0).count;
        mixed += there != 0 && there != g.weight_bytes().count ? 1 : 0;
        const double gap = predicted(policy, g, m) / predicted(best, g, m) - 1;
        CHECK(gap <= 0.01);
        CHECK(gap >= -1e-9);
        worst = std::max(worst, gap);
    }
    MESSAGE("largest gap to exact: " << worst * 100 << "%, " << mixed << " of 200 are mixed");
    CHECK(mixed > 100);
}

TEST_CASE("plan/by_tensor: more budget is never slower, a faster link is never slower, twice is the same") {
    std::mt19937 random(2);
    for (int round = 0; round < 40; ++round) {
        CAPTURE(round);
        const tern::graph g = test::random_graph(random, 1 + random() % 3);
        const std::uint64_t all = g.weight_bytes().count + 4000;
        const tern::machine m = test::random_machine(random, {all});
        const tern::chain_options o = test::any_options(random);
        const auto both = [&](const tern::machine& on) {
            const tern::roofline cost(on, test::whole);
            return std::pair(predicted(tern::by_tensor{cost, o}, g, on), predicted(tern::exact{cost, o}, g, on));
        };
        std::pair<double, double> last{1e300, 1e300};
        for (std::uint64_t budget = 0; budget <= all; budget += all / 7 + random() % 1000) {
            const std::pair<double, double> now = both(m.with_budget<tern::vram>({budget}));
            CHECK(now.first <= last.first * (1 + 1e-12));
            CHECK(now.second <= last.second * (1 + 1e-12));
            last = now;
        }
        tern::machine link = m.with_budget<tern::vram>({random() % all});
        last = both(link);
        for (int faster = 0; faster < 4; ++faster) {
            for (tern::link& l : link.links) {
                l.bandwidth = tern::bytes_per_second{l.bandwidth->count * 1.7};
                l.latency = tern::seconds{l.latency->count / 1.7};
            }
            const std::pair<double, double> now = both(link);
            CHECK(now.first <= last.first * (1 + 1e-12));
            CHECK(now.second <= last.second * (1 + 1e-12));
            last = now;
        }
        const tern::by_tensor policy{tern::roofline(link, test::whole), o};
        const tern::placement a = policy.place(g, link), b = policy.place(g, link);
        for (std::size_t t = 0; t < g.tensors.size(); ++t) {
            CHECK(a.tensors[t].where == b.tensors[t].where);
            CHECK(a.tensors[t].reason == b.tensors[t].reason);
        }
    }
}

TEST_CASE("plan/by_tensor: with room for all, all that gains goes; without the accelerator nothing does") {
    const tern::graph g = test::mixture();
    tern::machine m = test::timed({4 << 20});
    tern::chain_options o;
    o.how.shape.habits = tern::fused_engine;
    tern::placement p = tern::by_tensor{tern::roofline(m, test::whole), o}.place(g, m);
    check_whole(p, g, m);
    CHECK(p.policy == "by_tensor");
    CHECK(test::of(p, g, "table").where == test::mapped0);
    CHECK(test::of(p, g, "table").reason == "a row a token is looked up");
    CHECK(test::of(p, g, "0.gate").where == test::vram0);
    CHECK(test::of(p, g, "0.gate").reason.find("the run is fastest so: ") == 0);
    m = m.with_budget<tern::vram>({0});
    p = tern::by_tensor{tern::roofline(m, test::whole), o}.place(g, m);
    CHECK(p.bytes_at(g, test::vram0).count == 0);
    p = tern::by_tensor{tern::roofline(m, test::whole)}.place(g, test::with({}));
    CHECK(p.bytes_at(g, test::mapped0) == g.weight_bytes());
}

TEST_CASE("plan/by_tensor: what every token uses goes before experts, which gain less for a byte") {
    tern::graph g = test::mixture();
    g.tensors.back().shape = {500, 32, 1};             // 60 us are gained, and 50 go into the way there and back
    const tern::machine m = test::timed({200 * 1024}); // all but the experts, and not one layer's experts
    tern::chain_options o;
    o.how.shape.habits = tern::fused_engine;
    const tern::placement p = tern::by_tensor{tern::roofline(m, test::whole), o}.place(g, m);
    check_whole(p, g, m);
    CHECK(test::of(p, g, "output").where == test::vram0);
    CHECK(test::of(p, g, "0.gate").where == test::mapped0);
    CHECK(test::of(p, g, "0.gate").reason.find("others gain more") == 0);
}

TEST_CASE("plan/by_tensor: a switch that costs more than a group gains keeps it on the host") {
    tern::graph g;
    g.nodes.push_back({"embed", {test::add(g, "table", 1000, test::anywhere())}, 1, 250});
    for (int i = 0; i < 5; ++i) {
        g.nodes.push_back({"mix", {test::add(g, "w" + std::to_string(i), 10'000, test::anywhere())}, 1, 250});
        g.tensors.back().shape = {10, 250, 1};
    }
    // 1 + 10 + 2 us on the host, 2 + 1 + 0.2 there; over and back cost 2 * (10 + 10 + 4). Four gain 39.2, five 49.
    tern::machine m = test::timed({1 << 20});
    const auto there = [&] {
        return tern::by_tensor{tern::roofline(m, test::whole)}.place(g, m).bytes_at(g, test::vram0).count;
    };
    CHECK(there() == 50'000);
    CHECK(predicted(tern::by_tensor{tern::roofline(m, test::whole)}, g, m) * 1e6 ==
          doctest::Approx(1 + 1 + 1 + 5 * 3.2 + 48));
    m.processors[1].sync = tern::seconds{5e-6}; // 50
    CHECK(there() == 0);
    m.processors[1].sync = tern::seconds{4e-6};
    m.processors[1].launch = tern::seconds{3e-6}; // five gain 44
    CHECK(there() == 0);
    m.processors[1].launch = tern::seconds{2e-6};
    m = m.with_budget<tern::vram>({4 * 10'064});
    CHECK(there() == 0);
}

TEST_CASE("plan/by_tensor: headroom grows with the cache, where it lies on the accelerator") {
    const tern::graph g = test::layers();
    const tern::machine m = test::timed({8000});
    tern::chain_options o;
    o.how.shape.habits = tern::fused_engine;
    o.how.shape.cache_per_token = {10};
    const auto there = [&] {
        const tern::placement p = tern::by_tensor{tern::roofline(m, test::whole), o}.place(g, m);
        check_whole(p, g, m);
        return p.bytes_at(g, test::vram0).count;
    };
    o.how.shape.habits.cache_on_host = false;
    CHECK(tern::detail::chain_room(g, m, o).count == 8000 - 500);
    o.context = 300;
    CHECK(tern::detail::chain_room(g, m, o).count == 8000 - 500 - 3000);
    CHECK(there() <= 4500);
    o.headroom = {1000};
    CHECK(tern::detail::chain_room(g, m, o).count == 8000 - 500 - 4000);
    o.context = 1'000'000;
    CHECK(there() == 0);
    o.how.shape.habits.cache_on_host = true;
    CHECK(tern::detail::chain_room(g, m, o).count == 8000 - 500 - 1000);
    CHECK(tern::detail::chain_room(g, m.with_budget<tern::vram>(tern::unlimited), o) == tern::unlimited);
}

namespace {

/// All but the experts on the accelerator, as people do it by hand; the last layers' experts too, as many as fit.
tern::placement by_hand(const tern::graph& g, const tern::machine& m) {
    tern::placement p = tern::all_cpu{}.place(g, m);
    const std::vector<tern::tensor_role> roles = tern::roles_of(g);
    std::uint64_t left = tern::weight_room(g, m, test::vram0).count;
    for (const tern::tensor_role role : {tern::tensor_role::used, tern::tensor_role::expert})
        for (std::size_t i = g.nodes.size(); i-- > 0;) {
            std::uint64_t size = 0;
            for (const std::size_t t : g.nodes[i].tensors)
                if (roles[t] == role) size += g.tensors[t].size().count + 64 * g.tensors[t].shape.experts;
            if (size == 0 || size > left) continue;
            left -= size;
            for (const std::size_t t : g.nodes[i].tensors) p.tensors[t].where = test::vram0;
        }
    return p;
}

} // namespace

TEST_CASE("plan/by_tensor: never slower than what people do by hand, with no more switches than that costs") {
    std::mt19937 random(5);
    for (int round = 0; round < 40; ++round) {
        CAPTURE(round);
        tern::graph g = test::random_graph(random, 1 + random() % 4);
        for (tern::planned_tensor& t : g.tensors) t.allowed = test::anywhere();
        const tern::machine m = test::random_machine(random, {random() % g.weight_bytes().count});
        const tern::by_tensor policy{tern::roofline(m, test::whole), test::any_options(random)};
        const double mine = predicted(policy, g, m);
        const auto at_most = [&](const tern::placement& p) {
            if (p.bytes_at(g, test::vram0) + tern::bytes{64 * 8 * g.tensors.size()} > m.room_at(test::vram0)) return;
            CHECK(mine <= tern::estimate(g, p, m, policy.cost, policy.options.how).total.count * 1.0001);
        };
        at_most(tern::all_cpu{}.place(g, m));
        at_most(tern::first_fit{}.place(g, m));
        at_most(by_hand(g, m));
        for (std::size_t n = 0; n < 5; ++n) at_most(tern::layer_split{.layers = n}.place(g, m));
    }
}

TEST_CASE("plan/by_tensor: a large mixture on the presets, against layer split and experts on the host") {
    const tern::graph g = test::deep_mixture(96);
    for (const std::string name : {"rtx3060_laptop", "rtx4090_64g"})
        for (const bool fused : {true, false})
            for (const std::size_t tokens : {1, 512}) {
                CAPTURE(name);
                // What RAM does not hold is read from the disk, which no policy over two devices sees: it holds all.
                const tern::machine m = tern::machines::named(name)->with_budget<tern::pageable>(tern::unlimited);
                tern::by_tensor policy{tern::roofline(m)};
                if (fused) policy.options.how.shape.habits = tern::fused_engine;
                policy.options.how.shape.tokens = tokens;
                const auto price = [&](const tern::placement& p) {
                    return tern::estimate(g, p, m, policy.cost, policy.options.how);
                };
                const tern::placement mine = policy.place(g, m);
                tern::prediction split = price(tern::all_cpu{}.place(g, m));
                for (std::size_t n = 1; n <= 96; ++n) {
                    const tern::placement p = tern::layer_split{.layers = n}.place(g, m);
                    if (p.bytes_at(g, test::vram0) > m.room_at(test::vram0)) break;
                    const tern::prediction e = price(p);
                    if (e.total < split.total) split = e;
                }
                const tern::prediction hand = price(by_hand(g, m));
                const tern::prediction best = price(mine);
                MESSAGE(name << std::string(fused ? ", fused, " : ", ") << tokens << " tokens: by_tensor "
                             << best.total.count * 1e3 << " ms with " << best.switches << " switches, layer split "
                             << split.total.count * 1e3 << " ms with " << split.switches << ", by hand "
                             << hand.total.count * 1e3 << " ms with " << hand.switches);
                CHECK(best.total.count <= split.total.count * 1.01);
                CHECK(best.total.count <= hand.total.count * 1.02);
            }
}

TEST_CASE("plan/by_tensor: a mixture of 120 layers is planned within the budget") {
    const tern::graph g = test::deep_mixture(120);
    for (const std::uint64_t gib : {6, 24, 48, 90}) {
        tern::machine m = test::timed({gib << 30});
        const tern::by_tensor policy{tern::roofline(m, test::whole)};
        const auto begin = std::chrono::steady_clock::now();
        const tern::placement p = policy.place(g, m);
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
        MESSAGE("by_tensor, " << g.tensors.size() << " tensors of " << g.weight_bytes().count << " bytes in " << gib
                              << " GiB: " << took.count() << " ms, " << p.bytes_at(g, test::vram0).count
                              << " bytes placed");
        bool fits = p.bytes_at(g, test::vram0) <= m.room_at(test::vram0);
        CHECK(fits);
        // Nearly all of the room is used: what is rounded up wastes little.
        if ((gib << 30) < g.weight_bytes().count)
            CHECK(static_cast<double>(p.bytes_at(g, test::vram0).count) > 0.9 * static_cast<double>(gib << 30));
    }
}

TEST_CASE("plan/by_tensor: in a large graph too more budget and a faster link are never slower") {
    const tern::graph g = test::deep_mixture(24); // more than 128 units: small ones are joined
    double last = 1e300;
    for (std::uint64_t mib = 100; mib < 14'000; mib += mib / 3 + 37) {
        CAPTURE(mib);
        const tern::machine m = test::timed({mib << 20});
        const double now = predicted(tern::by_tensor{tern::roofline(m, test::whole)}, g, m);
        CHECK(now <= last * (1 + 1e-12));
        last = now;
    }
    last = 1e300;
    tern::machine m = test::timed({std::uint64_t{3} << 30});
    for (int faster = 0; faster < 6; ++faster) {
        for (tern::link& l : m.links) l.bandwidth = tern::bytes_per_second{l.bandwidth->count * 3};
        const double now = predicted(tern::by_tensor{tern::roofline(m, test::whole)}, g, m);
        CHECK(now <= last * (1 + 1e-12));
        last = now;
    }
}
