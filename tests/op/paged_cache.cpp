#include <tern/memory/heap_arena.hpp>
#include <tern/op/paged_cache.hpp>

#include <cstddef>
#include <string>

#include <doctest/doctest.h>

#include "caches_support.hpp"

namespace test = tern::test;

TEST_CASE("op/paged_cache: continues, refuses, truncates and copies, with pages of any size") {
    for (const std::size_t page : {1u, 2u, 3u, 4u, 7u, 10u, 32u}) {
        CAPTURE(page);
        tern::heap_arena ram;
        tern::paged_cache kv(ram, test::small_cache, page);
        CHECK(ram.budget().used() == tern::bytes{});
        test::check_cache(kv);
        CHECK(kv.pages_free() == kv.pages_taken());
    }
    tern::heap_arena ram;
    CHECK_THROWS_AS(tern::paged_cache(ram, test::small_cache, 0), tern::config_error);
}

TEST_CASE("op/paged_cache: copies share pages until one writes") {
    tern::heap_arena ram;
    tern::paged_cache kv(ram, test::small_cache, 4);
    test::fill(kv, test::more(kv, 0, 6), 1);
    CHECK(kv.pages_taken() == 2);
    kv.copy(0, 1);
    kv.copy(0, 2);
    CHECK(kv.pages_taken() == 2);
    test::fill(kv, test::more(kv, 1, 1), 2); // its half-filled page alone
    CHECK(kv.pages_taken() == 3);
    test::fill(kv, test::more(kv, 0, 2), 3);
    CHECK(kv.pages_taken() == 4);
    test::fill(kv, test::more(kv, 2, 1), 4); // the last owner writes in place
    CHECK(kv.pages_taken() == 4);
    CHECK(test::shows(kv, 0, {1, 1, 1, 1, 1, 1, 3, 3}));
    CHECK(test::shows(kv, 1, {1, 1, 1, 1, 1, 1, 2}));
    CHECK(test::shows(kv, 2, {1, 1, 1, 1, 1, 1, 4}));
    kv.truncate(0, 4);
    CHECK(kv.pages_free() == 1);
}

TEST_CASE("op/paged_cache: a reserve that fails half way leaves no page behind that a copy could share") {
    const std::uint64_t page = tern::paged_cache::bytes_of_page(test::small_cache, 2).count;
    tern::heap_arena ram({4 * page});
    tern::paged_cache kv(ram, test::small_cache, 2);
    test::fill(kv, test::more(kv, 0, 2), 1);
    test::fill(kv, test::more(kv, 1, 2), 2);
    // Sequence 0 gets two pages more, sequence 1 none.
    tern::batch b = test::more(kv, 0, 4);
    b.add(0, 2, 1);
    CHECK_THROWS_AS(kv.reserve(b), tern::budget_error);
    CHECK(test::shows(kv, 0, {1, 1}));
    CHECK(test::shows(kv, 1, {2, 2}));
    CHECK(kv.pages_free() == 2);
    kv.copy(0, 2);
    test::fill(kv, test::more(kv, 0, 2), 3);
    test::fill(kv, test::more(kv, 2, 2), 4);
    CHECK(test::shows(kv, 0, {1, 1, 3, 3}));
    CHECK(test::shows(kv, 2, {1, 1, 4, 4}));
}
