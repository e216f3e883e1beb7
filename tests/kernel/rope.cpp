#include <doctest/doctest.h>

#include <cmath>

#include "support.hpp"
#include <tern/kernel/rope.hpp>

using namespace tern;
using namespace tern::test;
using kernel::rope_pairing;

TEST_CASE("kernel/rope: adjacent pairs and half split differ as they must") {
    const std::int32_t position = 1;
    const double inv_freq[] = {1, 0.01};
    float c[2], s[2], y[4];
    run<kernel::rope_angles>({&position, 1, inv_freq, 2, 1, c, s});
    CHECK(c[0] == doctest::Approx(0.5403023));
    CHECK(s[0] == doctest::Approx(0.8414710));
    CHECK(s[1] == doctest::Approx(0.0099998));
    const float x[] = {1, 0, 0, 0};
    run<kernel::rope>({x, 4, 1, 1, 4, 4, rope_pairing::adjacent, c, s, y, 4});
    CHECK(y[0] == doctest::Approx(0.5403).epsilon(1e-4));
    CHECK(y[1] == doctest::Approx(0.8415).epsilon(1e-4));
    CHECK(y[2] == 0);
    CHECK(y[3] == 0);
    run<kernel::rope>({x, 4, 1, 1, 4, 4, rope_pairing::half_split, c, s, y, 4});
    CHECK(y[0] == doctest::Approx(0.5403).epsilon(1e-4));
    CHECK(y[1] == 0);
    CHECK(y[2] == doctest::Approx(0.8415).epsilon(1e-4));
    CHECK(y[3] == 0);
    static_assert(!std::is_default_constructible_v<kernel::stated_pairing>, "the pairing must have no default");
}

TEST_CASE("kernel/rope: a part of the head, several heads, in place, split anywhere") {
    const std::int32_t positions[] = {0, 3, 7};
    const double inv_freq[] = {1, 0.1};
    std::vector<float> c(6), s(6);
    run<kernel::rope_angles>({positions, 3, inv_freq, 2, 1, c.data(), s.data()});
    for (const auto pairing : {rope_pairing::adjacent, rope_pairing::half_split}) {
        std::vector<float> x = numbers{1}(3 * 13, -1, 1), y(3 * 13), split(3 * 13), again = x;
        // two heads of 6, of which 4 turn, in rows of 13
        run<kernel::rope>({x.data(), 13, 3, 2, 6, 4, pairing, c.data(), s.data(), y.data(), 13});
        run<kernel::rope>({again.data(), 13, 3, 2, 6, 4, pairing, c.data(), s.data(), again.data(), 13});
        const kernel::rope::args parts{x.data(), 13, 3, 2, 6, 4, pairing, c.data(), s.data(), split.data(), 13};
        CHECK(kernel::rope::items(parts) == 6);
        kernel::rope::reference<kernel::no_format>(parts, 3, 6);
        kernel::rope::reference<kernel::no_format>(parts, 0, 3);
        for (std::size_t t = 0; t < 3; ++t)
            for (std::size_t i = 0; i < 12; ++i) {
                const std::size_t at = t * 13 + i;
                CHECK(again[at] == y[at]);
                CHECK(split[at] == y[at]);
                if (t == 0 || i % 6 >= 4) CHECK(y[at] == x[at]); // position 0, and what does not turn
            }
        // A turn keeps the length.
        double before = 0, after = 0;
        for (std::size_t i = 13; i < 25; ++i)
            before += double(x[i]) * double(x[i]), after += double(y[i]) * double(y[i]);
        CHECK(after == doctest::Approx(before));
        CHECK(y[13] != x[13]);
    }
}

TEST_CASE("kernel/rope: angles far from the origin keep their precision, and the magnitude multiplies") {
    const std::int32_t position = 1'000'000;
    const double inv_freq = std::pow(10000.0, -2.0 / 128);
    float c, s;
    run<kernel::rope_angles>({&position, 1, &inv_freq, 1, 2, &c, &s});
    CHECK(double(c) == doctest::Approx(2 * std::cos(1e6 * inv_freq)).epsilon(1e-6));
    CHECK(double(s) == doctest::Approx(2 * std::sin(1e6 * inv_freq)).epsilon(1e-6));
    run<kernel::rope_angles>({nullptr, 0, &inv_freq, 1, 1, nullptr, nullptr});
}
