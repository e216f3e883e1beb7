#include <tern/op/sample.hpp>
#include <tern/op/sampler.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace test = tern::test;

TEST_CASE("op/sample: the greatest logit of a row, wherever the logits lie, which stay as they are") {
    test::bench b;
    const std::vector<float> logits{0, 3, 1, 9, 2, 8};
    tern::activation x = b.make(logits, 2);
    tern::sampler greedy{{}};
    CHECK(b.loop.run(tern::sample(b.ctx, x, 0, greedy)) == 1);
    CHECK(b.loop.run(tern::sample(b.ctx, x, 1, greedy)) == 0);
    x = b.on_gpu(std::move(x));
    CHECK(b.loop.run(tern::sample(b.ctx, x, 1, greedy)) == 0);
    tern::sampler penal{{.repetition_penalty = 10}};
    const std::vector<std::int32_t> recent{0};
    CHECK(b.loop.run(tern::sample(b.ctx, x, 1, penal, recent)) == 2);
    CHECK(b.values(std::move(x)) == logits);
}

TEST_CASE("op/sample: a row that is not there and logits without data are refused") {
    test::bench b;
    const tern::activation x = b.make(2, 3);
    tern::sampler greedy{{}};
    CHECK_THROWS_AS(b.loop.run(tern::sample(b.ctx, x, 2, greedy)), tern::shape_error);
    const tern::activation shape = b.recording.make(b.cpu, 2, 3);
    CHECK_THROWS_AS(b.loop.run(tern::sample(b.recording, shape, 0, greedy)), tern::shape_error);
}
