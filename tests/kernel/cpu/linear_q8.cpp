#include <doctest/doctest.h>

#include "../q8_support.hpp"
#include "support.hpp"
#include <tern/kernel/cpu/linear_q8.hpp>

#if defined(__x86_64__)

using namespace tern;
using namespace tern::test;
using kernel::linear_q8;
using kernel::cpu::linear_q8_avx2;

namespace {

template <format F> void compare(std::size_t rows, std::size_t parts, std::size_t tokens, bool biased) {
    CAPTURE(rows);
    CAPTURE(parts);
    CAPTURE(tokens);
    const q8_case<F> c(rows, parts, tokens);
    const std::vector<float> expected = c.reference(biased);
    std::vector<float> y(rows * tokens, 7), split(y);
    linear_q8_avx2<F>(c.args(y, biased), 0, rows);
    REQUIRE(same(y, expected));
    // Any split of the rows, the same bits.
    numbers from{rows};
    for (std::size_t r = 0; r < rows;) {
        const std::size_t take = 1 + from.bits() % 21, end = r + take < rows ? r + take : rows;
        linear_q8_avx2<F>(c.args(split, biased), r, end);
        r = end;
    }
    REQUIRE(same(split, expected));
}

} // namespace

TEST_CASE("kernel/cpu/linear_q8: every format and odd shapes, the bits of the reference for any split and batch") {
    if (!has_avx2()) return;
    each_integer_format([]<class F>(std::type_identity<F>) {
        CAPTURE(F::name);
        for (const std::size_t rows : {1, 8, 16, 29})
            for (const std::size_t tokens : {0, 1, 2, 7}) compare<F>(rows, 8, tokens, tokens == 2);
        compare<F>(17, 45, 5, true); // more than are unpacked at a time, and a part of a block of eight
        compare<F>(16, 8, 71, true); // more tokens than are taken at a time
        compare<F>(9, 0, 2, true);   // no columns: the bias alone
    });
}

TEST_CASE("kernel/cpu/linear_q8: NaN and infinite activations reach their token and no other") {
    if (!has_avx2()) return;
    each_integer_format([]<class F>(std::type_identity<F>) {
        CAPTURE(F::name);
        q8_case<F> c(16, 8, 5);
        const std::vector<float> clean = c.reference();
        c.x[2 * c.cols + 40] = std::numeric_limits<float>::quiet_NaN();
        c.x[4 * c.cols + 7] = std::numeric_limits<float>::infinity();
        c.quantize();
        std::vector<float> y(16 * 5);
        linear_q8_avx2<F>(c.args(y), 0, 16);
        for (std::size_t t = 0; t < 5; ++t)
            for (std::size_t r = 0; r < 16; ++r) {
                if (t == 2 || t == 4)
                    REQUIRE(std::isnan(y[t * 16 + r]));
                else
                    REQUIRE(same(y[t * 16 + r], clean[t * 16 + r]));
            }
    });
}

TEST_CASE("kernel/cpu/linear_q8: an activation beyond the range of f16 keeps its value, in one token and in many") {
    if (!has_avx2()) return;
    for (const std::size_t tokens : {1, 64}) {
        q8_case<q8_0> c(16, 1, tokens);
        std::vector<float> row(32, 0.0f);
        row[0] = 0.001f;
        for (auto& block : c.w) q8_0::encode(row.data(), block);
        for (std::size_t i = 0; i < c.x.size(); ++i) c.x[i] = i % 32 == 0 ? 70000.0f : 0.0f;
        c.quantize();
        std::vector<float> y(16 * tokens);
        linear_q8_avx2<q8_0>(c.args(y), 0, 16);
        for (const float v : y) REQUIRE(v == doctest::Approx(70).epsilon(1e-3));
    }
}

#endif
