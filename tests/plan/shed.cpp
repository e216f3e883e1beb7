#include <tern/plan/shed.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cost_support.hpp"

namespace test = tern::test;

namespace {

/// All of a graph in vram, but for a table that is only looked up.
tern::placement all_there(const tern::graph& g) {
    tern::placement p = tern::all_cpu{}.place(g, {});
    for (std::size_t t = 0; t < g.tensors.size(); ++t) p.tensors[t].where = test::vram0;
    return p;
}

std::string left(const tern::placement& p, const tern::graph& g) {
    std::string names;
    for (std::size_t t = 0; t < g.tensors.size(); ++t)
        if (p.tensors[t].where == test::vram0) names += g.tensors[t].name + " ";
    return names;
}

} // namespace

TEST_CASE("plan/shed: the last placed leave first, groups whole, until enough is free") {
    const tern::graph g = test::layers();
    const tern::placement p = all_there(g);
    const auto after = [&](std::uint64_t need) {
        return left(tern::shed(p, g, test::vram0, tern::tier_of<tern::mapped>, {need}), g);
    };
    const std::string first = "table 0.norm 0.gate 0.up 0.down 1.norm 1.gate 1.up 1.down ";
    CHECK(after(0) == first + "2.norm 2.gate 2.up 2.down ");
    CHECK(after(1) == first + "2.norm 2.gate 2.up ");
    CHECK(after(600) == first + "2.norm 2.gate 2.up ");
    CHECK(after(601) == first + "2.norm ");
    CHECK(after(2664) == first);
    CHECK(after(3 * 2664 + 1) == "");
    const tern::placement q = tern::shed(p, g, test::vram0, tern::tier_of<tern::pageable>, {601});
    CHECK(test::of(q, g, "2.gate").where == test::pageable0);
    CHECK(test::of(q, g, "2.gate").reason == "it left vram:0 for a longer context");
    CHECK_THROWS_AS(tern::shed(p, g, test::vram0, tern::tier_of<tern::mapped>, g.weight_bytes() + tern::bytes{1}),
                    tern::budget_error);
}

TEST_CASE("plan/shed: those leave first that gain least for a byte") {
    const tern::graph g = test::layers();
    const tern::placement p = all_there(g);
    std::vector<double> gains(g.tensors.size(), 1.0);
    for (std::size_t t = 0; t < g.tensors.size(); ++t) {
        if (g.tensors[t].name == "0.gate" || g.tensors[t].name == "0.up") gains[t] = 0.1; // 2000 bytes
        if (g.tensors[t].name == "1.down") gains[t] = 0.06;                               // 600 bytes: a little more
    }
    const tern::tier_info to = tern::tier_of<tern::mapped>;
    tern::placement q = tern::shed(p, g, test::vram0, to, {1}, gains);
    CHECK(test::of(q, g, "0.gate").where == test::mapped0);
    CHECK(test::of(q, g, "0.up").where == test::mapped0);
    CHECK(test::of(q, g, "1.down").where == test::vram0);
    q = tern::shed(p, g, test::vram0, to, {2001}, gains);
    CHECK(test::of(q, g, "1.down").where == test::mapped0);
    CHECK_THROWS_AS(tern::shed(p, g, test::vram0, to, {1}, std::vector<double>{1.0}), tern::config_error);

    // By a cost model: 10 us less 2 for a byte that is 1000 of 1 GB/s and 10 GB/s there.
    const tern::machine m = test::timed({1 << 20});
    const std::vector<double> priced =
        tern::gains_of(g, m, tern::roofline(m, test::whole), {}, test::vram0, test::mapped0);
    const tern::placement_chain chain(g, m, tern::roofline(m, test::whole), {}, test::vram0, test::mapped0);
    for (const tern::fusion_unit& u : chain.units())
        for (const std::size_t t : u.tensors) CHECK(priced[t] == u.host_time - u.device_time);
}

TEST_CASE("plan/shed: when no weight is left, rooms for others shrink, not below what they need") {
    const tern::graph g = test::mixture();
    tern::placement p = tern::all_cpu{}.place(g, {});
    tern::bring_experts(p, g, tern::tier_of<tern::mapped>, test::vram0, {300'000}, tern::on_miss::fetch);
    const std::uint64_t window = tern::least_window(g, test::vram0).count;
    const tern::placement q = tern::shed(p, g, test::vram0, tern::tier_of<tern::mapped>, {300'000 - window});
    CHECK(q.pool_at(test::vram0).count == window);
    CHECK_THROWS_AS(tern::shed(p, g, test::vram0, tern::tier_of<tern::mapped>, {300'001 - window}), tern::budget_error);
}
