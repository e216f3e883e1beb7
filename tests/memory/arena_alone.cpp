// Replaces operator new, to show that to free never allocates: it works when no memory is left.
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>
#include <vector>

#include <tern/memory/arena.hpp>

namespace {
bool exhausted = false;
}

// Not inlined, or the compiler sees malloc's pointer given to delete.
[[gnu::noinline]] void* operator new(std::size_t size) {
    if (!exhausted)
        if (void* p = std::malloc(size ? size : 1)) return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

using namespace tern::literals;

TEST_CASE("memory/arena_alone: a region takes memory back when operator new fails") {
    tern::region_arena gpu{{tern::tier_of<tern::vram>, 0, 0}, 64_KiB};
    std::vector<tern::allocation> live;
    live.reserve(1024);
    for (int i = 0; i < 1024; ++i) live.push_back(gpu.allocate(64_B, "x"));
    exhausted = true;
    bool failed = false;
    try {
        ::operator delete(::operator new(1)); // not an expression that a compiler may leave out
    } catch (const std::bad_alloc&) { failed = true; }
    // Every second one first: as many holes as there can be.
    for (std::size_t i = 0; i < live.size(); i += 2) live[i] = {};
    for (std::size_t i = 1; i < live.size(); i += 2) live[i] = {};
    exhausted = false;
    CHECK(failed);
    CHECK(gpu.budget().used() == 0_B);
    CHECK(gpu.largest_hole() == 64_KiB);
}

TEST_CASE("memory/arena_alone: a request that fails for want of memory leaves the region whole") {
    tern::region_arena gpu{{tern::tier_of<tern::vram>, 0, 0}, 64_KiB};
    std::vector<tern::allocation> live;
    live.reserve(1024);
    bool failed = false;
    exhausted = true;
    try {
        while (live.size() < 1024) live.push_back(gpu.allocate(64_B, "x"));
    } catch (const std::bad_alloc&) { failed = true; }
    exhausted = false;
    CHECK(failed);
    CHECK(gpu.budget().used() == tern::bytes{64} * live.size());
    live.clear();
    CHECK(gpu.largest_hole() == 64_KiB);
}
