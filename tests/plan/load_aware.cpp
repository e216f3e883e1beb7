#include <tern/plan/load_aware.hpp>

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include <doctest/doctest.h>

namespace {

using item = tern::load_item;

item on_host(double host, double device, double bring, double to_host = 0, double to_device = 0) {
    return {{host}, {device}, {bring}, {to_host}, {to_device}, false, true};
}
item on_device(double device, double to_host = 0, double to_device = 0) {
    return {{1e9}, {device}, {0}, {to_host}, {to_device}, true, true};
}

/// One round, event by event: the link brings the next loaded item from when the one before began to compute.
double simulate(const std::vector<item>& items, const std::vector<bool>& loaded, double departure) {
    double now = 0;
    double link_may_begin = 0;
    bool there = false; // where the last result is
    for (std::size_t i = 0; i < items.size(); ++i) {
        const bool here = items[i].resident || loaded[i];
        if (here != there) now += here ? items[i].to_device.count : items[i].to_host.count;
        if (loaded[i]) {
            now = std::max(now, link_may_begin + items[i].bring.count);
            link_may_begin = now;
        }
        now += here ? items[i].device.count : items[i].host.count;
        there = here;
    }
    return there ? now + departure : now;
}

double best_of_all(const std::vector<item>& items, double departure) {
    double best = 1e300;
    for (std::size_t mask = 0; mask < std::size_t{1} << items.size(); ++mask) {
        std::vector<bool> loaded(items.size());
        bool allowed = true;
        for (std::size_t i = 0; i < items.size(); ++i) {
            loaded[i] = (mask >> i & 1) != 0;
            allowed = allowed && (!loaded[i] || (!items[i].resident && items[i].loadable));
        }
        if (allowed) best = std::min(best, simulate(items, loaded, departure));
    }
    return best;
}

} // namespace

TEST_CASE("plan/load_aware: deviation is the sum of differences over what was planned") {
    const std::vector<tern::seconds> planned{{1.0}, {3.0}};
    CHECK(tern::deviation(planned, std::vector<tern::seconds>{{1.5}, {2.5}}) == doctest::Approx(0.25));
    CHECK(tern::deviation(planned, planned) == 0);
    CHECK(tern::deviation({}, {}) == 0);
    const std::vector<tern::seconds> zero{{0.0}};
    CHECK(tern::deviation(zero, zero) == 0);
    CHECK(tern::deviation(zero, std::vector<tern::seconds>{{1.0}}) > 1e300);
    CHECK_THROWS_AS(tern::deviation(planned, zero), tern::config_error);
    CHECK_THROWS_AS(tern::deviation(zero, std::vector<tern::seconds>{{-1.0}}), tern::config_error);
    CHECK_THROWS_AS(tern::deviation(zero, std::vector<tern::seconds>{{0.0 / 0.0}}), tern::config_error);
}

TEST_CASE("plan/load_aware: a plan is due after five tokens, from fifteen per cent on") {
    const std::vector<tern::seconds> planned{{1.0}, {1.0}};
    const std::vector<tern::seconds> slow{{1.25}, {1.125}};  // 18.75%
    const std::vector<tern::seconds> fine{{1.125}, {1.125}}; // 12.5%
    CHECK(tern::replan_due(planned, slow, {2}, {10}));
    CHECK(!tern::replan_due(planned, slow, {2}, {9.99}));
    CHECK(!tern::replan_due(planned, fine, {2}, {100}));
    CHECK(tern::replan_due(planned, fine, {2}, {4}, {.deviation = 0.125, .tokens = 2}));
    CHECK(!tern::replan_due(planned, fine, {2}, {3.9}, {.deviation = 0.125, .tokens = 2}));
}

TEST_CASE("plan/load_aware: a transfer hides behind what computes before it") {
    // Without loading 10 + 10 + 10. The third one's weights (8) come while the first two compute.
    std::vector<item> items{on_host(10, 1, 100), on_host(10, 1, 100), on_host(10, 1, 8)};
    tern::load_plan p = tern::plan_loads(items);
    CHECK(p.loaded == std::vector<unsigned char>{0, 0, 1});
    CHECK(p.total.count == doctest::Approx(21));
    CHECK(p.exposed.count == doctest::Approx(0));
    // 25 to bring: 5 of it are waited for, which still is better than 10 on the host.
    items[2].bring = {25};
    p = tern::plan_loads(items);
    CHECK(p.total.count == doctest::Approx(26));
    CHECK(p.exposed.count == doctest::Approx(5));
    items[2].bring = {29.5}; // 30.5 in all: not worth it
    p = tern::plan_loads(items);
    CHECK(p.loaded == std::vector<unsigned char>{0, 0, 0});
    CHECK(p.total.count == doctest::Approx(30));
}

TEST_CASE("plan/load_aware: switches are paid, and the last result goes home") {
    // In the middle of the host's: 10 saved 9 by loading, and both switches cost 5.
    const std::vector<item> items{on_host(10, 1, 100, 5, 5), on_host(10, 1, 0, 5, 5), on_host(10, 1, 100, 5, 5)};
    CHECK(tern::plan_loads(items).total.count == doctest::Approx(30));
    // Between two that live on the device it saves them.
    std::vector<item> between{on_device(1, 5, 5), on_host(10, 1, 0, 5, 5), on_device(1, 5, 5)};
    const tern::load_plan p = tern::plan_loads(between);
    CHECK(p.loaded == std::vector<unsigned char>{0, 1, 0});
    CHECK(p.total.count == doctest::Approx(5 + 1 + 1 + 1));
    CHECK(tern::plan_loads(between, {2}).total.count == doctest::Approx(10));
    between[1].loadable = false;
    CHECK(tern::plan_loads(between).total.count == doctest::Approx(5 + 1 + 5 + 10 + 5 + 1));
    CHECK(tern::plan_loads({}).total.count == 0);
}

TEST_CASE("plan/load_aware: the best of all choices, on random rounds") {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> unit(0, 1);
    for (int round = 0; round < 300; ++round) {
        CAPTURE(round);
        std::vector<item> items(1 + random() % 9);
        for (item& i : items) {
            i = on_host(10 * unit(random), 2 * unit(random), 12 * unit(random), unit(random), unit(random));
            i.resident = random() % 3 == 0;
            i.loadable = random() % 5 != 0;
        }
        const double departure = unit(random);
        const tern::load_plan p = tern::plan_loads(items, {departure});
        CHECK(p.total.count == doctest::Approx(best_of_all(items, departure)));
        CHECK(p.total.count == doctest::Approx(simulate(items, {p.loaded.begin(), p.loaded.end()}, departure)));
        CHECK(p.exposed.count >= -1e-9);
        for (std::size_t i = 0; i < items.size(); ++i)
            CHECK((p.loaded[i] == 0 || (!items[i].resident && items[i].loadable)));
    }
}
