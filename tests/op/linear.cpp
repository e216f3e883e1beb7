#include <tern/op/linear.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace test = tern::test;

namespace {

std::vector<float> product(const std::vector<float>& x, const std::vector<float>& w, std::size_t rows, std::size_t cols,
                           const std::vector<float>& bias) {
    std::vector<float> y;
    for (std::size_t t = 0; t < x.size() / cols; ++t)
        for (std::size_t r = 0; r < rows; ++r) {
            double sum = bias.empty() ? 0 : static_cast<double>(bias[r]);
            for (std::size_t c = 0; c < cols; ++c)
                sum += static_cast<double>(x[t * cols + c]) * static_cast<double>(w[r * cols + c]);
            y.push_back(static_cast<float>(sum)); // quarters: exact
        }
    return y;
}

} // namespace

TEST_CASE("op/linear: x W^T and a bias, in the plain format and in a user's own, on either device") {
    test::bench b;
    const std::vector<float> x = test::numbers(5 * 32, 3);
    const std::vector<float> w = test::numbers(48 * 32, 4);
    const std::vector<float> bias = test::numbers(48, 5);
    const tern::activation in = b.make(x, 5);
    for (const bool own : {false, true}) {
        CAPTURE(own);
        const auto make = [&](const std::vector<float>& v, tern::tensor_shape s, const char* name) {
            return own ? b.weight<own::halves>(v, s, name) : b.weight<tern::f32>(v, s, name);
        };
        const test::op_weight matrix = make(w, {48, 32}, "w");
        const test::op_weight added = make(bias, {1, 48}, "b");
        for (tern::device* on : {static_cast<tern::device*>(&b.cpu), static_cast<tern::device*>(&b.gpu)}) {
            CAPTURE(on->name());
            b.put(matrix, *on); // the bias stays in host memory: it is brought for the call
            CHECK(b.loop.run(tern::linear(b.ctx, in, matrix)).on() == on);
            CHECK(b.values(tern::linear(b.ctx, in, matrix)) == product(x, w, 48, 32, {}));
            CHECK(b.values(tern::linear(b.ctx, in, matrix, added)) == product(x, w, 48, 32, bias));
            CHECK(b.values(tern::linear(b.ctx, in, matrix, test::op_weight{})) == product(x, w, 48, 32, {}));
        }
    }
    const test::op_weight matrix = b.weight({48, 32}, "w");
    const tern::activation nothing = b.ctx.make(b.cpu, 0, 32);
    CHECK(b.values(tern::linear(b.ctx, nothing, matrix)).empty());
}

TEST_CASE("op/linear: activations in 8 bits where the format has an integer form, the same bits on either device") {
    test::bench b;
    const std::vector<float> x = test::numbers(5 * 64, 3);
    const std::vector<float> w = test::numbers(48 * 64, 4);
    const tern::activation in = b.make(x, 5);
    const test::op_weight blocks = b.weight<tern::q8_0>(w, {48, 64}, "blocks");
    const test::op_weight plain = b.weight<tern::f32>(w, {48, 64}, "plain");
    const std::vector<float> before = b.values(tern::linear(b.ctx, in, blocks));
    const std::vector<float> exact = b.values(tern::linear(b.ctx, in, plain));
    b.ctx.compute_with(tern::activation_policy::q8);
    CHECK(b.values(tern::linear(b.ctx, in, plain)) == exact); // stays f32
    const std::vector<float> rounded = b.values(tern::linear(b.ctx, in, blocks));
    CHECK(rounded != before);
    for (std::size_t i = 0; i < exact.size(); ++i) CHECK(std::abs(rounded[i] - exact[i]) < 0.6f); // of about 30
    b.put(blocks, b.gpu);
    CHECK(test::same(b.values(tern::linear(b.ctx, in, blocks)), rounded));
    b.ctx.compute_with(tern::activation_policy::f32);
    CHECK(test::same(b.values(tern::linear(b.ctx, in, blocks)), before));
}

TEST_CASE("op/linear: a recording counts the room of activations in 8 bits") {
    for (const tern::activation_policy policy : {tern::activation_policy::f32, tern::activation_policy::q8}) {
        test::bench b;
        const test::op_weight w = b.weight<tern::q8_0>(test::numbers(8 * 64), {8, 64}, "w");
        b.recording.compute_with(policy);
        const tern::activation shape = b.recording.make(b.cpu, 1, 64);
        const tern::activation y = b.loop.run(tern::linear(b.recording, shape, w));
        // x and y in the smallest buffers, and one block of 352 bytes, in one of 384.
        const bool q8 = policy == tern::activation_policy::q8;
        CHECK(b.recording.recorded_peak() == tern::bytes{2 * 256 + (q8 ? 384u : 0u)});
    }
}

TEST_CASE("op/linear: a weight that owns its bytes works on the host") {
    test::bench b;
    using owned = tern::tensor<tern::formats<own::halves>, tern::tiers<tern::pageable>>;
    const std::vector<float> w = test::numbers(4 * 16, 8);
    const owned matrix = owned::own<own::halves>(b.ram, w, {4, 16}, "mine");
    const std::vector<float> x = test::numbers(16, 9);
    CHECK(b.values(tern::linear(b.ctx, b.make(x, 1), matrix)) == product(x, w, 4, 16, {}));
}

TEST_CASE("op/linear: wrong widths and biases name the tensor") {
    test::bench b;
    const test::op_weight w = b.weight({8, 16}, "blk.0.w");
    const tern::activation x = b.make(2, 12);
    const tern::activation fits = b.make(2, 16);
    const std::string width = test::text_of<tern::shape_error>([&] { b.loop.run(tern::linear(b.ctx, x, w)); });
    CHECK(test::has(width, "blk.0.w"));
    CHECK(test::has(width, "12"));
    CHECK(test::has(width, "16"));
    for (const tern::tensor_shape shape : {tern::tensor_shape{1, 7}, tern::tensor_shape{2, 8}}) {
        const test::op_weight bias = b.weight(shape, "blk.0.b");
        CHECK(test::has(test::text_of<tern::shape_error>([&] { b.loop.run(tern::linear(b.ctx, fits, w, bias)); }),
                        "blk.0.b"));
    }
    CHECK_THROWS_AS(b.loop.run(tern::linear(b.ctx, fits, test::op_weight{})), tern::shape_error);
}

TEST_CASE("op/linear: recorded shapes are the computed ones, with the weights of the call") {
    test::bench b;
    const test::op_weight w = b.weight({8, 16}, "w");
    const test::op_weight bias = b.weight({1, 8}, "b");
    const tern::activation shape = b.recording.make(b.cpu, 3, 16);
    const tern::activation y = b.loop.run(tern::linear(b.recording, shape, w, bias));
    const tern::activation computed = b.loop.run(tern::linear(b.ctx, b.make(3, 16), w, bias));
    CHECK(y.rows() == computed.rows());
    CHECK(y.cols() == computed.cols());
    CHECK(y.on() == nullptr);
    const tern::graph g = std::move(b.notes).finish(b.recording.recorded_peak());
    REQUIRE(g.nodes.size() == 1);
    CHECK(g.nodes[0].op == "linear");
    CHECK(g.nodes[0].tensors == std::vector<std::size_t>{0, 1});
    CHECK(g.tensors[1].name == "b");
    CHECK(g.activation_peak == tern::bytes{2 * 256}); // x and y, each in the smallest buffer
}
