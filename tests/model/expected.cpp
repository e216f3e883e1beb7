// Trained models in many formats against greedy tokens and probabilities computed in f64 from the same weights.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/base/json.hpp>
#include <tern/plan/all_cpu.hpp>

#include <support/data.hpp>
#include <support/model.hpp>

// Weights are decoded exactly and activations are f32, so one tolerance serves every format: 1e-4 of each probability.
TEST_CASE("model/expected: forty greedy tokens and the first probabilities of every file") {
    namespace test = tern::test;
    const auto index = test::shared_file("gguf/expected.json");
    if (!index) return;
    const std::vector<char> raw = test::read_all(*index);
    const tern::json_value root = tern::parse_json({raw.data(), raw.size()});
    CHECK(root.object().size() > 0);
    double worst = 0;
    for (const tern::json_member& file : root.object()) {
        CAPTURE(file.key);
        const auto path = test::shared_file("gguf/" + file.key + ".gguf");
        REQUIRE(path);
        test::model m(*path);
        m.place(tern::all_cpu{});

        std::vector<std::int32_t> expected;
        for (const tern::json_value& id : file.value.at("greedy40").array())
            expected.push_back(static_cast<std::int32_t>(id.as_int64()));
        REQUIRE(expected.size() == 41); // the first is the beginning of the text
        const std::vector<std::int32_t> start{expected.front()};
        expected.erase(expected.begin());
        CHECK(m.greedy(start, 40) == expected);

        tern::contiguous_cache kv = m.cache(1);
        const std::vector<float> logits = m.logits(start, kv);
        std::vector<std::int32_t> order(logits.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
        std::partial_sort(order.begin(), order.begin() + 5, order.end(), [&](std::int32_t a, std::int32_t b) {
            return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
        });
        const auto top = file.value.at("top5_first").array();
        REQUIRE(top.size() == 5);
        for (std::size_t i = 0; i < 5; ++i) {
            CAPTURE(i);
            CHECK(order[i] == top[i].array()[0].as_int64());
            const double wanted = top[i].array()[1].as_double();
            const double got = std::exp(-test::negative_log_probability(logits, order[i]));
            worst = std::max(worst, std::fabs(got - wanted) / wanted);
            CHECK(std::fabs(got - wanted) <= 1e-4 * wanted);
        }
    }
    std::printf("largest relative error of a probability: %.2e\n", worst);
}
