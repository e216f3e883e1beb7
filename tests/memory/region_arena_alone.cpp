// Replaces operator new, to show that to free never allocates: it works when no memory is left.
#include <doctest/doctest.h>

#include <vector>

#include <tern/memory/region_arena.hpp>

#include "support/allocations.hpp"

using namespace tern::literals;

TEST_CASE("memory/region_arena_alone: operator new is counted") { tern::test::check_allocations_count(); }

TEST_CASE("memory/region_arena_alone: a region takes memory back when operator new fails") {
    tern::region_arena gpu{{tern::tier_of<tern::vram>, 0, 0}, 64_KiB};
    std::vector<tern::allocation> live;
    live.reserve(1024);
    for (int i = 0; i < 1024; ++i) live.push_back(gpu.allocate(64_B, "x"));
    tern::test::allocations_left = 0;
    bool failed = false;
    try {
        ::operator delete(::operator new(1)); // not an expression that a compiler may leave out
    } catch (const std::bad_alloc&) { failed = true; }
    // Every second one first: as many holes as there can be.
    for (std::size_t i = 0; i < live.size(); i += 2) live[i] = {};
    for (std::size_t i = 1; i < live.size(); i += 2) live[i] = {};
    tern::test::allocations_left = -1;
    CHECK(failed);
    CHECK(gpu.budget().used() == 0_B);
    CHECK(gpu.largest_hole() == 64_KiB);
}

TEST_CASE("memory/region_arena_alone: a request that fails for want of memory leaves the region whole") {
    tern::region_arena gpu{{tern::tier_of<tern::vram>, 0, 0}, 64_KiB};
    std::vector<tern::allocation> live;
    live.reserve(1024);
    bool failed = false;
    tern::test::allocations_left = 0;
    try {
        while (live.size() < 1024) live.push_back(gpu.allocate(64_B, "x"));
    } catch (const std::bad_alloc&) { failed = true; }
    tern::test::allocations_left = -1;
    CHECK(failed);
    CHECK(gpu.budget().used() == tern::bytes{64} * live.size());
    live.clear();
    CHECK(gpu.largest_hole() == 64_KiB);
}
