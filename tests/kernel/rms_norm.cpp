#include <doctest/doctest.h>

#include <cmath>

#include "support.hpp"
#include <tern/kernel/rms_norm.hpp>

using namespace tern;
using namespace tern::test;

TEST_CASE("kernel/rms_norm: hand-computed, with and without weights") {
    const float x[] = {1, 2, 2, 4}; // mean of squares 6.25
    const float w[] = {1, 2, -1, 0.5f};
    float y[4];
    run<kernel::rms_norm, f32>({x, 4, 1, 4, bytes_of(w), 0.0f, y, 4});
    CHECK(y[0] == doctest::Approx(0.4));
    CHECK(y[1] == doctest::Approx(1.6));
    CHECK(y[2] == doctest::Approx(-0.8));
    CHECK(y[3] == doctest::Approx(0.8));
    run<kernel::rms_norm, f32>({x, 4, 1, 4, nullptr, 0.0f, y, 4});
    CHECK(y[3] == doctest::Approx(1.6));
    run<kernel::rms_norm, f32>({x, 4, 1, 4, nullptr, 2.75f, y, 4}); // sqrt(9)
    CHECK(y[3] == doctest::Approx(4.0 / 3));
}

TEST_CASE("kernel/rms_norm: a user's format of the weight, in place, with strides") {
    const signed char w[] = {2, 4, -2, 1};
    std::vector<float> x{1, 2, 2, 4, 9, 0, 0, 0, 0, 9};
    run<kernel::rms_norm, halves>({x.data(), 5, 2, 4, bytes_of(w), 1e-6f, x.data(), 5});
    CHECK(x[1] == doctest::Approx(1.6));
    CHECK(x[2] == doctest::Approx(-0.8));
    CHECK(x[4] == 9);
    CHECK(x[5] == 0); // a row of zeros stays one
    CHECK(x[9] == 9);
}

TEST_CASE("kernel/rms_norm: squares beyond f32 and no rows") {
    const float x[] = {1e30f, 1e30f};
    float y[2];
    run<kernel::rms_norm, f32>({x, 2, 1, 2, nullptr, 1e-5f, y, 2});
    CHECK(y[0] == doctest::Approx(1));
    run<kernel::rms_norm, f32>({nullptr, 2, 0, 2, nullptr, 1e-5f, nullptr, 2});
}
