#include <tern/format/blocks.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include "golden.hpp"

using tern::test::largest_error;
using tern::test::through;

TEST_CASE("format/blocks: q4_0 counts from -8 in the low halves, then in the high halves") {
    tern::q4_0::block b{};
    b.d.set(0x3C00); // 1
    std::vector<float> out(32);
    for (int j = 0; j < 16; ++j) b.qs[j] = static_cast<unsigned char>(j | ((15 - j) << 4));
    tern::q4_0::decode(b, out.data());
    for (int j = 0; j < 16; ++j) {
        CHECK(out[static_cast<std::size_t>(j)] == static_cast<float>(j - 8));
        CHECK(out[static_cast<std::size_t>(j + 16)] == static_cast<float>(7 - j));
    }
    CHECK(through<tern::q4_0>(out) == out);
}

TEST_CASE("format/blocks: q4_1 over a narrow range far from zero keeps half a step") {
    std::vector<float> x(96), mixed(96), ends(96);
    for (std::size_t i = 0; i < 96; ++i) {
        x[i] = 5.0f + static_cast<float>(i) / 95.0f;
        mixed[i] = 5.0f + static_cast<float>(i * 61 % 96) / 95.0f; // every block spans nearly all of [5, 6]
        ends[i] = i % 32 == 0 ? 6.0f : i % 32 == 1 ? 5.0f : 5.0f + static_cast<float>(i * i % 97) / 970.0f;
    }
    CHECK(largest_error(x, through<tern::q4_1>(x)) <= 0.0334);
    CHECK(largest_error(mixed, through<tern::q4_1>(mixed)) <= 0.0334);
    CHECK(largest_error(ends, through<tern::q4_1>(ends)) <= 0.0334);
}

TEST_CASE("format/blocks: q5_0, q5_1 and q8_0 hold whole numbers exactly") {
    std::vector<float> x(32), y(32), z(32);
    for (int i = 0; i < 32; ++i) {
        const auto at = static_cast<std::size_t>(i);
        x[at] = static_cast<float>((i * 7 % 32) - 16);
        y[at] = 3.0f + 0.25f * static_cast<float>(i * 11 % 32);
        z[at] = static_cast<float>(i == 3 ? -127 : i * 8 - 121);
    }
    CHECK(through<tern::q5_0>(x) == x);
    CHECK(through<tern::q5_1>(y) == y);
    CHECK(through<tern::q8_0>(z) == z);
}

TEST_CASE("format/blocks: q8_0 keeps its codes within -127..127") {
    std::vector<float> x(32, 0.3f);
    x[5] = -1.0f;
    tern::q8_0::block b{};
    tern::q8_0::encode(x.data(), b);
    for (const signed char q : b.qs) CHECK(q >= -127);
    CHECK(b.qs[5] <= -126);
}

TEST_CASE("format/blocks: a constant block far from zero is exact with an offset") {
    const std::vector<float> x(32, 5.5f);
    CHECK(through<tern::q4_1>(x) == x);
    CHECK(through<tern::q5_1>(x) == x);
}
