#include <tern/op/rms_norm.hpp>

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace test = tern::test;

TEST_CASE("op/rms_norm: whole rows and heads, weights in a user's own format, the same bits on both devices") {
    test::bench b;
    const std::vector<float> values = test::numbers(3 * 32, 6);
    const tern::activation x = b.make(values, 3);
    for (const std::size_t width : {32u, 16u}) {
        const std::vector<float> scale = test::numbers(width, 7);
        const test::op_weight w = b.weight<own::halves>(scale, {1, width}, "norm");
        const std::vector<float> y = b.values(tern::rms_norm(b.ctx, x, w, 1e-5f));
        REQUIRE(y.size() == values.size());
        for (std::size_t run = 0; run < values.size() / width; ++run) {
            double squares = 0;
            for (std::size_t i = 0; i < width; ++i)
                squares += std::pow(static_cast<double>(values[run * width + i]), 2);
            const double root = std::sqrt(squares / static_cast<double>(width) + 1e-5);
            for (std::size_t i = 0; i < width; ++i) {
                const double wanted =
                    static_cast<double>(values[run * width + i]) / root * static_cast<double>(scale[i]);
                CHECK(static_cast<double>(y[run * width + i]) == doctest::Approx(wanted).epsilon(1e-5));
            }
        }
        b.put(w, b.gpu);
        CHECK(test::same(b.values(tern::rms_norm(b.ctx, x, w, 1e-5f)), y));
    }
}

TEST_CASE("op/rms_norm: a norm that does not divide the width is named; the recorded shape is the computed one") {
    test::bench b;
    const tern::activation x = b.make(2, 24);
    for (const tern::tensor_shape shape :
         {tern::tensor_shape{1, 16}, tern::tensor_shape{2, 24}, tern::tensor_shape{1, 48}}) {
        const test::op_weight w = b.weight(shape, "blk.3.norm");
        CHECK(test::has(test::text_of<tern::shape_error>([&] { b.loop.run(tern::rms_norm(b.ctx, x, w, 0)); }),
                        "blk.3.norm"));
    }
    const test::op_weight w = b.weight({1, 8}, "n");
    const tern::activation shape = b.recording.make(b.cpu, 2, 24);
    const tern::activation y = b.loop.run(tern::rms_norm(b.recording, shape, w, 0));
    CHECK(y.rows() == 2);
    CHECK(y.cols() == 24);
    CHECK(std::move(b.notes).finish({}).tensors.size() == 1);
}
