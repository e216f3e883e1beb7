#include <tern/plan/first_fit.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "support.hpp"

namespace test = tern::test;

TEST_CASE("plan/first_fit: never beyond the budget less its headroom, groups whole, more with more") {
    const tern::graph g = test::layers();
    std::uint64_t before = 0;
    for (std::uint64_t budget = 0; budget < 12000; budget += 37) {
        CAPTURE(budget);
        const tern::machine m = test::with({budget});
        const tern::placement p = tern::first_fit{}.place(g, m);
        tern::check(p, g, m);
        REQUIRE(p.tensors.size() == g.tensors.size());
        const std::uint64_t placed = p.bytes_at(g, test::vram0).count;
        CHECK(placed + (placed == 0 ? 0 : 500) <= budget); // a quarter more than the peak of 400 stays free
        before = placed > before ? placed : before;
        for (std::size_t i = 0; i < g.tensors.size(); ++i) {
            if (g.tensors[i].name.find("gate") == std::string::npos) continue;
            CHECK(p.tensors[i].where == p.tensors[i + 1].where);
        }
        for (const tern::placed_tensor& t : p.tensors) CHECK(!t.reason.empty());
    }
    CHECK(before == g.weight_bytes().count); // the tied table too, for the output
    CHECK(tern::first_fit{.headroom = {11000}}.place(g, test::with({11000})).bytes_at(g, test::vram0).count == 0);
    CHECK(tern::first_fit{.headroom = {1}}.place(g, test::with({130})).bytes_at(g, test::vram0).count == 64);
}

TEST_CASE("plan/first_fit: a table that is only looked up stays, as does what its type does not allow there") {
    tern::graph g = test::layers();
    g.nodes.pop_back();
    g.tensors[2].allowed = {tern::tier_of<tern::mapped>}; // the first gate: its group stays with it
    const tern::placement p = tern::first_fit{.rest = tern::tier_of<tern::pageable>}.place(g, test::with({1 << 20}));
    CHECK(p.tensors[0].where == test::pageable0);
    CHECK(p.tensors[1].where == test::vram0);
    CHECK(p.tensors[2].where == test::mapped0);
    CHECK(p.tensors[3].where == test::pageable0);
    CHECK(p.tensors[3].reason.find("does not allow vram:0") != std::string::npos);
    CHECK(p.policy == "first_fit");
}
