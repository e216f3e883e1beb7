#include <doctest/doctest.h>

#include <limits>

#include <tern/kernel/cpu/linear.hpp>

#include "support.hpp"

#if defined(__x86_64__)

using namespace tern;
using namespace tern::test;
using kernel::cpu::linear_avx2;

namespace {

/// A format whose blocks do not divide a vector, nor a stretch of columns.
struct tens {
    static constexpr std::string_view name = "tens";
    static constexpr std::size_t block_size = 10;
    struct block {
        signed char q[10];
    };
    static void decode(const block& b, float* out) noexcept {
        for (int i = 0; i < 10; ++i) out[i] = 0.125f * static_cast<float>(b.q[i]);
    }
};

/// A format with blocks longer than a stretch.
struct long_blocks {
    static constexpr std::string_view name = "long_blocks";
    static constexpr std::size_t block_size = 1536;
    struct block {
        signed char q[1536];
    };
    static void decode(const block& b, float* out) noexcept {
        for (int i = 0; i < 1536; ++i) out[i] = 0.125f * static_cast<float>(b.q[i]);
    }
};

template <format F> void compare(std::size_t rows, std::size_t blocks, std::size_t tokens, bool biased) {
    numbers from{rows * 131 + blocks * 17 + tokens};
    const std::size_t cols = blocks * F::block_size, x_stride = cols + 3, y_stride = rows + 2;
    const auto w = weights<F>(from, rows * blocks);
    const auto plain = decoded<F>(w);
    const auto x = from(tokens * x_stride, -2, 2), bias = from(rows, -1, 1);
    std::vector<float> y(tokens * y_stride, 7), expected(y), split(y);
    const auto args = [&](std::vector<float>& to) {
        return kernel::linear::args{bytes_of(w.data()), rows,     cols,
                                    x.data(),           x_stride, tokens,
                                    to.data(),          y_stride, biased ? bias.data() : nullptr};
    };
    kernel::linear::reference<F>(args(expected), 0, rows);
    linear_avx2<F>(args(y), 0, rows);
    for (std::size_t t = 0; t < tokens; ++t) {
        for (std::size_t r = 0; r < rows; ++r) {
            double size = biased ? std::abs(double(bias[r])) : 0;
            for (std::size_t c = 0; c < cols; ++c)
                size += std::abs(double(plain[r * cols + c]) * double(x[t * x_stride + c]));
            REQUIRE(std::abs(double(y[t * y_stride + r]) - double(expected[t * y_stride + r])) <= 1e-6 * size);
        }
        REQUIRE(y[t * y_stride + rows] == 7);
        REQUIRE(y[t * y_stride + rows + 1] == 7);
    }
    // Any split of the rows, the same bits.
    for (std::size_t r = 0; r < rows;) {
        const std::size_t take = 1 + from.bits() % 5, end = r + take < rows ? r + take : rows;
        linear_avx2<F>(args(split), r, end);
        r = end;
    }
    REQUIRE(same(split, y));
    // One token at a time, the same bits.
    for (std::size_t t = 0; t < tokens; ++t) {
        std::vector<float> one(rows);
        linear_avx2<F>({bytes_of(w.data()), rows, cols, x.data() + t * x_stride, 0, 1, one.data(), 0,
                        biased ? bias.data() : nullptr},
                       0, rows);
        for (std::size_t r = 0; r < rows; ++r) REQUIRE(same(one[r], y[t * y_stride + r]));
    }
}

} // namespace

TEST_CASE(
    "kernel/cpu/linear: every format, odd shapes, within 1e-6 of the sum of sizes; splits and batches change no bit") {
    if (!has_avx2()) return;
    const auto all = []<class F>(std::type_identity<F>) {
        CAPTURE(F::name);
        for (const std::size_t rows : {1, 3, 4, 8, 13})
            for (const std::size_t tokens : {0, 1, 2, 3, 4, 7, 8}) {
                compare<F>(rows, 1, tokens, false);
                compare<F>(rows, 5, tokens, true);
                if (F::block_size < 512) compare<F>(rows, 1100 / F::block_size + 1, tokens, false);
            }
        compare<F>(5, 3, 64, true);
        if (F::block_size == 32) compare<F>(9, 19, 200, true); // more tokens than are taken at a time
        compare<F>(3, 0, 2, true);                             // no columns: the bias alone
    };
    each_format(all);
    all(std::type_identity<tens>{});
    all(std::type_identity<long_blocks>{});
}

TEST_CASE("kernel/cpu/linear: an activation beyond the range of f16 keeps its value") {
    if (!has_avx2()) return;
    for (const std::size_t tokens : {1, 64}) {
        std::vector<float> x(tokens * 32), y(tokens);
        std::vector<f16::block> w(32);
        for (std::size_t t = 0; t < tokens; ++t) x[t * 32] = 70000;
        w[0].value.set(f32_to_f16(0.001f));
        linear_avx2<f16>({bytes_of(w.data()), 1, 32, x.data(), 32, tokens, y.data(), 1}, 0, 1);
        for (const float v : y) CHECK(v == doctest::Approx(70).epsilon(1e-3));
    }
}

TEST_CASE("kernel/cpu/linear: denormals, huge scales, infinities and NaN come out as in the reference") {
    if (!has_avx2()) return;
    const float inf = std::numeric_limits<float>::infinity(), tiny = 1e-40f;
    const std::vector<float> w{1e30f, tiny, inf, 0, std::numeric_limits<float>::quiet_NaN(), -inf};
    const std::vector<float> x{1e-30f, 1e30f, 1, inf, tiny, -1e30f, -inf};
    for (const float a : w)
        for (const float b : x)
            for (const std::size_t cols : {1, 9, 600}) {
                std::vector<float> row(cols * 5, 0.0f), act(cols * 2, 0.0f), y(10), expected(10);
                for (std::size_t r = 0; r < 5; ++r) row[r * cols + cols - 1] = a;
                act[cols - 1] = act[2 * cols - 1] = b;
                const kernel::linear::args args{bytes_of(row.data()), 5, cols, act.data(), cols, 2, y.data(), 5};
                linear_avx2<f32>(args, 0, 5);
                kernel::linear::args reference = args;
                reference.y = expected.data();
                kernel::linear::reference<f32>(reference, 0, 5);
                for (std::size_t i = 0; i < 10; ++i) {
                    if (std::isfinite(expected[i]))
                        CHECK(double(y[i]) == doctest::Approx(double(expected[i])).epsilon(1e-6));
                    else
                        CHECK(same(y[i], expected[i]));
                }
            }
}

#endif
