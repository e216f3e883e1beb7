#include <tern/plan/brought.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include <tern/plan/all_cpu.hpp>

#include "support.hpp"

namespace test = tern::test;

TEST_CASE("plan/brought: experts on the host are cached, those that are placed stay") {
    const tern::graph g = test::mixture();
    const tern::machine m = test::with({1 << 20});
    tern::placement p = tern::all_cpu{}.place(g, m);
    for (std::size_t t = 0; t < g.tensors.size(); ++t)
        if (g.tensors[t].name == "1.gate" || g.tensors[t].name == "1.up" || g.tensors[t].name == "1.down")
            p.tensors[t] = {test::vram0, "placed", {}};
    REQUIRE(tern::bring_experts(p, g, tern::tier_of<tern::mapped>, test::vram0, {200'000}, tern::on_miss::split));
    CHECK(test::sound(p, g, m));
    CHECK(p.pool_at(test::vram0).count == 200'000);
    CHECK(p.misses == tern::on_miss::split);
    CHECK(p.fill);
    for (std::size_t t = 0; t < g.tensors.size(); ++t) {
        CAPTURE(g.tensors[t].name);
        const bool cached = g.tensors[t].name.substr(0, 2) == "0." && g.tensors[t].shape.experts > 1;
        CHECK(p.tensors[t].streamed() == cached);
        if (cached) CHECK(p.tensors[t].stay == tern::retention::cache);
    }
    CHECK(!tern::bring_experts(p, g, tern::tier_of<tern::mapped>, test::vram0, {1}, tern::on_miss::fetch)); // none left
    CHECK(p.pools.size() == 1);
    // 16 KiB in 24 slices and 64 each for the alignment, and the pool.
    CHECK(tern::detail::taken_at(p, g, test::vram0).count == 3 * 8 * (16384 + 64) + 200'000);
}

TEST_CASE("plan/brought: a share of the groups is brought, evenly, groups whole and no embedding") {
    const tern::graph g = test::layers(); // groups of 64, 2000 and 600 bytes a layer; the table is the output
    const tern::machine m = test::with({1 << 20});
    std::uint64_t last = 0;
    for (const double share : {0.25, 0.5, 0.75, 1.0}) {
        CAPTURE(share);
        tern::placement p = tern::all_cpu{}.place(g, m);
        REQUIRE(tern::bring_share(p, g, tern::tier_of<tern::mapped>, test::vram0, {6000}, share, tern::on_miss::fetch));
        CHECK(test::sound(p, g, m));
        std::uint64_t brought = 0;
        for (std::size_t t = 0; t < g.tensors.size(); ++t)
            if (p.tensors[t].streamed()) brought += g.tensors[t].size().count;
        for (const tern::graph_node& node : g.nodes)
            for (const std::size_t t : node.tensors)
                CHECK(p.tensors[t].streamed() == p.tensors[node.tensors.front()].streamed());
        CHECK(!p.tensors[0].streamed());
        CHECK(!p.misses.has_value());
        const double all = 3 * 2664; // the nearest that whole groups allow: half of the largest beside
        CHECK(static_cast<double>(brought) == doctest::Approx(share * all).epsilon(1100 / (share * all)));
        CHECK(brought > last);
        last = brought;
    }
    CHECK(last == 3 * 2664);
}

TEST_CASE("plan/brought: a window holds two groups, or twice the experts of a token") {
    CHECK(tern::least_window(test::layers(), test::vram0).count == 2 * (2000 + 2 * 64));
    // Two experts of three matrices of 16 KiB, twice; an output of 64 KiB is less.
    CHECK(tern::least_window(test::mixture(), test::vram0).count == 2 * 2 * 3 * (16384 + 64));
}

TEST_CASE("plan/brought: a group that is torn goes back to the host whole") {
    const tern::graph g = test::layers();
    const tern::placement host = tern::all_cpu{}.place(g, {});
    tern::placement p = host;
    p.tensors[2].where = test::vram0; // the gate without its up
    p.tensors[6].where = test::vram0; // both of the next layer
    p.tensors[7].where = test::vram0;
    p.tensors[1].where = test::vram0; // a norm alone
    REQUIRE(g.tensors[6].name == "1.gate");
    tern::detail::keep_groups_whole(p, g, test::vram0, host);
    CHECK(p.tensors[2].where == test::mapped0);
    CHECK(p.tensors[6].where == test::vram0);
    CHECK(p.tensors[7].where == test::vram0);
    CHECK(p.tensors[1].where == test::vram0);
}
