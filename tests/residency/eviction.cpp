#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/cache_simulation.hpp"
#include "support/data.hpp"
#include <tern/residency/eviction.hpp>

using tern::copy_usage;
using tern::test::hits_of;
using tern::test::routing_trace;

namespace {

/// A copy that came and was used at the given ticks.
copy_usage used_at(const tern::eviction_policy& policy, std::uint32_t slice, const std::vector<std::uint64_t>& ticks) {
    copy_usage usage{.slice = slice};
    policy.arrived(usage, ticks.front());
    for (const std::uint64_t tick : ticks) policy.used(usage, tick);
    return usage;
}

std::uint32_t victim(const tern::eviction_policy& policy, const std::vector<copy_usage>& cached, std::uint64_t now) {
    tern::victim_search search(policy, now);
    for (const copy_usage& usage : cached) search.offer(usage);
    REQUIRE(search.found() != nullptr);
    return search.found()->slice;
}

routing_trace zipf() { return tern::test::read_routing_trace(tern::test::source_file("tests/data/routing/zipf1.txt")); }

/// From the middle on, other experts are the popular ones.
routing_trace changing() {
    routing_trace trace = zipf();
    for (std::size_t i = trace.accesses.size() / 2; i < trace.accesses.size(); ++i) trace.accesses[i] ^= 63;
    return trace;
}

double half_life(const routing_trace& trace) { return tern::frequency::half_life_for(trace.slices); }

} // namespace

TEST_CASE("residency/eviction: what was leased and what arrived is noted") {
    const tern::lru policy;
    copy_usage usage{.bytes = 10, .slice = 3};
    policy.arrived(usage, 5);
    CHECK(usage.arrival == 5);
    CHECK(usage.last_use == 0);
    CHECK_FALSE(usage.used_since_arrival);
    policy.used(usage, 6);
    policy.used(usage, 8);
    CHECK(usage.last_use == 8);
    CHECK(usage.uses == 2);
    CHECK(usage.used_since_arrival);
    policy.arrived(usage, 20); // it had left, and comes back
    CHECK(usage.uses == 2);
    CHECK_FALSE(usage.used_since_arrival);
}

TEST_CASE("residency/eviction: a search that nothing was offered to finds nothing") {
    const tern::lru policy;
    CHECK(tern::victim_search(policy, 1).found() == nullptr);
}

TEST_CASE("residency/eviction: the lowest worth leaves, then the lowest last use, then the lowest id") {
    struct given final : tern::eviction_policy {
        std::string_view name() const noexcept override { return "given"; }
        double worth(const copy_usage& usage, std::uint64_t) const noexcept override { return usage.heat; }
    };
    const given policy;
    const copy_usage dear{.last_use = 1, .heat = 2, .slice = 1}, late{.last_use = 9, .heat = 1, .slice = 2};
    const copy_usage early{.last_use = 3, .heat = 1, .slice = 8}, same{.last_use = 3, .heat = 1, .slice = 5};
    CHECK(victim(policy, {dear, late}, 10) == 2);
    CHECK(victim(policy, {late, dear}, 10) == 2);
    CHECK(victim(policy, {dear, late, early}, 10) == 8);
    CHECK(victim(policy, {early, late, dear}, 10) == 8);
    CHECK(victim(policy, {early, same, late}, 10) == 5);
    CHECK(victim(policy, {same, early, late}, 10) == 5);
}

TEST_CASE("residency/eviction: lru lets the least recently used go, and what has just arrived stay") {
    const tern::lru policy;
    const copy_usage often = used_at(policy, 1, {1, 2, 3, 4}), once = used_at(policy, 2, {5});
    CHECK(victim(policy, {often, once}, 6) == 1);
    copy_usage prefetched{.slice = 3};
    policy.arrived(prefetched, 6);
    CHECK(victim(policy, {once, prefetched}, 7) == 2);
}

TEST_CASE("residency/eviction: frequency halves the weight of a use in each half-life") {
    const tern::frequency policy(10);
    const copy_usage once = used_at(policy, 1, {100}), thrice = used_at(policy, 2, {80, 90, 100});
    CHECK(policy.worth(once, 100) == 1);
    CHECK(policy.worth(once, 110) == 0.5);
    CHECK(policy.worth(once, 120) == 0.25);
    CHECK(policy.worth(thrice, 100) == 1.75); // 1/4 + 1/2 + 1
    CHECK(policy.worth(thrice, 110) == 0.875);
    // Against the sum over all uses, at odd ages.
    const copy_usage many = used_at(policy, 3, {1, 4, 5, 17, 33});
    double sum = 0;
    for (const double tick : {1, 4, 5, 17, 33}) sum += std::exp2(-(47 - tick) / 10);
    CHECK(policy.worth(many, 47) == doctest::Approx(sum).epsilon(1e-12));
}

