#include <doctest/doctest.h>

#include <limits>

#include <tern/kernel/cpu/math.hpp>

#include "support.hpp"

#if defined(__x86_64__)

using namespace tern::test;

namespace {

[[gnu::target("avx2,fma,f16c")]] void exp_of(const float* x, float* y) {
    _mm256_storeu_ps(y, tern::kernel::cpu::exp8(_mm256_loadu_ps(x)));
}
[[gnu::target("avx2,fma,f16c")]] void tanh_of(const float* x, float* y) {
    _mm256_storeu_ps(y, tern::kernel::cpu::tanh8(_mm256_loadu_ps(x)));
}

} // namespace

TEST_CASE("kernel/cpu/math: exp and tanh stay within their stated errors") {
    if (!has_avx2()) return;
    double worst_exp = 0, worst_tanh = 0;
    for (float from = -87; from < 88; from += 0.0011f) {
        float x[8], e[8], t[8];
        for (int i = 0; i < 8; ++i) x[i] = from + 0.00013f * static_cast<float>(i);
        exp_of(x, e);
        tanh_of(x, t);
        for (int i = 0; i < 8; ++i) {
            const double exact = std::exp(double(x[i])), tanh = std::tanh(double(x[i]));
            worst_exp = std::max(worst_exp, std::abs(double(e[i]) / exact - 1));
            if (x[i] != 0) worst_tanh = std::max(worst_tanh, std::abs(double(t[i]) / tanh - 1));
        }
    }
    CHECK(worst_exp < 2e-7);
    CHECK(worst_tanh < 4e-7);
    for (float size = 1e-30f; size < 1; size *= 1.3f) { // near 0
        const float x[8] = {size, -size, size, size, size, size, size, size};
        float t[8];
        tanh_of(x, t);
        CHECK(double(t[0]) == doctest::Approx(std::tanh(double(size))).epsilon(4e-7));
        CHECK(t[1] == -t[0]);
    }
}

TEST_CASE("kernel/cpu/math: the ends of exp and tanh") {
    if (!has_avx2()) return;
    const float inf = std::numeric_limits<float>::infinity();
    const float x[8] = {inf, -inf, std::numeric_limits<float>::quiet_NaN(), 0, -100, 89, -1000, 1000};
    float e[8], t[8];
    exp_of(x, e);
    tanh_of(x, t);
    CHECK(e[0] == inf);
    CHECK(e[1] == 0);
    CHECK(std::isnan(e[2]));
    CHECK(e[3] == 1);
    CHECK(double(e[4]) == doctest::Approx(std::exp(-100.0)).epsilon(0.05)); // a denormal
    CHECK(e[5] == inf);
    CHECK(e[6] == 0);
    CHECK(e[7] == inf);
    CHECK(t[0] == 1);
    CHECK(t[1] == -1);
    CHECK(std::isnan(t[2]));
    CHECK(t[3] == 0);
    CHECK(t[7] == 1);
}

#endif
