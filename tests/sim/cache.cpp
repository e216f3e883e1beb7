#include <tern/sim/cache.hpp>

#include <doctest/doctest.h>

TEST_CASE("sim/cache: it counts tokens, from any depth, and refuses what real caches refuse") {
    tern::sim_cache cache({.layers = 2, .width = 8, .context = 10, .sequences = 2});
    cache.start_at(6);
    tern::batch b;
    b.add(1, 6, 0, false);
    b.add(1, 7, 0, false);
    b.add(1, 0, 1, true);
    cache.reserve(b);
    CHECK(cache.length(0) == 8);
    CHECK(cache.length(1) == 1);
    REQUIRE(cache.pages(1, 0).count == 1);
    CHECK(cache.pages(1, 0).pages[0].tokens == 8);
    CHECK_THROWS_AS(cache.reserve(b), tern::shape_error); // position 6 again
    cache.copy(0, 1);
    CHECK(cache.length(1) == 8);
    cache.truncate(1, 3);
    CHECK(cache.length(1) == 3);
    cache.truncate(1, 5);
    CHECK(cache.length(1) == 3);
    tern::batch more;
    for (std::size_t i = 8; i < 11; ++i) more.add(1, i, 0, false);
    CHECK_THROWS_AS(cache.reserve(more), tern::budget_error);
    CHECK_THROWS_AS(static_cast<void>(cache.length(2)), tern::shape_error);
}
