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
    const std::uint64_t needed = g.tensors[4].size().count;
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
