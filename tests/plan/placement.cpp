#include <tern/plan/placement.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/plan/all_cpu.hpp>
#include <tern/plan/first_fit.hpp>

#include "support.hpp"

namespace test = tern::test;

namespace {

// The policy of the doc comment.
struct everything_mapped {
    static constexpr std::string_view name = "everything_mapped";
    tern::placement place(const tern::graph& g, const tern::machine&) const {
        return {name, std::vector<tern::placed_tensor>(g.tensors.size(), {{tern::tier_of<tern::mapped>}, "mine"})};
    }
};
static_assert(tern::placement_policy<everything_mapped>);

struct without_name {
    tern::placement place(const tern::graph&, const tern::machine&) const { return {}; }
};
struct not_const {
    static constexpr std::string_view name = "not_const";
    tern::placement place(const tern::graph&, const tern::machine&) { return {}; }
};
struct a_list {
    static constexpr std::string_view name = "a_list";
    std::vector<tern::placed_tensor> place(const tern::graph&, const tern::machine&) const { return {}; }
};
static_assert(!tern::placement_policy<without_name> && !tern::placement_policy<not_const>);
static_assert(!tern::placement_policy<a_list> && !tern::placement_policy<int>);

} // namespace

TEST_CASE("plan/placement: a user's policy passes the check") {
    const tern::graph g = test::layers();
    const tern::placement p = everything_mapped{}.place(g, test::with({}));
    tern::check(p, g, test::with({}));
    CHECK(p.bytes_at(g, test::mapped0) == g.weight_bytes());
    CHECK(p.bytes_at(g, test::vram0) == tern::bytes{});
    CHECK(g.weight_bytes() == tern::bytes{2000 + 3 * (64 + 2000 + 600)});
}

TEST_CASE(
    "plan/placement: check refuses too few decisions, a forbidden tier, a full memory and one that is not there") {
    tern::graph g = test::layers();
    tern::placement p = everything_mapped{}.place(g, test::with({}));
    p.tensors.pop_back();
    CHECK_THROWS_AS(tern::check(p, g, test::with({})), tern::config_error);

    p = everything_mapped{}.place(g, test::with({}));
    g.tensors[4].allowed = {tern::tier_of<tern::vram>, tern::tier_of<tern::pageable>};
    try {
        tern::check(p, g, test::with({}));
        FAIL("mapped is not allowed");
    } catch (const tern::config_error& e) {
        CHECK(e.tensor() == g.tensors[4].name);
        CHECK(std::string(e.what()).find("vram, pageable") != std::string::npos);
    }

    p.tensors[4].where = test::vram0;
    const std::uint64_t needed = 640 + 500; // 600 bytes in units of 64, and the activations
    tern::check(p, g, test::with({needed}));
    try {
        tern::check(p, g, test::with({needed - 1}));
        FAIL("it does not fit");
    } catch (const tern::budget_error& e) {
        CHECK(e.needed() == needed);
        CHECK(e.available() == needed - 1);
    }

    p.tensors[4].where = {tern::tier_of<tern::vram>, 1, 0};
    try {
        tern::check(p, g, test::with({1 << 20}));
        FAIL("there is no second device");
    } catch (const tern::config_error& e) {
        CHECK(e.tensor() == g.tensors[4].name);
        CHECK(std::string(e.what()).find("vram:1") != std::string::npos);
    }
}

