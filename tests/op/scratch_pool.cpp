#include <tern/memory/heap_arena.hpp>
#include <tern/op/scratch_pool.hpp>

#include <cstdint>
#include <utility>

#include <doctest/doctest.h>

TEST_CASE("op/scratch_pool: sizes grow by at most a quarter, and never shrink") {
    for (std::uint64_t n = 0; n < 40000; n += 7) {
        const std::uint64_t size = tern::scratch_pool::size_class(n);
        CHECK_MESSAGE(size >= n, n);
        if (n > 256) CHECK_MESSAGE(size <= n + n / 4, n);
        CHECK_MESSAGE(tern::scratch_pool::size_class(size) == size, n);
    }
    CHECK(tern::scratch_pool::size_class(~std::uint64_t{0}) == ~std::uint64_t{0});
}

TEST_CASE("op/scratch_pool: equal sizes meet again, and a full arena takes the free buffers back first") {
    tern::heap_arena ram({4096});
    tern::scratch_pool pool(ram);
    tern::allocation a = pool.take({1000});
    const std::byte* const first = a.data();
    pool.give_back(std::move(a));
    a = pool.take({1020});
    CHECK(a.data() == first);
    CHECK(ram.budget().used() == tern::bytes{1024});
    pool.give_back(std::move(a));
    CHECK(ram.budget().used() == tern::bytes{1024}); // kept
    tern::allocation large = pool.take({3584});
    CHECK(ram.budget().used() == tern::bytes{3584});
    CHECK_THROWS_AS(pool.take({600}), tern::budget_error);
    pool.give_back(std::move(large));
    pool.trim();
    CHECK(ram.budget().used() == tern::bytes{});
    CHECK(ram.budget().peak() <= tern::bytes{4096});
}
