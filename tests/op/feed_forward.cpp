#include <tern/op/feed_forward.hpp>

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace test = tern::test;

TEST_CASE("op/feed_forward: swiglu and geglu, gate and up on any pair of devices, in a user's own format") {
    test::bench b;
    const std::vector<float> values = test::numbers(2 * 16, 3);
    const std::vector<float> g = test::numbers(8 * 16, 4);
    const std::vector<float> u = test::numbers(8 * 16, 5);
    const tern::activation x = b.make(values, 2);
    const test::op_weight gate = b.weight<own::halves>(g, {8, 16}, "gate");
    const test::op_weight up = b.weight<own::halves>(u, {8, 16}, "up");
    const std::vector<float> swi = b.values(tern::swiglu(b.ctx, x, gate, up));
    const std::vector<float> ge = b.values(tern::geglu(b.ctx, x, gate, up));
    REQUIRE(swi.size() == 16);
    for (std::size_t t = 0; t < 2; ++t)
        for (std::size_t r = 0; r < 8; ++r) {
            double a = 0, c = 0;
            for (std::size_t i = 0; i < 16; ++i) {
                a += static_cast<double>(values[t * 16 + i]) * static_cast<double>(g[r * 16 + i]);
                c += static_cast<double>(values[t * 16 + i]) * static_cast<double>(u[r * 16 + i]);
            }
            const double gelu = a / 2 * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (a + 0.044715 * a * a * a)));
            CHECK(static_cast<double>(swi[t * 8 + r]) == doctest::Approx(a / (1 + std::exp(-a)) * c).epsilon(1e-5));
            CHECK(static_cast<double>(ge[t * 8 + r]) == doctest::Approx(gelu * c).epsilon(1e-4));
        }
    b.put(up, b.gpu);
    CHECK(test::same(b.values(tern::swiglu(b.ctx, x, gate, up)), swi));
    b.put(gate, b.gpu);
    CHECK(test::same(b.values(tern::swiglu(b.ctx, x, gate, up)), swi));
    CHECK(test::same(b.values(tern::geglu(b.ctx, x, gate, up)), ge));
}

TEST_CASE("op/feed_forward: gate and up of different shapes are refused by name; recording makes them one group") {
    test::bench b;
    const test::op_weight gate = b.weight({8, 16}, "blk.0.gate");
    const test::op_weight up = b.weight({9, 16}, "blk.0.up");
    const tern::activation x = b.make(1, 16);
    const tern::activation narrow = b.make(1, 8);
    CHECK(
        test::has(test::text_of<tern::shape_error>([&] { b.loop.run(tern::swiglu(b.ctx, x, gate, up)); }), "blk.0.up"));
    CHECK(test::has(test::text_of<tern::shape_error>([&] { b.loop.run(tern::swiglu(b.ctx, narrow, gate, gate)); }),
                    "blk.0.gate"));
    const test::op_weight second = b.weight({8, 16}, "blk.0.second");
    const tern::activation shape = b.recording.make(b.cpu, 3, 16);
    const tern::activation y = b.loop.run(tern::swiglu(b.recording, shape, gate, second));
    CHECK(y.rows() == 3);
    CHECK(y.cols() == 8);
    const tern::graph g = std::move(b.notes).finish(b.recording.recorded_peak());
    REQUIRE(g.nodes.size() == 1);
    CHECK(g.nodes[0].tensors.size() == 2);
    CHECK(g.activation_peak == tern::bytes{3 * 256}); // x, gate and up, each in the smallest buffer
}
