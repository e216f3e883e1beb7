#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <tern/kernel/sample.hpp>

using tern::kernel::sampler;
using tern::kernel::sampling;

namespace {

const float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// How often each token comes in 4000 draws.
std::vector<int> counts(const sampling& how, const std::vector<float>& logits) {
    sampler next{how};
    std::vector<int> out(logits.size());
    for (int i = 0; i < 4000; ++i) {
        auto copy = logits;
        ++out[static_cast<std::size_t>(next(copy))];
    }
    return out;
}

std::int32_t greedy(std::vector<float> logits, const std::vector<std::int32_t>& recent = {}, sampling how = {}) {
    return sampler{how}(logits, recent);
}

} // namespace

TEST_CASE("kernel/sample: greedy takes the greatest, of equal ones the lowest id, never a NaN") {
    CHECK(greedy({1, 3, 2}) == 1);
    CHECK(greedy({3, 1, 3}) == 0);
    CHECK(greedy({not_a_number, 1, not_a_number, 2}) == 3);
    CHECK(greedy({std::numeric_limits<float>::infinity(), 1}) == 0);
    CHECK_THROWS_AS(greedy({not_a_number, not_a_number}), tern::error);
    CHECK_THROWS_AS(greedy({}), tern::shape_error);
}

TEST_CASE("kernel/sample: the generator is SplitMix64") {
    tern::kernel::counter_random random{1234567};
    CHECK(random.bits() == 6457827717110365317u); // the published sequence of this seed
    CHECK(random.bits() == 3203168211198807973u);
    const double u = random.uniform();
    CHECK(u >= 0);
    CHECK(u < 1);
}

TEST_CASE("kernel/sample: draws follow the probabilities and the temperature") {
    const std::vector<float> logits{0, std::log(3.0f), not_a_number};
    const auto one = counts({.temperature = 1, .seed = 1}, logits);
    CHECK(one[1] == doctest::Approx(3000).epsilon(0.05));
    CHECK(one[2] == 0);
    const auto half = counts({.temperature = 0.5f, .seed = 1}, logits); // 1 to 9
    CHECK(half[1] == doctest::Approx(3600).epsilon(0.05));
}

TEST_CASE("kernel/sample: top-k, top-p and min-p cut what they say") {
    const std::vector<float> logits{std::log(1.0f), std::log(4.0f), std::log(2.0f), std::log(3.0f)}; // .1 .4 .2 .3
    const auto kept = [&](sampling how) {
        how.temperature = 1;
        const auto n = counts(how, logits);
        std::string out;
        for (std::size_t i = 0; i < n.size(); ++i)
            if (n[i]) out += static_cast<char>('0' + i);
        return out;
    };
    CHECK(kept({}) == "0123");
    CHECK(kept({.top_k = 1}) == "1");
    CHECK(kept({.top_k = 3}) == "123");
    CHECK(kept({.top_k = 100}) == "0123");
    CHECK(kept({.top_p = 0.39f}) == "1");
    CHECK(kept({.top_p = 0.65f}) == "13");
    CHECK(kept({.top_p = 0.75f}) == "123");
    CHECK(kept({.min_p = 0.6f}) == "13");
    CHECK(kept({.min_p = 1}) == "1");
    // Top-p counts after top-k: of 3 the two greatest have 7/9, of all .7.
    CHECK(kept({.top_k = 3, .top_p = 0.75f}) == "13");
    CHECK(kept({.top_k = 3, .min_p = 0.6f}) == "13");
    const auto n = counts({.temperature = 1, .top_k = 2, .seed = 3}, logits);
    CHECK(n[1] == doctest::Approx(4000 * 4 / 7).epsilon(0.05));
}

TEST_CASE("kernel/sample: equal logits are cut in order of id") {
    const auto n = counts({.temperature = 1, .top_k = 3}, std::vector<float>(8, 1.0f));
    CHECK(n[0] > 0);
    CHECK(n[2] > 0);
    CHECK(n[3] == 0);
}

TEST_CASE("kernel/sample: the penalty divides positive logits, multiplies negative ones, once, within its window") {
    const sampling how{.repetition_penalty = 2, .penalty_window = 3};
    CHECK(greedy({5, 4}, {0}, how) == 1);             // 2.5 against 4
    CHECK(greedy({5, 2}, {0, 0, 0}, how) == 0);       // once, 2.5 and not 0.6
    CHECK(greedy({-1, -1.5f}, {0}, how) == 1);        // -2 against -1.5
    CHECK(greedy({5, 4, 0}, {0, 2, 2, 2}, how) == 0); // beyond the window
    CHECK_THROWS_AS(greedy({5, 4}, {2}, how), tern::shape_error);
    CHECK_THROWS_AS(greedy({5, 4}, {-1}, how), tern::shape_error);
    sampler next{how}; // nothing is left over from one call to the next
    std::vector<float> first{5, 4}, second{5, 4};
    const std::int32_t recent[] = {0};
    CHECK(next(first, recent) == 1);
    CHECK(next(second) == 0);
}

TEST_CASE("kernel/sample: one seed, one sequence") {
    std::vector<float> logits(100);
    for (std::size_t i = 0; i < 100; ++i) logits[i] = static_cast<float>(i % 7);
    const auto draw = [&](std::uint64_t seed) {
        sampler next{{.temperature = 1, .top_k = 40, .top_p = 0.9f, .seed = seed}};
        std::vector<std::int32_t> out;
        for (int i = 0; i < 50; ++i) {
            auto copy = logits;
            out.push_back(next(copy));
        }
        return out;
    };
    CHECK(draw(1) == draw(1));
    CHECK(draw(1) != draw(2));
}

TEST_CASE("kernel/sample: top probabilities") {
    sampler next{{}};
    const std::vector<float> logits{0, std::log(2.0f), not_a_number, 0};
    const auto top = next.top_probabilities(logits, 2);
    REQUIRE(top.size() == 2);
    CHECK(top[0].id == 1);
    CHECK(top[0].probability == doctest::Approx(0.5));
    CHECK(top[1].id == 0);
    CHECK(top[1].probability == doctest::Approx(0.25));
    CHECK(next.top_probabilities(logits, 10).size() == 3);
}

TEST_CASE("kernel/sample: settings out of range are refused by name") {
    CHECK_THROWS_AS(sampler{{.temperature = -1}}, tern::config_error);
    CHECK_THROWS_AS(sampler{{.temperature = not_a_number}}, tern::config_error);
    CHECK_THROWS_AS(sampler{{.top_k = -1}}, tern::config_error);
    CHECK_THROWS_AS(sampler{{.top_p = 0}}, tern::config_error);
    CHECK_THROWS_AS(sampler{{.min_p = 1.5f}}, tern::config_error);
    CHECK_THROWS_WITH_AS(sampler{{.repetition_penalty = 0}},
                         "sampling: repetition_penalty must be a positive number (1 for none)", tern::config_error);
}
