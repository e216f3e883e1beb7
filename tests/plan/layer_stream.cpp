#include <tern/plan/layer_stream.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "support.hpp"

namespace test = tern::test;
using namespace tern::literals;

namespace {

/// As many layers as make `total` bytes about, each of one matrix of `size`, and a norm.
tern::graph stack(std::size_t count, std::uint64_t size) {
    tern::graph g;
    for (std::size_t i = 0; i < count; ++i) {
        const std::string blk = std::to_string(i) + ".";
        g.nodes.push_back({"rms_norm", {test::add(g, blk + "norm", 256, test::anywhere())}, 1, 16, 0, i});
        g.nodes.push_back({"linear", {test::add(g, blk + "matrix", size, test::anywhere())}, 1, 16, 0, i});
    }
    g.activation_peak = {4000};
    return g;
}

std::size_t streamed(const tern::placement& p) {
    std::size_t n = 0;
    for (const tern::placed_tensor& t : p.tensors) n += t.streamed();
    return n;
}

} // namespace

TEST_CASE("plan/layer_stream: over all budgets it fits or the check says what is missing, and enough streams nothing") {
    const tern::graph g = stack(12, 100'000);
    for (const bool accelerator : {true, false}) {
        CAPTURE(accelerator);
        const tern::location to = accelerator ? test::vram0 : test::pageable0;
        bool fitted = false;
        bool complete = false;
        for (std::uint64_t budget = 1; budget < 1'600'000; budget += 13'331) {
            CAPTURE(budget);
            const tern::machine m = accelerator ? test::with({budget}) : test::with({}, {budget});
            const tern::placement p = tern::layer_stream{}.place(g, m);
            try {
                const bool sound = test::sound(p, g, m);
                CHECK(sound);
                fitted = true;
            } catch (const tern::budget_error& e) {
                CHECK(!fitted); // more never fits worse
                CHECK((!e.tensor().empty() || g.activation_room().count > budget));
                CHECK(e.needed() > e.available());
                CHECK(std::string(e.what()).find(to_string(to)) != std::string::npos);
                continue;
            }
            CHECK((streamed(p) == 0) == p.pools.empty());
            complete = streamed(p) == 0;
            if (complete) CHECK(p.bytes_at(g, to) == g.weight_bytes());
            // One is read while another is used, unless that is all the room there is.
            if (!complete) CHECK((p.pool_at(to).count >= 2 * 100'000 || p.bytes_at(g, to) == 0_B));
        }
        CHECK(fitted);
        CHECK(complete);
    }
}

TEST_CASE("plan/layer_stream: ten megabytes in a gigabyte stay, whatever the window, and in unlimited memory") {
    const tern::graph g = stack(10, 1'000'000);
    for (const tern::bytes budget : {1_GiB, tern::unlimited})
        for (const tern::bytes window : {0_B, 1_B, 512_MiB, 2_GiB}) {
            const tern::machine m = test::with(budget);
            const tern::placement p = tern::layer_stream{.window = window}.place(g, m);
            CHECK(test::sound(p, g, m));
            CHECK(streamed(p) == 0);
            CHECK(p.pools.empty());
            CHECK(p.bytes_at(g, test::vram0) == g.weight_bytes());
            const tern::machine ram = test::with({}, budget);
            const tern::placement q = tern::layer_stream{.window = window}.place(g, ram);
            CHECK(test::sound(q, g, ram));
            CHECK(streamed(q) == 0);
            CHECK(q.bytes_at(g, test::pageable0) == g.weight_bytes());
        }
}

TEST_CASE("plan/layer_stream: small weights stay beside the window, large ones stream through it") {
    const tern::graph g = stack(10, 100'000);
    const tern::machine m = test::with({400'000});
    const tern::placement p = tern::layer_stream{}.place(g, m);
    CHECK(test::sound(p, g, m));
    for (std::size_t i = 0; i < 10; ++i) {
        const tern::placed_tensor& norm = test::of(p, g, std::to_string(i) + ".norm");
        CHECK(norm.where == test::vram0);
        CHECK(!norm.streamed());
    }
    const tern::placed_tensor& last = test::of(p, g, "9.matrix");
    CHECK(last.where == test::direct0);
    REQUIRE(last.streamed());
    CHECK(*last.computes == test::vram0);
    CHECK(last.stay == tern::retention::drop);
    // A window that is asked for is kept, and one that is too narrow for two is widened.
    CHECK(tern::layer_stream{.window = {300'000}}.place(g, m).pool_at(test::vram0) == 300'000_B);
    CHECK(tern::layer_stream{.window = 1_B}.place(g, m).pool_at(test::vram0).count >= 200'000);
    const tern::placement whole = tern::layer_stream{.window = 1_GiB}.place(g, m); // as much as there is
    CHECK(streamed(whole) == g.tensors.size());
    CHECK(test::sound(whole, g, m));
}

TEST_CASE("plan/layer_stream: reserved bytes are left, and one byte less than everything streams") {
    const tern::graph g = stack(4, 100'000);
    std::uint64_t least = 400'000;
    while (streamed(tern::layer_stream{}.place(g, test::with({least}))) != 0) ++least;
    CHECK(least <= 400'000 + 4 * 256 + 8 * 3 * 4096 + 5000);
    CHECK(!tern::layer_stream{}.place(g, test::with({least - 1})).pools.empty());
    const tern::machine roomy = test::with({least + 77}).with_reserved(test::vram0, {77});
    CHECK(streamed(tern::layer_stream{}.place(g, roomy)) == 0);
    CHECK(test::sound(tern::layer_stream{}.place(g, roomy), g, roomy));
    const tern::machine short_of = test::with({least + 76}).with_reserved(test::vram0, {77});
    CHECK(streamed(tern::layer_stream{}.place(g, short_of)) != 0);
    CHECK(test::sound(tern::layer_stream{}.place(g, short_of), g, short_of));
}

TEST_CASE("plan/layer_stream: tables, tied tables, and tensors whose types forbid a tier") {
    tern::graph g = stack(6, 100'000);
    const std::size_t table = test::add(g, "table", 90'000, test::anywhere());
    g.nodes.insert(g.nodes.begin(), {"embed", {table}, 1, 500, 0});
    const tern::machine m = test::with({350'000});
    CHECK(test::of(tern::layer_stream{}.place(g, m), g, "table").where == test::mapped0); // a row a token
    tern::graph tied = g;
    tied.nodes.push_back({"linear", {table}, 1, 500, 0});
    const tern::placement p = tern::layer_stream{}.place(tied, m);
    CHECK(test::of(p, tied, "table").where != test::mapped0); // all of it is needed
    CHECK(test::sound(p, tied, m));

    g.tensors[1].allowed = {tern::tier_of<tern::vram>, tern::tier_of<tern::pageable>};   // not direct
    g.tensors[3].allowed = {tern::tier_of<tern::pageable>, tern::tier_of<tern::direct>}; // not vram
    g.tensors[5].allowed = {tern::tier_of<tern::mapped>};
    g.tensors[table].allowed = {tern::tier_of<tern::vram>, tern::tier_of<tern::direct>}; // nowhere on the host
    CHECK_THROWS_AS(tern::layer_stream{}.place(g, m), tern::config_error);
    g.tensors[table].allowed = {tern::tier_of<tern::pageable>};
    const tern::placement q = tern::layer_stream{}.place(g, m);
    CHECK(test::sound(q, g, m));
    CHECK(test::of(q, g, "0.matrix").where == test::pageable0);
    CHECK(test::of(q, g, "1.matrix").where == test::pageable0);
    CHECK(test::of(q, g, "2.matrix").where == test::mapped0);
    CHECK(test::of(q, g, "table").where == test::pageable0);
    for (const char* name : {"0.matrix", "1.matrix", "2.matrix", "table"}) CHECK(!test::of(q, g, name).streamed());
}

TEST_CASE("plan/layer_stream: from the mapping the host reads in place; from RAM and pinned RAM it goes to vram") {
    const tern::graph g = stack(6, 100'000);
    const tern::machine ram = test::with({}, {200'000});
    const tern::placement p = tern::layer_stream{.from = tern::tier_of<tern::mapped>}.place(g, ram);
    CHECK(test::sound(p, g, ram));
    CHECK(p.bytes_at(g, test::mapped0) == g.weight_bytes());
    CHECK(streamed(p) == 0);
    CHECK(p.pools.empty());

    tern::machine m = test::with({350'000});
    m.memories.push_back({test::pinned0, 1_MiB, {}});
    for (const tern::tier_info& from :
         {tern::tier_of<tern::mapped>, tern::tier_of<tern::pageable>, tern::tier_of<tern::pinned>}) {
        CAPTURE(from.name);
        const tern::placement q = tern::layer_stream{.from = from}.place(g, m);
        CHECK(test::sound(q, g, m));
        CHECK(streamed(q) != 0);
        CHECK(q.bytes_at(g, {from, 0, 0}) + q.bytes_at(g, test::vram0) == g.weight_bytes());
    }
    m.memories.pop_back();
    try {
        tern::check(tern::layer_stream{.from = tern::tier_of<tern::pinned>}.place(g, m), g, m);
        FAIL("there is no pinned memory");
    } catch (const tern::config_error& e) { CHECK(std::string(e.what()).find("pinned") != std::string::npos); }
}
