#include <doctest/doctest.h>

#include "support.hpp"
#include <tern/kernel/linear.hpp>

using namespace tern;
using namespace tern::test;

TEST_CASE("kernel/linear: an activation beyond the range of f16 keeps its value") {
    for (const std::size_t tokens : {1, 64}) {
        std::vector<float> x(tokens * 32), w(32), y(tokens);
        for (std::size_t t = 0; t < tokens; ++t) x[t * 32] = 70000;
        w[0] = 0.001f;
        run<kernel::linear, f32>({bytes_of(w.data()), 1, 32, x.data(), 32, tokens, y.data(), 1});
        for (const float v : y) CHECK(v == doctest::Approx(70).epsilon(1e-3));
        std::vector<std::uint16_t> half(32);
        half[0] = f32_to_f16(0.001f);
        run<kernel::linear, f16>({bytes_of(half.data()), 1, 32, x.data(), 32, tokens, y.data(), 1});
        for (const float v : y) CHECK(v == doctest::Approx(70).epsilon(1e-3));
    }
}

TEST_CASE("kernel/linear: a user's format, a bias and strides") {
    const signed char w[] = {2, 4, 6, 8, -2, 0, 0, 2}; // two rows: 1 2 3 4 and -1 0 0 1
    const float x[] = {1, 1, 1, 1, 9, 1, 2, 3, 4, 9};
    const float bias[] = {0.5f, -10};
    float y[] = {7, 7, 7, 7, 7, 7};
    run<kernel::linear, halves>({bytes_of(w), 2, 4, x, 5, 2, y, 3, bias});
    CHECK(y[0] == 10.5f);
    CHECK(y[1] == -10);
    CHECK(y[2] == 7);
    CHECK(y[3] == 30.5f);
    CHECK(y[4] == -7);
    CHECK(y[5] == 7);
}

TEST_CASE("kernel/linear: no tokens and no rows touch nothing") {
    const signed char w[] = {2, 4, 6, 8};
    run<kernel::linear, halves>({bytes_of(w), 1, 4, nullptr, 4, 0, nullptr, 1});
    run<kernel::linear, halves>({nullptr, 0, 4, nullptr, 4, 3, nullptr, 1});
    CHECK(kernel::linear::items({nullptr, 0, 4, nullptr, 4, 3, nullptr, 1}) == 0);
}
