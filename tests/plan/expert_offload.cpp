#include <tern/plan/expert_offload.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "support.hpp"

namespace test = tern::test;
using namespace tern::literals;

namespace {

bool is_expert(const tern::planned_tensor& t) { return t.shape.experts > 1; }

const tern::tier_info sources[] = {tern::tier_of<tern::mapped>, tern::tier_of<tern::direct>,
                                   tern::tier_of<tern::pageable>, tern::tier_of<tern::pinned>};

tern::machine machine_of(tern::bytes vram, tern::bytes ram) {
    tern::machine m = test::with(vram, ram);
    m.memories.push_back({test::pinned0, 4_MiB, {}});
    return m;
}

} // namespace

TEST_CASE(
    "plan/expert_offload: what every token uses is in vram, a table on the host, experts are cached in the rest") {
    const tern::graph g = test::mixture();
    for (const tern::tier_info& from : sources) {
        CAPTURE(from.name);
        const tern::machine m = machine_of(600_KiB, 4_MiB);
        const tern::placement p = tern::expert_offload{.from = from}.place(g, m);
        CHECK(test::sound(p, g, m));
        CHECK(p.policy == "expert_offload");
        std::uint64_t used = 0;
        for (std::size_t i = 0; i < g.tensors.size(); ++i) {
            CAPTURE(g.tensors[i].name);
            const tern::placed_tensor& placed = p.tensors[i];
            if (is_expert(g.tensors[i])) {
                CHECK(placed.where == tern::location{from, 0, 0});
                REQUIRE(placed.streamed());
                CHECK(*placed.computes == test::vram0);
                CHECK(placed.stay == tern::retention::cache);
            } else if (g.tensors[i].name == "table") {
                CHECK(placed.where == test::mapped0);
            } else {
                CHECK(placed.where == test::vram0);
                used += g.tensors[i].size().count;
            }
        }
        CHECK(p.bytes_at(g, test::vram0).count == used);
        CHECK(p.pools.size() == 1);
        const std::uint64_t pool = p.pool_at(test::vram0).count;
        CHECK(pool + used + 500 <= 600 * 1024);
        CHECK(pool + used + 500 + 5 * 3 * 4096 >= 600 * 1024); // the rest is not left idle
    }
}

TEST_CASE("plan/expert_offload: over all budgets it fits or the check says what is missing") {
    const tern::graph g = test::mixture();
    for (const tern::tier_info& from : sources)
        for (std::uint64_t vram = 0; vram < 1'300'000; vram += 39'999)
            for (const tern::bytes ram : {64_KiB, 200_KiB, 1_MiB, 4_MiB, tern::unlimited}) {
                CAPTURE(from.name);
                CAPTURE(vram);
                CAPTURE(ram.count);
                const tern::machine m = machine_of({vram}, ram);
                const tern::placement p = tern::expert_offload{.from = from}.place(g, m);
                try {
                    const bool sound = test::sound(p, g, m);
                    CHECK(sound);
                } catch (const tern::budget_error& e) {
                    CHECK(e.needed() > e.available());
                    CHECK(
                        (ram < 1_MiB || from == tern::tier_of<tern::pageable>)); // vram is never the one that is short
                    CHECK(std::string(e.what()).find("pageable") != std::string::npos);
                }
            }
}

TEST_CASE("plan/expert_offload: without vram, or with less than one expert needs, experts stay with the host") {
    const tern::graph g = test::mixture();
    for (const tern::bytes vram : {0_B, 60_KiB}) {
        CAPTURE(vram.count);
        for (const tern::tier_info& from : {tern::tier_of<tern::mapped>, tern::tier_of<tern::pinned>}) {
            const tern::machine m = machine_of(vram, 1_MiB);
            const tern::placement p = tern::expert_offload{.from = from}.place(g, m);
            CHECK(test::sound(p, g, m));
            CHECK(p.pools.empty());
            for (std::size_t i = 0; i < g.tensors.size(); ++i)
                if (is_expert(g.tensors[i])) {
                    CHECK(p.tensors[i].where == tern::location{from, 0, 0});
                    CHECK(!p.tensors[i].streamed()); // read where they lie
                }
        }
        const tern::machine m = machine_of(vram, 500_KiB);
        const tern::placement p = tern::expert_offload{.from = tern::tier_of<tern::direct>}.place(g, m);
        CHECK(test::sound(p, g, m));
        for (std::size_t i = 0; i < g.tensors.size(); ++i)
            if (is_expert(g.tensors[i])) {
                REQUIRE(p.tensors[i].streamed());
                CHECK(*p.tensors[i].computes == test::pageable0);
                CHECK(p.tensors[i].stay == tern::retention::cache);
            }
        CHECK(p.pool_at(test::pageable0).count > 300 * 1024);
        CHECK(p.pool_at(test::pageable0) + p.bytes_at(g, test::pageable0) <= 500_KiB);
    }
}

TEST_CASE("plan/expert_offload: room for everything is room for all experts, also where memory is unlimited") {
    const tern::graph g = test::mixture();
    std::uint64_t experts = 0;
    for (const tern::planned_tensor& t : g.tensors)
        if (is_expert(t)) experts += t.size().count;
    for (const tern::bytes vram : {0_B, 1_GiB, tern::unlimited})
        for (const tern::bytes ram : {1_GiB, tern::unlimited}) {
            CAPTURE(vram.count);
            CAPTURE(ram.count);
            const tern::machine m = machine_of(vram, ram);
            const tern::placement p = tern::expert_offload{.from = tern::tier_of<tern::direct>}.place(g, m);
            CHECK(test::sound(p, g, m));
            CHECK(p.pool_at(vram == 0_B ? test::pageable0 : test::vram0).count > experts);
        }
}

TEST_CASE("plan/expert_offload: a dense model goes to vram while it fits, tied tables too; types are obeyed") {
    tern::graph g = test::layers();
    const tern::machine m = machine_of(200_KiB, 1_MiB);
    tern::placement p = tern::expert_offload{}.place(g, m);
    CHECK(test::sound(p, g, m));
    CHECK(p.bytes_at(g, test::vram0) == g.weight_bytes());
    CHECK(p.pools.empty());
    const tern::machine small = machine_of(45'000_B, 1_MiB);
    p = tern::expert_offload{}.place(g, small);
    CHECK(test::sound(p, g, small));
    CHECK(p.bytes_at(g, test::vram0).count > 0);
    CHECK(p.bytes_at(g, test::mapped0).count > 0);

    g = test::mixture();
    for (tern::planned_tensor& t : g.tensors) {
        if (t.name == "0.gate") t.allowed = {tern::tier_of<tern::mapped>};                                // not direct
        if (t.name == "1.gate") t.allowed = {tern::tier_of<tern::pageable>, tern::tier_of<tern::direct>}; // not vram
        if (t.name == "output") t.allowed = {tern::tier_of<tern::pageable>};
        if (t.name == "table") t.allowed = {tern::tier_of<tern::vram>, tern::tier_of<tern::pageable>};
    }
    const tern::machine roomy = machine_of(600_KiB, 1_MiB);
    p = tern::expert_offload{.from = tern::tier_of<tern::direct>}.place(g, roomy);
    CHECK(test::sound(p, g, roomy));
    CHECK(test::of(p, g, "0.gate").where == test::mapped0);
    CHECK(test::of(p, g, "1.gate").where == test::pageable0);
    CHECK(test::of(p, g, "output").where == test::pageable0);
    CHECK(test::of(p, g, "table").where == test::pageable0);
    CHECK(test::of(p, g, "0.up").streamed());
}
