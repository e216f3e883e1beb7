#include <tern/memory/heap_arena.hpp>
#include <tern/op/contiguous_cache.hpp>

#include <cstddef>
#include <limits>

#include <doctest/doctest.h>

#include "caches_support.hpp"

TEST_CASE("op/contiguous_cache: continues, refuses, truncates and copies") {
    tern::heap_arena ram;
    tern::contiguous_cache kv(ram, tern::test::small_cache);
    CHECK(ram.budget().used() == tern::contiguous_cache::bytes_for(tern::test::small_cache));
    CHECK(ram.budget().used() == tern::bytes{2 * 2 * 3 * 10 * 3 * sizeof(float)});
    tern::test::check_cache(kv);
    CHECK(ram.budget().peak() == ram.budget().used());
}

TEST_CASE("op/contiguous_cache: beyond the budget it says what it needs, and sizes do not overflow") {
    const std::uint64_t needed = tern::contiguous_cache::bytes_for(tern::test::small_cache).count;
    tern::heap_arena ram({needed - 1});
    try {
        tern::contiguous_cache kv(ram, tern::test::small_cache);
        FAIL("the cache does not fit");
    } catch (const tern::budget_error& e) {
        CHECK(e.needed() == needed);
        CHECK(e.available() == needed - 1);
    }
    const std::size_t huge = std::numeric_limits<std::size_t>::max() / 16;
    CHECK_THROWS_AS(tern::contiguous_cache(ram, {.layers = huge, .width = 8, .context = 9}), tern::shape_error);
}
