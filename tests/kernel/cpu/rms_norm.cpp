#include <doctest/doctest.h>

#include <limits>

#include <tern/kernel/cpu/rms_norm.hpp>

#include "support.hpp"

#if defined(__x86_64__)

using namespace tern;
using namespace tern::test;

TEST_CASE("kernel/cpu/rms_norm: every format of the weight within 3e-7, in place, with strides") {
    if (!has_avx2()) return;
    each_format([]<class F>(std::type_identity<F>) {
        CAPTURE(F::name);
        for (const std::size_t blocks : {1, 3, 37}) {
            numbers from{blocks};
            const std::size_t cols = blocks * F::block_size, stride = cols + 1;
            const auto w = test::weights<F>(from, blocks);
            auto x = from(3 * stride, -3, 3);
            for (const bool weighted : {true, false}) {
                std::vector<float> y(3 * stride, 7), expected(y);
                const std::byte* weight = weighted ? bytes_of(w.data()) : nullptr;
                kernel::cpu::rms_norm_avx2<F>({x.data(), stride, 3, cols, weight, 1e-5f, y.data(), stride}, 0, 3);
                run<kernel::rms_norm, F>({x.data(), stride, 3, cols, weight, 1e-5f, expected.data(), stride});
                for (std::size_t i = 0; i < y.size(); ++i)
                    REQUIRE(std::abs(double(y[i]) - double(expected[i])) <= 3e-7 * std::abs(double(expected[i])));
                auto again = x;
                kernel::cpu::rms_norm_avx2<F>({again.data(), stride, 3, cols, weight, 1e-5f, again.data(), stride}, 0,
                                              3);
                for (std::size_t i = 0; i < cols; ++i) REQUIRE(same(again[i], y[i]));
            }
        }
    });
}

TEST_CASE("kernel/cpu/rms_norm: huge, tiny and infinite numbers come out as in the reference") {
    if (!has_avx2()) return;
    const float inf = std::numeric_limits<float>::infinity(), not_a_number = std::numeric_limits<float>::quiet_NaN();
    for (const float size : {1e30f, 3e38f, 1e-30f, 1e-42f, 0.0f, inf, not_a_number})
        for (const float eps : {1e-6f, 0.0f}) {
            std::vector<float> x(33, size), y(33), expected(33);
            x[5] = -size;
            x[32] = size / 2;
            kernel::cpu::rms_norm_avx2<f32>({x.data(), 33, 1, 33, nullptr, eps, y.data(), 33}, 0, 1);
            run<kernel::rms_norm, f32>({x.data(), 33, 1, 33, nullptr, eps, expected.data(), 33});
            for (std::size_t i = 0; i < 33; ++i) {
                if (std::isfinite(expected[i]))
                    CHECK(double(y[i]) == doctest::Approx(double(expected[i])).epsilon(1e-6));
                else
                    CHECK(same(y[i], expected[i]));
            }
        }
}

TEST_CASE("kernel/cpu/rms_norm: embed gives the bits of the reference") {
    if (!has_avx2()) return;
    each_format([]<class F>(std::type_identity<F>) {
        CAPTURE(F::name);
        numbers from{8};
        const std::size_t cols = 3 * F::block_size;
        const auto table = test::weights<F>(from, 7 * 3);
        const std::int32_t ids[] = {6, 0, 3, 3};
        for (const float scale : {1.0f, 0.37f}) {
            std::vector<float> out(4 * cols), expected(4 * cols);
            kernel::cpu::embed_avx2<F>({bytes_of(table.data()), 7, cols, ids, 4, scale, out.data(), cols}, 0, 4);
            run<kernel::embed, F>({bytes_of(table.data()), 7, cols, ids, 4, scale, expected.data(), cols});
            REQUIRE(same(out, expected));
        }
    });
}

#endif