TEST_CASE("residency/eviction: frequency keeps what was often used, until that is long ago") {
    const tern::frequency policy(10);
    const copy_usage often = used_at(policy, 1, {1, 2, 3, 4}), once = used_at(policy, 2, {20});
    CHECK(victim(policy, {often, once}, 20) == 2); // 4 uses, each of a weight of some 0.3
    const copy_usage later = used_at(policy, 2, {40});
    CHECK(victim(policy, {often, later}, 40) == 1);
    // Counts so old that they are 0 leave in order of their last use.
    const copy_usage older = used_at(policy, 4, {1}), old = used_at(policy, 3, {2});
    CHECK(policy.worth(old, 1'000'000) == 0);
    CHECK(victim(policy, {old, older}, 1'000'000) == 4);
}

TEST_CASE("residency/eviction: frequency counts a copy's use ahead, and its history while it was away") {
    const tern::frequency policy(10);
    copy_usage prefetched{.slice = 1};
    policy.arrived(prefetched, 30);
    CHECK(policy.worth(prefetched, 30) == 1);
    CHECK(policy.worth(prefetched, 40) == 0.5);
    CHECK(victim(policy, {prefetched, used_at(policy, 2, {29})}, 31) == 2);
    policy.used(prefetched, 40);
    CHECK(policy.worth(prefetched, 40) == 1); // the same use, not two
    copy_usage back = used_at(policy, 3, {20, 30});
    policy.arrived(back, 40);
    CHECK(policy.worth(back, 40) == 1.75);
}

