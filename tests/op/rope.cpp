#include <tern/kernel/rope_scaling.hpp>
#include <tern/op/rope.hpp>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace test = tern::test;
using tern::kernel::rope_pairing;

TEST_CASE("op/rope: adjacent pairs and half-split pairs turn a unit vector to where they must") {
    test::bench b;
    const std::vector<std::int32_t> positions{1};
    const tern::kernel::rope_frequencies f = tern::kernel::rope_frequencies_of(4, 10000.0);
    const tern::rope_table table = b.loop.run(tern::rope_angles(b.ctx, positions, f));
    const std::vector<float> x{1, 0, 0, 0, 1, 0, 0, 0}; // two heads
    const std::vector<float> adjacent = b.values(tern::rope(b.ctx, b.make(x, 1), table, 4, rope_pairing::adjacent));
    const std::vector<float> halves = b.values(tern::rope(b.ctx, b.make(x, 1), table, 4, rope_pairing::half_split));
    for (const std::size_t head : {0u, 4u}) {
        CHECK(adjacent[head] == doctest::Approx(0.5403).epsilon(1e-3));
        CHECK(adjacent[head + 1] == doctest::Approx(0.8415).epsilon(1e-3));
        CHECK(adjacent[head + 2] == 0);
        CHECK(halves[head + 1] == 0);
        CHECK(halves[head + 2] == doctest::Approx(0.8415).epsilon(1e-3));
    }
    tern::activation there = b.on_gpu(b.make(x, 1));
    CHECK(test::same(b.values(tern::rope(b.ctx, std::move(there), table, 4, rope_pairing::half_split)), halves));
}

TEST_CASE("op/rope: only the first dimensions turn, by the position of each row") {
    test::bench b;
    const std::vector<std::int32_t> positions{0, 3};
    const tern::kernel::rope_frequencies f = tern::kernel::rope_frequencies_of(2, 10000.0);
    const tern::rope_table table = b.loop.run(tern::rope_angles(b.ctx, positions, f));
    CHECK(table.tokens == 2);
    CHECK(table.pairs == 1);
    const std::vector<float> y =
        b.values(tern::rope(b.ctx, b.make({1, 0, 5, 6, 1, 0, 5, 6}, 2), table, 4, rope_pairing::adjacent));
    CHECK(y[0] == 1);
    CHECK(static_cast<double>(y[4]) == doctest::Approx(std::cos(3.0)));
    CHECK(y[6] == 5);
    CHECK(y[7] == 6);
}

TEST_CASE("op/rope: shapes that do not fit are refused; the recorded shape is the computed one") {
    test::bench b;
    const std::vector<std::int32_t> positions{0, 1};
    const tern::kernel::rope_frequencies f = tern::kernel::rope_frequencies_of(4, 10000.0);
    const tern::rope_table table = b.loop.run(tern::rope_angles(b.ctx, positions, f));
    const auto turn = [&](std::size_t rows, std::size_t cols, std::size_t head) {
        b.loop.run(tern::rope(b.ctx, b.make(rows, cols), table, head, rope_pairing::adjacent));
    };
    CHECK_NOTHROW(turn(2, 8, 4));
    CHECK_THROWS_AS(turn(3, 8, 4), tern::shape_error);
    CHECK_THROWS_AS(turn(2, 6, 4), tern::shape_error);
    CHECK_THROWS_AS(turn(2, 8, 2), tern::shape_error);
    CHECK_THROWS_AS(turn(2, 8, 0), tern::shape_error);
    const tern::rope_table shape = b.loop.run(tern::rope_angles(b.recording, positions, f));
    const tern::activation y =
        b.loop.run(tern::rope(b.recording, b.recording.make(b.cpu, 2, 8), shape, 4, rope_pairing::adjacent));
    CHECK(y.rows() == 2);
    CHECK(y.cols() == 8);
    CHECK(std::move(b.notes).finish({}).nodes.size() == 2);
}
