#include <tern/op/elementwise.hpp>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace test = tern::test;

TEST_CASE("op/elementwise: add and gated, wherever the operands lie") {
    test::bench b;
    const std::vector<float> a = test::numbers(20, 1);
    const std::vector<float> c = test::numbers(20, 2);
    const std::vector<float> sum = b.values(tern::add(b.ctx, b.make(a, 4), b.make(c, 4)));
    const tern::activation up = b.make(c, 4);
    const std::vector<float> gate = b.values(tern::gated(b.ctx, b.make(a, 4), up, tern::kernel::activation_kind::silu));
    for (std::size_t i = 0; i < 20; ++i) {
        CHECK(sum[i] == a[i] + c[i]);
        const double silu = static_cast<double>(a[i]) / (1 + std::exp(-static_cast<double>(a[i])));
        CHECK(static_cast<double>(gate[i]) == doctest::Approx(silu * static_cast<double>(c[i])).epsilon(1e-5));
    }
    tern::activation left = b.on_gpu(b.make(a, 4));
    CHECK(test::same(b.values(tern::add(b.ctx, std::move(left), up)), sum));
    tern::activation moved = b.on_gpu(b.make(a, 4));
    CHECK(test::same(b.values(tern::gated(b.ctx, std::move(moved), up, tern::kernel::activation_kind::silu)), gate));
    const tern::activation there = b.on_gpu(b.make(c, 4));
    const tern::activation result = b.loop.run(tern::add(b.ctx, b.make(a, 4), there));
    CHECK(result.on() == &b.gpu); // where the newer operand lies
    const tern::activation other = b.make(5, 4);
    CHECK_THROWS_AS(b.loop.run(tern::add(b.ctx, b.make(a, 4), other)), tern::shape_error);
    CHECK_THROWS_AS(b.loop.run(tern::gated(b.ctx, b.make(a, 4), other, tern::kernel::activation_kind::silu)),
                    tern::shape_error);
}

TEST_CASE("op/elementwise: soft_cap, where 0 is none") {
    test::bench b;
    const std::vector<float> x{-100, -1, 0, 0.5f, 100};
    const std::vector<float> y = b.values(tern::soft_cap(b.ctx, b.make(x, 1), 2));
    for (std::size_t i = 0; i < x.size(); ++i)
        CHECK(static_cast<double>(y[i]) == doctest::Approx(2 * std::tanh(static_cast<double>(x[i]) / 2)).epsilon(1e-5));
    CHECK(b.values(tern::soft_cap(b.ctx, b.make(x, 1), 0)) == x);
}

TEST_CASE("op/elementwise: select_rows gives just these rows, in this order") {
    test::bench b;
    const std::vector<float> x{0, 1, 10, 11, 20, 21};
    using ints = std::vector<std::int32_t>;
    const auto rows = [&](const ints& of) { return b.values(tern::select_rows(b.ctx, b.make(x, 3), of)); };
    CHECK(rows({0, 1, 2}) == x);
    CHECK(rows({2}) == std::vector<float>{20, 21});
    CHECK(rows({2, 1, 0}) == std::vector<float>{20, 21, 10, 11, 0, 1}); // as many as there are, in another order
    CHECK(rows({1, 1, 1}) == std::vector<float>{10, 11, 10, 11, 10, 11});
    CHECK(rows({}).empty());
    CHECK_THROWS_AS(rows({3}), tern::shape_error);
    CHECK_THROWS_AS(rows({-1}), tern::shape_error);
}

TEST_CASE("op/elementwise: recorded shapes are the computed ones") {
    test::bench b;
    const tern::activation other = b.recording.make(b.cpu, 3, 2);
    tern::activation x = b.loop.run(tern::add(b.recording, b.recording.make(b.cpu, 3, 2), other));
    x = b.loop.run(tern::soft_cap(b.recording, std::move(x), 1));
    const std::vector<std::int32_t> last{2};
    x = b.loop.run(tern::select_rows(b.recording, std::move(x), last));
    CHECK(x.rows() == 1);
    CHECK(x.cols() == 2);
    const tern::graph g = std::move(b.notes).finish({});
    REQUIRE(g.nodes.size() == 3);
    CHECK(g.nodes[0].op == "add");
    CHECK(g.nodes[1].op == "soft_cap");
    CHECK(g.nodes[2].op == "select_rows");
    CHECK(g.tensors.empty());
}
