#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "support.hpp"
#include <tern/kernel/quantize_q8.hpp>

using namespace tern::test;
using tern::kernel::q8_block;
using tern::kernel::quantize_q8;

namespace {

std::vector<q8_block> quantized(const std::vector<float>& x, std::size_t tokens = 1) {
    const std::size_t cols = x.size() / tokens;
    std::vector<q8_block> y(tokens * tern::kernel::q8_blocks(cols));
    run<quantize_q8>({x.data(), cols, cols, tokens, y.data()});
    return y;
}

float value(const q8_block& b, std::size_t i) { return b.scale[i / 32] * static_cast<float>(b.codes[i]); }

} // namespace

TEST_CASE("kernel/quantize_q8: codes, sums and scales of a group by hand; the rest of the block is zero") {
    std::vector<float> x(32, 0.0f);
    x[0] = -254; // one step is 2
    x[1] = 2;
    x[2] = 3; // halfway between 1 and 2: the even one
    x[3] = 5; // between 2 and 3: the even one
    x[20] = 100;
    const q8_block b = quantized(x)[0];
    CHECK(b.scale[0] == 2);
    CHECK(int(b.codes[0]) == -127);
    CHECK(int(b.codes[1]) == 1);
    CHECK(int(b.codes[2]) == 2);
    CHECK(int(b.codes[3]) == 2);
    CHECK(int(b.codes[20]) == 50);
    CHECK(b.sums[0] == -122);
    CHECK(b.sums[1] == 50);
    CHECK(b.scaled_sum[0] == -144);
    for (std::size_t g = 1; g < 8; ++g) CHECK(b.scale[g] == 0);
    for (std::size_t i = 32; i < 256; ++i) CHECK(int(b.codes[i]) == 0);
}

TEST_CASE("kernel/quantize_q8: a number moves by at most half a step of its group, at any size") {
    numbers from{3};
    for (const float size : {1.0f, 1e-30f, 1e30f, 3e38f}) {
        std::vector<float> x = from(2 * 608, -1, 1);
        for (float& v : x) v *= size;
        const std::vector<q8_block> y = quantized(x, 2);
        REQUIRE(y.size() == 6);
        for (std::size_t t = 0; t < 2; ++t)
            for (std::size_t i = 0; i < 608; ++i) {
                const q8_block& b = y[t * 3 + i / 256];
                const double step = double(b.scale[i % 256 / 32]);
                REQUIRE(std::abs(double(value(b, i % 256)) - double(x[t * 608 + i])) <= 0.50001 * step);
                REQUIRE(std::abs(int(b.codes[i % 256])) <= 127);
            }
    }
}

TEST_CASE("kernel/quantize_q8: NaN and infinity take their group, denormals become zero") {
    const float inf = std::numeric_limits<float>::infinity();
    for (const float bad : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
        std::vector<float> x(64, 1.0f);
        x[40] = bad;
        const q8_block b = quantized(x)[0];
        CHECK(b.scale[0] == 1 / 127.0f);
        CHECK(std::isnan(b.scale[1]));
        CHECK(std::isnan(b.scaled_sum[1]));
        CHECK(int(b.codes[39]) == 0);
    }
    for (const float tiny : {1e-40f, 0x1p-121f, 0.0f}) {
        const q8_block b = quantized(std::vector<float>(32, tiny))[0];
        CHECK(b.scale[0] == 0);
        CHECK(int(b.codes[0]) == 0);
    }
    CHECK(int(quantized(std::vector<float>(32, 0x1p-120f))[0].codes[0]) == 127);
    CHECK(quantized(std::vector<float>{}).empty());
}
