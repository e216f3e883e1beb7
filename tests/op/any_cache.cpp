#include <tern/memory/heap_arena.hpp>
#include <tern/op/any_cache.hpp>

#include <doctest/doctest.h>

#include <tern/op/contiguous_cache.hpp>
#include <tern/op/paged_cache.hpp>

#include "caches_support.hpp"

TEST_CASE("op/any_cache: every call reaches the cache behind it") {
    tern::heap_arena ram;
    tern::contiguous_cache one(ram, tern::test::small_cache);
    tern::any_cache first(one);
    tern::test::check_cache(first);
    tern::paged_cache two(ram, tern::test::small_cache, 3);
    tern::any_cache second(two);
    tern::test::check_cache(second);
    second = first; // refers to the other cache from now on
    tern::test::fill(second, tern::test::more(second, 0, 2), 1);
    CHECK(one.length(0) == 2);
    CHECK(two.length(0) == 0);
}
