#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <tern/kernel/rope_scaling.hpp>

using namespace tern::kernel;

TEST_CASE("kernel/rope_scaling: plain and linear") {
    const auto plain = rope_frequencies_of(4, 10000);
    CHECK(plain.inv_freq.size() == 2);
    CHECK(plain.inv_freq[0] == 1);
    CHECK(plain.inv_freq[1] == doctest::Approx(0.01));
    CHECK(plain.magnitude == 1);
    CHECK(rope_frequencies_of(4, 10000, linear_rope{4}).inv_freq[1] == doctest::Approx(0.0025));
}

TEST_CASE("kernel/rope_scaling: llama3 keeps high frequencies, divides low ones, and joins them") {
    // Base 500000, 128 dimensions, as Llama 3.1 has them. Turns in 8192 tokens: 8192 f / 2 pi.
    const auto plain = rope_frequencies_of(128, 500000);
    const auto f = rope_frequencies_of(128, 500000, llama3_rope{8, 1, 4, 8192});
    CHECK(f.inv_freq[0] == 1);
    CHECK(f.inv_freq[28] == plain.inv_freq[28]);                        // 4.2 turns
    CHECK(f.inv_freq[63] == doctest::Approx(plain.inv_freq[63] / 8));   // 0.003 turns
    CHECK(f.inv_freq[35] == doctest::Approx(plain.inv_freq[35] / 8));   // 0.998 turns
    const double turns = 8192 * plain.inv_freq[30] / 6.283185307179586; // 2.8
    const double keep = (turns - 1) / 3;
    CHECK(keep > 0.5);
    CHECK(keep < 0.7);
    CHECK(f.inv_freq[30] == doctest::Approx(plain.inv_freq[30] * (keep + (1 - keep) / 8)));
}

TEST_CASE("kernel/rope_scaling: yarn's ramp and magnitude") {
    // 64 dimensions, base 10000, context 4096: 32 turns at pair 10.47, 1 turn at 22.51; the ramp goes from 10 to 23.
    const auto plain = rope_frequencies_of(64, 10000);
    const auto f = rope_frequencies_of(64, 10000, yarn_rope{16, 4096});
    CHECK(f.inv_freq[10] == plain.inv_freq[10]);
    CHECK(f.inv_freq[23] == doctest::Approx(plain.inv_freq[23] / 16));
    CHECK(f.inv_freq[31] == doctest::Approx(plain.inv_freq[31] / 16));
    const double ramp = 5.0 / 13;
    CHECK(f.inv_freq[15] == doctest::Approx(plain.inv_freq[15] * (ramp / 16 + 1 - ramp)));
    CHECK(f.magnitude == doctest::Approx(0.1 * std::log(16.0) + 1));
    CHECK(rope_frequencies_of(64, 10000, yarn_rope{16, 4096, 32, 1, 1.5}).magnitude == 1.5);
    CHECK(yarn_magnitude(0.5) == 1);
    CHECK(yarn_magnitude(40, 0.707) == doctest::Approx(0.0707 * std::log(40.0) + 1));
    // Without rounding of the bounds.
    const double low = 64 * std::log(4096 / (32 * 6.283185307179586)) / (2 * std::log(10000.0));
    const double high = 64 * std::log(4096 / 6.283185307179586) / (2 * std::log(10000.0));
    const double exact = (15 - low) / (high - low);
    const auto g = rope_frequencies_of(64, 10000, yarn_rope{16, 4096, 32, 1, 0, false});
    CHECK(g.inv_freq[15] == doctest::Approx(plain.inv_freq[15] * (exact / 16 + 1 - exact)));
}

TEST_CASE("kernel/rope_scaling: listed factors divide") {
    const float factors[] = {1, 8};
    CHECK(rope_frequencies_of(4, 10000, listed_rope{factors}).inv_freq[1] == doctest::Approx(0.00125));
    CHECK(rope_frequencies_of(4, 10000, listed_rope{factors, 1.25}).magnitude == 1.25);
    CHECK_THROWS_AS(rope_frequencies_of(8, 10000, listed_rope{factors}), tern::shape_error);
    const float zero[] = {1, 0};
    CHECK_THROWS_AS(rope_frequencies_of(4, 10000, listed_rope{zero}), tern::config_error);
}

TEST_CASE("kernel/rope_scaling: settings that make no sense are refused") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    CHECK_THROWS_AS(rope_frequencies_of(0, 10000), tern::config_error);
    CHECK_THROWS_AS(rope_frequencies_of(3, 10000), tern::config_error);
    CHECK_THROWS_AS(rope_frequencies_of(4, nan), tern::config_error);
    CHECK_THROWS_AS(rope_frequencies_of(4, 10000, linear_rope{0}), tern::config_error);
    CHECK_THROWS_AS(rope_frequencies_of(4, 10000, llama3_rope{8, 4, 4, 8192}), tern::config_error);
    CHECK_THROWS_AS(rope_frequencies_of(4, 10000, llama3_rope{8, 1, 4, nan}), tern::config_error);
    CHECK_THROWS_AS(rope_frequencies_of(4, 10000, yarn_rope{4, 4096, 1, 32}), tern::config_error);
    CHECK_THROWS_AS(rope_frequencies_of(4, 1, yarn_rope{4, 4096}), tern::config_error);
}
