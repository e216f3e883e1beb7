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

namespace {

/// A norm, a router and eight experts of three matrices (2 KiB each) in each of `layers` layers.
tern::graph many_layers(std::size_t layers) {
    tern::graph g;
    for (std::size_t i = 0; i < layers; ++i) {
        const std::string blk = std::to_string(i) + ".";
        g.nodes.push_back({"rms_norm", {test::add(g, blk + "norm", 256, test::anywhere())}, 1, 16, 0, i});
        g.nodes.push_back({"route", {test::add(g, blk + "router", 1024, test::anywhere())}, 1, 8, 0, i});
        std::vector<std::size_t> parts;
        for (const char* part : {"gate", "up", "down"})
            parts.push_back(test::add(g, blk + part, 2048, test::anywhere(), 8));
        g.nodes.push_back({"experts", parts, 1, 16, 2, i});
    }
    return g;
}

/// The layers whose experts are placed in vram, as a string of 0 and 1. All parts are in one place.
std::string placed_layers(const tern::placement& p, const tern::graph& g) {
    std::string found;
    for (const tern::graph_node& node : g.nodes) {
        if (node.active == 0) continue;
        const bool there = p.tensors[node.tensors.front()].where == test::vram0;
        for (const std::size_t t : node.tensors) CHECK((p.tensors[t].where == test::vram0) == there);
        found += there ? '1' : '0';
    }
    return found;
}

} // namespace

TEST_CASE("plan/expert_offload: experts of whole layers are placed for good, the first, the last or spread evenly") {
    const tern::graph g = many_layers(12);
    // A layer's experts take 3 * 8 * (2048 + 3 * 4096), with what pages may waste; all else 12 * (1280 + 6 * 4096).
    constexpr std::uint64_t layer = 3 * 8 * (2048 + 3 * 4096);
    constexpr std::uint64_t rest = 12 * (1280 + 6 * 4096);
    const auto layers = [&](tern::expert_choice how, std::uint64_t vram, tern::tier_info from, tern::bytes window) {
        const tern::machine m = machine_of({vram}, 16_MiB);
        const tern::placement p = tern::expert_offload{.from = from, .experts = how, .window = window}.place(g, m);
        CHECK(test::sound(p, g, m));
        for (std::size_t t = 0; t < g.tensors.size(); ++t)
            if (is_expert(g.tensors[t]) && p.tensors[t].where != test::vram0) {
                CHECK(p.tensors[t].where == tern::location{from, 0, 0});
                CHECK(p.tensors[t].streamed() == (window.count != 0 || from == tern::tier_of<tern::direct>));
            }
        return placed_layers(p, g);
    };
    using enum tern::expert_choice;
    const tern::tier_info mapped = tern::tier_of<tern::mapped>;
    CHECK(layers(first_layers, rest + 4 * layer, mapped, {}) == "111100000000");
    CHECK(layers(last_layers, rest + 4 * layer, mapped, {}) == "000000001111");
    CHECK(layers(uniform, rest + 4 * layer, mapped, {}) == "010010010010");
    CHECK(layers(uniform, rest + 3 * layer, mapped, {}) == "001000100010");
    CHECK(layers(uniform, rest + 4 * layer - 1, mapped, {}) == "001000100010");
    CHECK(layers(uniform, rest + 12 * layer, mapped, {}) == "111111111111");
    CHECK(layers(first_layers, rest + layer - 1, mapped, {}) == "000000000000");
    // A window takes the room of one.
    CHECK(layers(first_layers, rest + 4 * layer, mapped, {layer}) == "111000000000");
    CHECK(layers(last_layers, rest + 4 * layer, tern::tier_of<tern::pinned>, {layer}) == "000000000111");
    CHECK(layers(last_layers, rest + 4 * layer, tern::tier_of<tern::direct>, {}) == "000000000111");
}

TEST_CASE("plan/expert_offload: the most used experts are kept, by the activity of each layer") {
    const tern::graph g = many_layers(2);
    constexpr std::uint64_t one = 3 * (2048 + 2 * 4096); // an expert
    constexpr std::uint64_t rest = 2 * (1280 + 6 * 4096);
    // Shares of the first layer: 0.5, 0.25, 0.125 ...; the second layer's are 5 / 12 and six of 1 / 12.
    const std::vector<std::vector<double>> activity = {{8, 4, 2, 1, 1, 0, 0, 0}, {1, 1, 1, 5, 1, 1, 1, 1}};
    const auto kept = [&](std::uint64_t room) {
        const tern::machine m = machine_of({rest + room}, 1_MiB);
        const tern::placement p =
            tern::expert_offload{.experts = tern::expert_choice::by_frequency, .activity = activity}.place(g, m);
        CHECK(test::sound(p, g, m));
        CHECK(p.fill);
        REQUIRE(p.pools.size() == 1);
        CHECK(p.pools.front().eviction == "pinned_set");
        return p.pools.front().how.pinned;
    };
    std::vector<tern::slice_id> wanted;
    const auto add = [&](const char* blk, std::uint32_t e) {
        for (const char* part : {"gate", "up", "down"})
            for (const tern::planned_tensor& t : g.tensors)
                if (t.name == std::string(blk) + part) wanted.push_back(t.first + e);
    };
    CHECK(kept(one) == wanted); // there is always room for one that is fetched
    add("0.", 0);
    CHECK(kept(2 * one) == wanted);
    CHECK(kept(3 * one - 1) == wanted);
    add("1.", 3);
    add("0.", 1);
    CHECK(kept(4 * one) == wanted);

    const tern::machine m = machine_of({rest + 4 * one}, 1_MiB);
    for (const std::vector<std::vector<double>>& wrong : {std::vector<std::vector<double>>{},
                                                          {{1, 1, 1, 1, 1, 1, 1, 1}},
                                                          {{1, 1}, {1, 1}},
                                                          {{1, 1, 1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 0, 0, 0}},
                                                          {{1, 1, 1, 1, 1, 1, 1, -1}, {1, 1, 1, 1, 1, 1, 1, 1}}}) {
        const tern::expert_offload policy{.experts = tern::expert_choice::by_frequency, .activity = wrong};
        CHECK_THROWS_AS(static_cast<void>(policy.place(g, m)), tern::config_error);
    }
}
