#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "support.hpp"
#include <tern/kernel/elementwise.hpp>

using namespace tern;
using namespace tern::test;
using kernel::activation_kind;

TEST_CASE("kernel/elementwise: add, with a stride and in place") {
    std::vector<float> a{1, 2, 9, 3, 4, 9}, b{10, 20, 30, 40};
    run<kernel::add>({a.data(), 3, b.data(), 2, 2, 2, a.data(), 3});
    CHECK(a == std::vector<float>{11, 22, 9, 33, 44, 9});
    run<kernel::add>({a.data(), 3, a.data(), 3, 1, 2, a.data(), 3}); // both operands the result
    CHECK(a[0] == 22);
}

TEST_CASE("kernel/elementwise: gated, hand-computed") {
    const float gate[] = {1, -1, 0, 100, -100};
    const float up[] = {2, 2, 5, 1, 1};
    float y[5];
    const auto apply = [&](activation_kind kind) { run<kernel::gated>({gate, 5, up, 5, 1, 5, kind, y, 5}); };
    apply(activation_kind::silu);
    CHECK(y[0] == doctest::Approx(2 * 0.731058578630005));
    CHECK(y[1] == doctest::Approx(2 * -0.268941421369995));
    CHECK(y[2] == 0);
    CHECK(y[3] == 100);
    CHECK(y[4] == doctest::Approx(0));
    apply(activation_kind::gelu_erf);
    CHECK(y[0] == doctest::Approx(2 * 0.841344746068543));
    CHECK(y[1] == doctest::Approx(2 * -0.158655253931457));
    apply(activation_kind::gelu_tanh);
    CHECK(y[0] == doctest::Approx(2 * 0.841191990607477));
    CHECK(y[1] == doctest::Approx(2 * -0.158808009392523));
    apply(activation_kind::silu_clamped); // 100 is cut to 7, up has 1 added
    CHECK(y[0] == doctest::Approx(3 / (1 + std::exp(-1.702))));
    CHECK(y[3] == doctest::Approx(7 / (1 + std::exp(-1.702 * 7)) * 2));
    CHECK(y[4] == doctest::Approx(0));
}

TEST_CASE("kernel/elementwise: a NaN in gate or up is seen, whatever the activation") {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float gate[] = {nan, 1}, up[] = {1, nan};
    for (const auto kind : {activation_kind::silu, activation_kind::gelu_tanh, activation_kind::gelu_erf,
                            activation_kind::silu_clamped}) {
        float y[2];
        run<kernel::gated>({gate, 2, up, 2, 1, 2, kind, y, 2});
        CHECK(std::isnan(y[0]));
        CHECK(std::isnan(y[1]));
    }
}

TEST_CASE("kernel/elementwise: soft_cap and scale_rows") {
    const float x[] = {0, 30, -30, 1e9f};
    float y[4];
    run<kernel::soft_cap>({x, 4, 1, 4, 30, y, 4});
    CHECK(y[0] == 0);
    CHECK(y[1] == doctest::Approx(30 * 0.761594155955765));
    CHECK(y[2] == doctest::Approx(-30 * 0.761594155955765));
    CHECK(y[3] == 30);
    const float factors[] = {2, -1};
    run<kernel::scale_rows>({x, 2, 2, 2, factors, y, 2});
    CHECK(y[1] == 60);
    CHECK(y[2] == 30);
    run<kernel::scale_rows>({nullptr, 2, 0, 2, nullptr, nullptr, 2});
}
