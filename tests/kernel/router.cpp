#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "support.hpp"
#include <tern/kernel/router.hpp>

using namespace tern;
using namespace tern::test;
using kernel::route;
using kernel::router_gate;
using kernel::router_softmax;

namespace {

struct choice {
    std::vector<std::int32_t> ids;
    std::vector<float> weights;
};

choice choose(const std::vector<float>& logits, std::size_t k, router_softmax softmax, bool normalise = false,
              float scale = 1, router_gate gate = router_gate::softmax, const float* bias = nullptr) {
    choice out{std::vector<std::int32_t>(k, -7), std::vector<float>(k, -7)};
    run<route>({logits.data(), logits.size(), 1, logits.size(), k, softmax, normalise, scale, out.ids.data(),
                out.weights.data(), gate, bias});
    return out;
}

const float not_a_number = std::numeric_limits<float>::quiet_NaN();

} // namespace

TEST_CASE("kernel/router: equal logits go to the lowest ids, always") {
    for (int run = 0; run < 20; ++run)
        for (const auto softmax : {router_softmax::before_top_k, router_softmax::after_top_k}) {
            const auto c = choose(std::vector<float>(8, 0.25f), 2, softmax);
            CHECK(c.ids == std::vector<std::int32_t>{0, 1});
            CHECK(c.weights[0] == doctest::Approx(softmax == router_softmax::before_top_k ? 0.125 : 0.5));
        }
    CHECK(choose({1, 3, 2, 3}, 3, router_softmax::after_top_k).ids == std::vector<std::int32_t>{1, 3, 2});
}

TEST_CASE("kernel/router: the softmax before or after the choice") {
    const auto before = choose({2, 1, 0}, 2, router_softmax::before_top_k);
    CHECK(before.ids == std::vector<std::int32_t>{0, 1});
    CHECK(before.weights[0] == doctest::Approx(0.6652).epsilon(1e-4));
    CHECK(before.weights[1] == doctest::Approx(0.2447).epsilon(1e-4));
    const auto after = choose({2, 1, 0}, 2, router_softmax::after_top_k);
    CHECK(after.weights[0] == doctest::Approx(0.7311).epsilon(1e-4));
    CHECK(after.weights[1] == doctest::Approx(0.2689).epsilon(1e-4));
    CHECK(choose({2, 1, 0}, 2, router_softmax::before_top_k, true, 2).weights[0] ==
          doctest::Approx(2 * 0.7311).epsilon(1e-4));
}

TEST_CASE("kernel/router: NaN comes last and never out of range") {
    const auto c = choose({not_a_number, -5, not_a_number, 4}, 3, router_softmax::before_top_k);
    CHECK(c.ids == std::vector<std::int32_t>{3, 1, 0});
    CHECK(c.weights[0] == doctest::Approx(1 / (1 + std::exp(-9.0))));
    CHECK(c.weights[2] == 0);
    const auto all = choose({not_a_number, not_a_number, not_a_number}, 2, router_softmax::after_top_k);
    CHECK(all.ids == std::vector<std::int32_t>{0, 1});
    CHECK(std::isnan(all.weights[0]));
    const float low = -std::numeric_limits<float>::infinity();
    CHECK(choose({low, 1, low, low}, 4, router_softmax::after_top_k).ids == std::vector<std::int32_t>{1, 0, 2, 3});
}

TEST_CASE("kernel/router: sigmoid gates and a bias that counts for the choice only") {
    const auto plain = choose({0, std::log(3.0f), -1}, 2, router_softmax::before_top_k, true, 1, router_gate::sigmoid);
    CHECK(plain.ids == std::vector<std::int32_t>{1, 0});
    CHECK(plain.weights[0] == doctest::Approx(0.6)); // .75 and .5, normalised
    const float bias[] = {0, 0, 1};
    const auto biased =
        choose({0, std::log(3.0f), 0}, 2, router_softmax::before_top_k, false, 1, router_gate::sigmoid, bias);
    CHECK(biased.ids == std::vector<std::int32_t>{2, 1});
    CHECK(biased.weights[0] == doctest::Approx(0.5));
    CHECK(biased.weights[1] == doctest::Approx(0.75));
}

TEST_CASE("kernel/router: group, gather and combine bring every row to its expert and back") {
    const std::size_t tokens = 11, k = 3, experts = 5, cols = 7, pairs = tokens * k;
    numbers from{5};
    const auto logits = from(tokens * experts, -2, 2), x = from(tokens * cols, -1, 1);
    std::vector<std::int32_t> ids(pairs), offsets(experts + 1), order(pairs), row_of(pairs);
    std::vector<float> weights(pairs), rows(pairs * cols), out(tokens * cols);
    run<route>({logits.data(), experts, tokens, experts, k, router_softmax::after_top_k, false, 1, ids.data(),
                weights.data()});
    run<kernel::group_by_expert>({ids.data(), pairs, experts, offsets.data(), order.data(), row_of.data()});
    CHECK(offsets[0] == 0);
    CHECK(offsets[experts] == static_cast<std::int32_t>(pairs));
    for (std::size_t e = 0; e < experts; ++e)
        for (auto row = offsets[e]; row < offsets[e + 1]; ++row) {
            const auto pair = static_cast<std::size_t>(order[static_cast<std::size_t>(row)]);
            CHECK(ids[pair] == static_cast<std::int32_t>(e));
            CHECK(row_of[pair] == row);
            if (row > offsets[e])
                CHECK(order[static_cast<std::size_t>(row) - 1] < order[static_cast<std::size_t>(row)]);
        }
    run<kernel::gather_rows>({x.data(), cols, cols, order.data(), k, pairs, rows.data(), cols});
    run<kernel::combine>({rows.data(), cols, tokens, k, cols, row_of.data(), weights.data(), out.data(), cols});
    // The experts did nothing and the weights sum to 1: the tokens come back.
    for (std::size_t i = 0; i < out.size(); ++i) CHECK(double(out[i]) == doctest::Approx(double(x[i])).epsilon(1e-5));
}

TEST_CASE("kernel/router: combine adds in the order of the ranks; no tokens is no work") {
    const float y[] = {1, 1e8f, -1e8f}, weights[] = {1, 1, 1};
    const std::int32_t row_of[] = {1, 2, 0};
    float out = 0;
    run<kernel::combine>({y, 1, 1, 3, 1, row_of, weights, &out, 1});
    CHECK(out == 1);
    std::int32_t offsets[] = {7, 7, 7};
    run<kernel::group_by_expert>({nullptr, 0, 2, offsets, nullptr, nullptr});
    CHECK(offsets[0] == 0);
    CHECK(offsets[2] == 0);
    run<route>({nullptr, 8, 0, 8, 2, router_softmax::after_top_k, false, 1, nullptr, nullptr});
}