TEST_CASE("plan/placement: streamed weights need a place that their types allow, and room for the largest") {
    tern::graph g = test::layers();
    const tern::machine m = test::with({1500}); // 500 of them for activations
    tern::placement p{"mine", {}, {{.where = test::vram0, .limit = {1000}}}};
    p.tensors.assign(g.tensors.size(), {test::direct0, "mine", test::vram0});
    p.tensors[0] = {test::mapped0, "mine", {}};
    tern::check(p, g, m);
    for (const std::uint64_t limit : {999u, 64u}) {
        p.pools[0].limit = {limit};
        try {
            tern::check(p, g, m);
            FAIL("the largest does not fit");
        } catch (const tern::budget_error& e) {
            CHECK(e.tensor() == "0.gate");
            CHECK(e.needed() == 1000u);
            CHECK(e.available() == limit);
            CHECK(std::string(e.what()).find("vram:0") != std::string::npos);
        }
    }
    p.pools.clear(); // no pool is no room
    CHECK_THROWS_AS(tern::check(p, g, m), tern::budget_error);
    p.pools = {{.where = test::vram0, .limit = {1001}}}; // more than there is
    CHECK_THROWS_AS(tern::check(p, g, m), tern::budget_error);
    p.pools[0].limit = {1000};
    CHECK_THROWS_AS(tern::check(p, g, m.with_reserved(test::vram0, {1})), tern::budget_error);

    p.tensors[2].computes = tern::location{tern::tier_of<tern::vram>, 1, 0};
    CHECK_THROWS_AS(tern::check(p, g, m), tern::error); // no pool there, and no such device
    p.tensors[2].computes = test::vram0;
    g.tensors[2].allowed = {tern::tier_of<tern::direct>};
    CHECK_THROWS_AS(tern::check(p, g, m), tern::config_error); // its type forbids where it would be computed
    g.tensors[2].allowed = test::anywhere();
    p.tensors[2].computes.reset();
    try {
        tern::check(p, g, m);
        FAIL("nothing computes in direct");
    } catch (const tern::config_error& e) {
        CHECK(e.tensor() == "0.gate");
        CHECK(std::string(e.what()).find("direct") != std::string::npos);
    }
}

TEST_CASE("plan/placement: weights and pools share a memory with what is reserved, and unlimited memory holds all") {
    const tern::graph g = test::layers();
    tern::placement p{"mine", {}, {{.where = test::vram0, .limit = {1000}}}};
    p.tensors.assign(g.tensors.size(), {test::direct0, "mine", test::vram0});
    p.tensors[1] = {test::vram0, "mine", {}}; // 64 bytes
    p.tensors[0] = {test::mapped0, "mine", {}};
    const tern::machine m = test::with({1600}).with_reserved(test::vram0, {36}); // 500 for activations
    tern::check(p, g, m);
    try {
        tern::check(p, g, m.with_reserved(test::vram0, {1}));
        FAIL("it is one byte short");
    } catch (const tern::budget_error& e) {
        CHECK(e.needed() == 1601u);
        CHECK(e.available() == 1600u);
    }
    p.pools[0].limit = tern::unlimited;
    tern::check(p, g, test::with(tern::unlimited).with_reserved(test::vram0, {36}));
    CHECK(p.pool_at(test::vram0) == tern::unlimited);
    CHECK(p.pool_at(test::pageable0) == tern::bytes{});
    CHECK(p.bytes_at(g, test::vram0) == tern::bytes{64}); // not what is brought there
}

TEST_CASE("plan/placement: what direct reads bring to RAM needs room for whole pages") {
    tern::graph g;
    test::add(g, "large", 100'000, test::anywhere());
    tern::placement p{"mine", {{test::direct0, "mine", test::pageable0}}, {{.where = test::pageable0}}};
    p.pools[0].limit = {100'000 + 2 * 4096};
    tern::check(p, g, test::with({}));
    p.pools[0].limit = {100'000 + 2 * 4096 - 1};
    try {
        tern::check(p, g, test::with({}));
        FAIL("a page may be missing");
    } catch (const tern::budget_error& e) { CHECK(e.needed() == 100'000u + 2 * 4096); }
    p.tensors[0].where = test::mapped0;
    tern::check(p, g, test::with({}));
}

TEST_CASE("plan/placement: what stays takes whole units of its memory, and activations room where operators compute") {
    tern::graph g;
    test::add(g, "experts", 65'536, test::anywhere(), 2);
    test::add(g, "small", 1'000, test::anywhere());
    g.activation_peak = {8'000}; // and a quarter more
    const auto needed = [&](tern::location where, tern::bytes vram, tern::bytes ram) {
        const tern::placement p{"mine", {{where, "mine", {}}, {where, "mine", {}}}};
        tern::machine m = test::with(vram, ram);
        m.memories.push_back({.where = test::pinned0, .budget = tern::unlimited, .in_ram = true});
        try {
            tern::check(p, g, m);
        } catch (const tern::budget_error& e) { return e.needed().value_or(0); }
        return std::uint64_t{0};
    };
    CHECK(needed(test::vram0, {1}, tern::unlimited) == 2 * 65'536 + 1'024 + 10'000);
    // The page that direct reads bring before a slice, and the rest of its last one.
    CHECK(needed(test::pageable0, {}, {1}) == 2 * (65'536 + 4'096) + 1'000 + 10'000);
    // Locked pages are RAM too.
    CHECK(needed(test::pinned0, {}, {1}) == 2 * (65'536 + 4'096) + 4'096 + 10'000);
}
