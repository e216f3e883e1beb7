#include <doctest/doctest.h>

#include <limits>

#include <tern/kernel/cpu/elementwise.hpp>

#include "support.hpp"

#if defined(__x86_64__)

using namespace tern;
using namespace tern::test;
using kernel::activation_kind;

namespace {

const activation_kind kinds[] = {activation_kind::silu, activation_kind::gelu_tanh, activation_kind::gelu_erf,
                                 activation_kind::silu_clamped};

} // namespace

TEST_CASE("kernel/cpu/elementwise: gated within its stated error, in place, at every row length") {
    if (!has_avx2()) return;
    numbers from{2};
    for (const auto kind : kinds)
        for (const std::size_t cols : {1, 7, 8, 9, 31, 500}) {
            const std::size_t stride = cols + 1;
            const float most = cols == 500 ? 100.0f : 6.0f;
            auto gate = from(3 * stride, -most, most);
            const auto up = from(3 * stride, -9, 9);
            std::vector<float> y(3 * stride, 7), expected(y);
            kernel::gated::args args{gate.data(), stride, up.data(), stride, 3, cols, kind, y.data(), stride};
            kernel::cpu::gated_avx2(args, 0, 3);
            args.y = expected.data();
            run<kernel::gated>(args);
            for (std::size_t i = 0; i < y.size(); ++i)
                REQUIRE(std::abs(double(y[i]) - double(expected[i])) <= 2e-6 * std::abs(double(expected[i])) + 1e-12);
            args.y = gate.data();
            kernel::cpu::gated_avx2(args, 1, 2);
            for (std::size_t i = 0; i < cols; ++i) REQUIRE(gate[stride + i] == y[stride + i]);
        }
}

TEST_CASE("kernel/cpu/elementwise: gated at NaN and infinities") {
    if (!has_avx2()) return;
    const float inf = std::numeric_limits<float>::infinity(), not_a_number = std::numeric_limits<float>::quiet_NaN();
    const float gate[] = {not_a_number, 1, inf, 1e30f, 1}, up[] = {1, not_a_number, 1, 1, inf};
    for (const auto kind : kinds) {
        float y[5], expected[5];
        kernel::gated::args args{gate, 5, up, 5, 1, 5, kind, y, 5};
        kernel::cpu::gated_avx2(args, 0, 1);
        args.y = expected;
        run<kernel::gated>(args);
        for (int i = 0; i < 5; ++i) {
            if (std::isfinite(expected[i]))
                CHECK(y[i] == doctest::Approx(expected[i]));
            else
                CHECK(same(y[i], expected[i]));
        }
    }
}

TEST_CASE("kernel/cpu/elementwise: soft_cap within 1e-6; add and scale_rows to the bit; combine within 1e-6") {
    if (!has_avx2()) return;
    numbers from{4};
    for (const std::size_t cols : {1, 8, 13, 64, 101}) {
        const auto a = from(2 * cols, -200, 200), b = from(2 * cols, -3, 3);
        std::vector<float> y(2 * cols), expected(2 * cols);
        kernel::cpu::soft_cap_avx2({a.data(), cols, 2, cols, 30, y.data(), cols}, 0, 2);
        run<kernel::soft_cap>({a.data(), cols, 2, cols, 30, expected.data(), cols});
        for (std::size_t i = 0; i < y.size(); ++i)
            REQUIRE(std::abs(double(y[i]) - double(expected[i])) <= 1e-6 * std::abs(double(expected[i])));
        kernel::cpu::add_avx2({a.data(), cols, b.data(), cols, 2, cols, y.data(), cols}, 0, 2);
        run<kernel::add>({a.data(), cols, b.data(), cols, 2, cols, expected.data(), cols});
        REQUIRE(same(y, expected));
        const float factors[] = {0.3f, -7};
        kernel::cpu::scale_rows_avx2({a.data(), cols, 2, cols, factors, y.data(), cols}, 0, 2);
        run<kernel::scale_rows>({a.data(), cols, 2, cols, factors, expected.data(), cols});
        REQUIRE(same(y, expected));
        const std::int32_t rows[] = {1, 0, 0, 1};
        const float weights[] = {0.3f, 0.7f, 0.9f, 0.1f};
        kernel::cpu::combine_avx2({a.data(), cols, 2, 2, cols, rows, weights, y.data(), cols}, 0, 2);
        run<kernel::combine>({a.data(), cols, 2, 2, cols, rows, weights, expected.data(), cols});
        for (std::size_t i = 0; i < y.size(); ++i) REQUIRE(std::abs(double(y[i]) - double(expected[i])) <= 1e-6 * 200);
    }
}

#endif
