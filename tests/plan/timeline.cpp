#include <tern/plan/timeline.hpp>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cost_support.hpp"

namespace test = tern::test;

namespace {

/// Links by their place in test::timed.
constexpr std::size_t ram_down = 0, pinned_down = 2, up = 3, disk = 4;

tern::resource_use named(const tern::timeline& t, const std::string& name) {
    for (const tern::resource_use& u : t.uses())
        if (u.name == name) return u;
    return {};
}

} // namespace

TEST_CASE("plan/timeline: transfers of one bus take turns, those of others do not") {
    const tern::machine m = test::timed({1 << 20});
    tern::timeline t(m);
    const tern::hop down[] = {{ram_down, 3}};
    const tern::hop locked[] = {{pinned_down, 2}};
    const tern::hop back[] = {{up, 4}};
    CHECK(t.transfer(1, {300}, down) == 4);
    CHECK(t.transfer(2, {200}, locked) == 6); // the same bus
    CHECK(t.transfer(2, {400}, back) == 6);
    CHECK(t.transfer(20, {300}, down) == 23);
    CHECK(named(t, "pageable to vram:0").busy.count == 6);
    CHECK(named(t, "pageable to vram:0").moved.count == 600);
    CHECK(named(t, "pinned to vram:0").moved.count == 200);
    CHECK(named(t, "dram").moved.count == 300 + 200 + 400 + 300);
    CHECK(named(t, "dram").busy.count == doctest::Approx(1200e-9));
}

TEST_CASE("plan/timeline: two links are a stream: both go on at once, one piece behind each other") {
    const tern::machine m = test::timed({1 << 20});
    tern::timeline t(m);
    const tern::hop way[] = {{disk, 8}, {ram_down, 4}};
    // Four pieces: the disk ends at 8, the last piece takes the link 1 more.
    CHECK(t.transfer(0, {400}, way, 100) == doctest::Approx(9));
    // The disk is free at 8, the link at 9.
    CHECK(t.transfer(0, {400}, way, 100) == doctest::Approx(17));
    tern::timeline u(m);
    const tern::hop slow_link[] = {{disk, 4}, {ram_down, 8}};
    CHECK(u.transfer(0, {400}, slow_link, 100) == doctest::Approx(9)); // the first piece is there after 1
    CHECK(u.transfer(0, {400}, slow_link, 100) == doctest::Approx(17));
    tern::timeline v(m);
    CHECK(v.transfer(0, {400}, way, 1000) == doctest::Approx(12)); // one piece: one after the other
    CHECK(v.transfer(3, {}, {}) == 3);
}

TEST_CASE("plan/timeline: activations do not queue, and delay what follows") {
    const tern::machine m = test::timed({1 << 20});
    tern::timeline t(m);
    const tern::hop down[] = {{ram_down, 3}};
    t.transfer(0, {300}, down);
    t.activations(1, pinned_down, 2, {50});
    CHECK(t.transfer(0, {300}, down) == 8);
    CHECK(named(t, "pinned to vram:0").busy.count == 2);
}

TEST_CASE("plan/timeline: transfers take from the bandwidth of what they touch") {
    tern::machine m = test::timed({1 << 20});
    for (tern::memory_space& s : m.memories) s.bandwidth = tern::bytes_per_second{100};
    const tern::hop down[] = {{ram_down, 10}};
    // 600 bytes in 10 s: 60 a second of 100. A computation that reads 100 a second gets 40 meanwhile.
    tern::timeline t(m);
    t.transfer(0, {600}, down);
    CHECK(t.compute(0, 8, test::pageable0, {800}) == doctest::Approx(14)); // 4 done by 10, 4 more
    CHECK(t.compute(0, 2, test::pageable0, {200}) == doctest::Approx(5));
    CHECK(t.compute(0, 2, test::mapped0, {80}) == doctest::Approx(2)); // 40 a second are left for it
    CHECK(t.compute(0, 2, test::vram0, {200}) == 2);                   // another memory
    CHECK(t.compute(10, 2, test::pageable0, {200}) == 12);
    CHECK(t.compute(-3, 4, test::pageable0, {400}) == doctest::Approx(2.5)); // 3 before, the last quarter in 2.5
    t.past(10);
    CHECK(t.compute(0, 2, test::pageable0, {200}) == 2);
    // All bytes together need 14 s of the bus in both orders.
    tern::timeline u(m);
    const tern::hop quick[] = {{ram_down, 6.25}}; // 96 a second
    u.transfer(0, {600}, quick);
    CHECK(u.compute(0, 8, test::pageable0, {800}) == doctest::Approx(14).epsilon(0.01));
    // Who asks for more than there is leaves a twentieth.
    tern::timeline v(m);
    const tern::hop greedy[] = {{ram_down, 1}};
    v.transfer(0, {600}, greedy);
    CHECK(v.compute(0, 2, test::pageable0, {200}) == doctest::Approx(2.95));
}