TEST_CASE("residency/eviction: a half-life is a number above 0") {
    for (const double wrong : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
        CHECK_THROWS_AS(tern::frequency{wrong}, tern::config_error);
}

TEST_CASE("residency/eviction: with an endless half-life frequency counts uses") {
    const tern::frequency policy(std::numeric_limits<double>::infinity());
    CHECK(policy.worth(used_at(policy, 1, {1, 2, 1000}), 1'000'000) == 3);
}

TEST_CASE("residency/eviction: pinned slices stay as long as anything else can leave") {
    const tern::pinned_set policy({7, 2});
    const copy_usage pinned = used_at(policy, 2, {1}), too = used_at(policy, 7, {2});
    const copy_usage recent = used_at(policy, 3, {900}), older = used_at(policy, 4, {800});
    CHECK(victim(policy, {pinned, too, recent, older}, 901) == 4);
    CHECK(victim(policy, {recent, pinned, too}, 901) == 3);
    CHECK(victim(policy, {too, pinned}, 901) == 2);
    const std::uint64_t late = std::uint64_t{1} << 50; // the order stays exact
    CHECK(victim(policy, {used_at(policy, 3, {late}), used_at(policy, 4, {late - 1}), pinned}, late) == 4);
}

TEST_CASE("residency/eviction: a policy is made by name") {
    for (const std::string name : {"lru", "frequency", "pinned_set"}) CHECK(tern::make_eviction(name)->name() == name);
    const auto pinned = tern::make_eviction("pinned_set", {.pinned = {1}});
    CHECK(victim(*pinned, {used_at(*pinned, 1, {1}), used_at(*pinned, 2, {5})}, 6) == 2);
    const auto aged = tern::make_eviction("frequency", {.half_life = 2});
    CHECK(aged->worth(used_at(*aged, 1, {1}), 3) == 0.5);
    CHECK_THROWS_WITH_AS(tern::make_eviction("fifo"),
                         "there is no eviction policy \"fifo\": lru, frequency or pinned_set", tern::config_error);
}

TEST_CASE("residency/eviction: the simulation counts what can be counted by hand") {
    const routing_trace trace{3, {0, 1, 2, 0, 1, 0}};
    CHECK(tern::test::hits_of_lru_list(trace, 2) == 1);   // the last 0
    CHECK(hits_of(tern::lru{}, trace, 2) == 1);           //
    CHECK(tern::test::hits_of_belady(trace, 2) == 2);     // 2 takes the place of 1, then 1 that of 2
    CHECK(tern::test::hits_of_belady(trace, 3) == 3);     // each comes once
    CHECK(hits_of(tern::pinned_set({0}), trace, 2) == 2); // every later 0
    CHECK(tern::test::most_frequent(trace, 2, 6) == std::vector<std::uint32_t>{0, 1});
    CHECK(tern::test::most_frequent(trace, 1, 0) == std::vector<std::uint32_t>{0});
}

TEST_CASE("residency/eviction: lru hits exactly as often as a list of recent slices, and no policy more than Belady") {
    const routing_trace trace = zipf();
    REQUIRE(trace.slices == 256);
    REQUIRE(trace.accesses.size() == 32000);
    for (const std::size_t capacity : {std::size_t{1}, std::size_t{16}, trace.slices / 4, trace.slices / 2}) {
        CAPTURE(capacity);
        const std::size_t best = tern::test::hits_of_belady(trace, capacity);
        CHECK(hits_of(tern::lru{}, trace, capacity) == tern::test::hits_of_lru_list(trace, capacity));
        CHECK(hits_of(tern::lru{}, trace, capacity) <= best);
        CHECK(hits_of(tern::frequency{half_life(trace)}, trace, capacity) <= best);
    }
    CHECK(hits_of(tern::lru{}, trace, trace.slices) == trace.accesses.size() - trace.slices); // each arrives once
}

// Draws are independent, so what was seen tells of the future nothing but how popular each expert is: no policy can
// expect more hits than the one that keeps the most popular experts and leaves one place for the rest (Aho, Denning,
// Ullman, "Principles of optimal page replacement", 1971). That one reaches 0.60 of what Belady's optimum, which knows
// the draws, saves over lru; to pass it takes a look ahead, not a better order of leaving.
TEST_CASE("residency/eviction: frequency comes near to the best set in hindsight, and pinning a measured set too") {
    const routing_trace trace = zipf();
    const std::size_t capacity = trace.slices / 4, all = trace.accesses.size();
    const auto least = static_cast<double>(tern::test::hits_of_lru_list(trace, capacity));
    const auto most = static_cast<double>(tern::test::hits_of_belady(trace, capacity));
    const auto share = [&](const tern::eviction_policy& policy, const std::string& what, std::size_t tokens_ahead = 0) {
        const auto hits = static_cast<double>(hits_of(policy, trace, capacity, 16 * tokens_ahead));
        const double reached = (hits - least) / (most - least);
        MESSAGE(what, ": hits ", hits / static_cast<double>(all), ", of Belady's saving over lru ", reached);
        return reached;
    };
    MESSAGE("lru: hits ", least / static_cast<double>(all), "; Belady: ", most / static_cast<double>(all));
    const double hindsight =
        share(tern::pinned_set{tern::test::most_frequent(trace, capacity - 1, all)}, "the best set in hindsight");
    const double warm = share(tern::pinned_set{tern::test::most_frequent(trace, capacity - 1, all / 4)},
                              "pinned_set, the most frequent of the first quarter");
    const double aged = share(tern::frequency{half_life(trace)}, "frequency");
    const double slower = share(tern::frequency{4 * half_life(trace)}, "frequency, four half-lives");
    const double faster = share(tern::frequency{half_life(trace) / 16}, "frequency, a sixteenth of the half-life");
    const double four = share(tern::frequency{half_life(trace)}, "frequency, with four tokens known ahead", 4);
    const double sixteen = share(tern::frequency{half_life(trace)}, "frequency, with 16 tokens known ahead", 16);
    CHECK(hindsight > 0.55);
    CHECK(hindsight < 0.65);
    CHECK(warm > 0.9 * hindsight);
    CHECK(aged > 0.9 * hindsight);
    CHECK(slower > 0.9 * hindsight);
    CHECK(aged < hindsight);
    CHECK(faster < aged);
    CHECK(four > 0.7);
    CHECK(sixteen > 0.95);
}

TEST_CASE("residency/eviction: frequency follows a popularity that changes, a plain count does not") {
    const routing_trace trace = changing();
    const std::size_t capacity = trace.slices / 4;
    const auto hits = [&](const tern::eviction_policy& policy) { return hits_of(policy, trace, capacity); };
    const std::size_t aged = hits(tern::frequency{half_life(trace)});
    const std::size_t count = hits(tern::frequency{std::numeric_limits<double>::infinity()});
    const std::size_t recent = hits(tern::lru{});
    MESSAGE("of ", trace.accesses.size(), " accesses: frequency ", aged, ", a plain count ", count, ", lru ", recent);
    CHECK(aged > count + trace.accesses.size() / 50);
    CHECK(aged > recent + trace.accesses.size() / 50);
}
