#include <doctest/doctest.h>

#include "q8_support.hpp"

using namespace tern;
using namespace tern::test;
using kernel::linear_q8;

namespace {

/// A user's format of 32 numbers in half steps, and how its whole numbers are read.
struct half_steps {
    static constexpr std::string_view name = "half_steps";
    static constexpr std::size_t block_size = 32;
    struct block {
        signed char q[32];
    };
    static void decode(const block& b, float* out) noexcept {
        for (int i = 0; i < 32; ++i) out[i] = 0.5f * static_cast<float>(b.q[i]);
    }
};

} // namespace

template <> struct tern::kernel::integer_form<half_steps> {
    static constexpr int lows = 0;
    static void read(const half_steps::block* row, std::size_t part, integer_part& out) {
        out.scale = 0.5f;
        for (int i = 0; i < 32; ++i) out.code[i] = row[part].q[i];
    }
};

TEST_CASE("kernel/linear_q8: every format agrees with the exact product of what was quantized, within its bound") {
    each_integer_format([]<class F>(std::type_identity<F>) {
        CAPTURE(F::name);
        for (const std::size_t parts : {8, 16, 72, 272})
            for (const std::size_t tokens : {1, 3}) {
                const q8_case<F> c(3, F::block_size == 32 ? parts + 3 : parts, tokens);
                const std::vector<float> y = c.reference();
                for (std::size_t t = 0; t < tokens; ++t)
                    for (std::size_t r = 0; r < 3; ++r) {
                        const auto [sum, size] = c.exact(r, t);
                        REQUIRE(std::abs(double(y[t * 3 + r]) - sum) <= q8_error(c.cols) * size);
                    }
            }
    });
}

TEST_CASE("kernel/linear_q8: the error against activations in f32 is that of rounding them to 8 bits") {
    each_integer_format([]<class F>(std::type_identity<F>) {
        CAPTURE(F::name);
        const q8_case<F> c(16, 64, 4);
        const std::vector<float> y = c.reference();
        double wrong = 0, norm = 0;
        for (std::size_t t = 0; t < 4; ++t)
            for (std::size_t r = 0; r < 16; ++r) {
                double sum = 0;
                for (std::size_t i = 0; i < c.cols; ++i) {
                    float plain[F::block_size];
                    F::decode(c.w[(r * c.cols + i) / F::block_size], plain);
                    sum += double(plain[i % F::block_size]) * double(c.x[t * c.cols + i]);
                }
                wrong += (double(y[t * 16 + r]) - sum) * (double(y[t * 16 + r]) - sum);
                norm += sum * sum;
            }
        // Uniform numbers: a step of 1/127 of the largest, its error 1/sqrt(12) of that, against 1/sqrt(3).
        CHECK(std::sqrt(wrong / norm) < 0.006);
        CHECK(std::sqrt(wrong / norm) > 0.001);
    });
}

TEST_CASE("kernel/linear_q8: a user's format, a bias, no tokens, and an activation beyond the range of f16") {
    half_steps::block w[2] = {};
    w[0].q[0] = 2;  // 1
    w[0].q[31] = 4; // 2
    w[1].q[0] = -2;
    std::vector<float> x(64, 0.0f), y(6, 7.0f);
    x[0] = 127;
    x[31] = 1;
    x[32] = 70000;
    std::vector<kernel::q8_block> codes(2);
    run<kernel::quantize_q8>({x.data(), 32, 32, 2, codes.data()});
    const float bias[2] = {0.5f, -10};
    run<linear_q8, half_steps>({bytes_of(w), 2, 32, codes.data(), 2, y.data(), 3, bias});
    CHECK(y[0] == 129.5f);
    CHECK(y[1] == -137);
    CHECK(y[2] == 7);
    CHECK(y[3] == doctest::Approx(70000.5).epsilon(1e-6));
    CHECK(y[4] == doctest::Approx(-70010).epsilon(1e-6));
    run<linear_q8, half_steps>({bytes_of(w), 2, 32, nullptr, 0, nullptr, 3});
}
