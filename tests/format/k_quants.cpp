#include <tern/format/k_quants.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "golden.hpp"

using tern::test::largest_error;
using tern::test::through;

TEST_CASE("format/k_quants: scales and minima of 6 bits come back from 12 bytes") {
    int scales[8], minima[8];
    for (int round = 0; round < 64; ++round) {
        for (int j = 0; j < 8; ++j) scales[j] = (round * 5 + j * 9) % 64, minima[j] = (round * 11 + j * 23 + 7) % 64;
        tern::detail::packed_scales packed{};
        packed.set(scales, minima);
        for (int j = 0; j < 8; ++j) {
            REQUIRE(packed.scale(j) == scales[j]);
            REQUIRE(packed.minimum(j) == minima[j]);
        }
    }
}

TEST_CASE("format/k_quants: the bytes of q4_k by hand") {
    tern::q4_k::block b{};
    b.d.set(0x3C00);    // 1
    b.dmin.set(0x4000); // 2
    int scales[8], minima[8];
    for (int j = 0; j < 8; ++j) scales[j] = 8 * j + 1, minima[j] = 63 - j;
    b.scales.set(scales, minima);
    for (int i = 0; i < 128; ++i) b.qs[i] = static_cast<unsigned char>((i & 15) | ((15 - (i & 15)) << 4));
    std::vector<float> out(256);
    tern::q4_k::decode(b, out.data());
    for (int i = 0; i < 256; ++i) {
        const int g = i / 32, code = g % 2 ? 15 - (i & 15) : i & 15;
        CHECK(out[static_cast<std::size_t>(i)] == static_cast<float>((8 * g + 1) * code - 2 * (63 - g)));
    }
}

TEST_CASE("format/k_quants: numbers that are all positive keep the range of a group, not the distance from zero") {
    std::vector<float> x(256);
    for (std::size_t i = 0; i < 256; ++i) x[i] = 5.0f + static_cast<float>(i * 37 % 256) / 255.0f;
    CHECK(largest_error(x, through<tern::q4_k>(x)) <= 0.06);
    CHECK(largest_error(x, through<tern::q5_k>(x)) <= 0.04);
    CHECK(largest_error(x, through<tern::q2_k>(x)) <= 0.3);
    for (float& v : x) v = -v;
    CHECK(largest_error(x, through<tern::q4_k>(x)) <= 0.06);
}

TEST_CASE("format/k_quants: symmetric codes at full range are found exactly") {
    std::vector<float> x(256), y(256);
    for (int i = 0; i < 256; ++i) {
        x[static_cast<std::size_t>(i)] = static_cast<float>((i * 29 % 64) - 32) * 0.5f; // 64 codes
        y[static_cast<std::size_t>(i)] = static_cast<float>((i % 8) - 4) * 0.25f;       // 8 codes
    }
    CHECK(largest_error(y, through<tern::q3_k>(y)) == 0);
    CHECK(largest_error(x, through<tern::q6_k>(x)) <= 0.125);
}

TEST_CASE("format/k_quants: small numbers do not vanish with the second scale") {
    // 1e-4 over 32 codes over 128 scales is below what binary16 holds.
    std::vector<float> x(256);
    for (std::size_t i = 0; i < 256; ++i) x[i] = i % 2 ? 1e-4f : -0.5e-4f;
    CHECK(largest_error(x, through<tern::q6_k>(x)) <= 0.05e-4);
    CHECK(largest_error(x, through<tern::q4_k>(x)) <= 0.1e-4);
}
