#include <tern/memory/heap_arena.hpp>
#include <tern/op/activation.hpp>

#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>

#include <doctest/doctest.h>

#include "support.hpp"

static_assert(!std::is_copy_constructible_v<tern::activation> &&
              std::is_nothrow_move_constructible_v<tern::activation>);

TEST_CASE("op/activation: its buffer goes back to its pool, and a move leaves nothing behind") {
    tern::heap_arena ram;
    tern::cpu_device cpu(ram, 1);
    tern::scratch_pool pool(ram);
    const float* first = nullptr;
    {
        tern::activation a(cpu, pool, 3, 100);
        first = a.data();
        CHECK(a.size() == tern::bytes{1200});
        CHECK(a.row(2) == a.data() + 200);
        CHECK(a.on() == &cpu);
        tern::activation b(std::move(a));
        CHECK(b.data() == first);
        CHECK(a.data() == nullptr); // NOLINT: what a move leaves is stated
        CHECK(a.on() == nullptr);
        tern::activation c;
        c = std::move(b);
        CHECK(c.data() == first);
    }
    CHECK(tern::activation(cpu, pool, 3, 100).data() == first);
}

TEST_CASE("op/activation: a size that overflows is refused") {
    tern::heap_arena ram;
    tern::cpu_device cpu(ram, 1);
    tern::scratch_pool pool(ram);
    const std::size_t huge = std::numeric_limits<std::size_t>::max() / 2;
    CHECK_THROWS_AS(tern::activation(cpu, pool, huge, 3), tern::shape_error);
    CHECK_THROWS_AS(tern::activation(cpu, pool, huge, 1), tern::shape_error);
    CHECK(ram.budget().used() == tern::bytes{});
}

TEST_CASE("op/activation: a meter counts what a pool takes for the same activations in the same order") {
    tern::activation_meter meter;
    tern::heap_arena ram;
    tern::cpu_device cpu(ram, 1);
    tern::scratch_pool pool(ram);
    const auto run = [](auto make) {
        {
            auto a = make(20, 8);
            auto b = std::move(a);
            const auto c = make(19, 8); // of the same size in the pool
            const auto d = make(100, 80);
        }
        const auto e = make(100, 80); // served from what there is
        const auto f = make(300, 80);
    };
    run([&](std::size_t rows, std::size_t cols) { return tern::activation(meter, rows, cols); });
    run([&](std::size_t rows, std::size_t cols) { return tern::activation(cpu, pool, rows, cols); });
    CHECK(meter.peak() == ram.budget().requested());
    CHECK(meter.peak() == tern::bytes{2 * 640 + 32 * 1024 + 96 * 1024});
    const tern::bytes before = meter.peak();
    run([&](std::size_t rows, std::size_t cols) { return tern::activation(meter, rows, cols); });
    CHECK(meter.peak() == before); // all of it was given back
}
