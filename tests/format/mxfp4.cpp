#include <tern/format/mxfp4.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "golden.hpp"

namespace {

constexpr float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

std::vector<float> decode_codes(std::uint8_t e) {
    tern::mxfp4::block b{};
    b.e = e;
    for (int i = 0; i < 16; ++i) b.qs[i] = static_cast<unsigned char>(i | ((15 - i) << 4));
    std::vector<float> out(32);
    tern::mxfp4::decode(b, out.data());
    return out;
}

} // namespace

TEST_CASE("format/mxfp4: the sixteen codes at scale one") {
    const std::vector<float> out = decode_codes(127);
    for (std::size_t c = 0; c < 16; ++c) {
        const float expected = c < 8 ? values[c] : -values[c - 8];
        CHECK(out[c] == expected);
        CHECK(out[31 - c] == expected);
    }
    CHECK(tern::test::through<tern::mxfp4>(out) == out);
}

TEST_CASE("format/mxfp4: the smallest scale is denormal, and 255 is NaN") {
    for (std::size_t c = 0; c < 8; ++c) CHECK(decode_codes(0)[c] == std::ldexp(values[c], -127));
    CHECK(decode_codes(0)[7] == doctest::Approx(3.526e-38).epsilon(1e-3).scale(1e-38));
    CHECK(decode_codes(1)[7] == 2 * decode_codes(0)[7]);
    for (const float v : decode_codes(255)) CHECK(std::isnan(v));
}

TEST_CASE("format/mxfp4: encoding keeps the range of f32") {
    for (const float scale : {0x1p-125f, 0x1p-60f, 1.0f, 0x1p60f, 0x1p124f}) {
        std::vector<float> x(32);
        for (std::size_t i = 0; i < 32; ++i) x[i] = scale * (i % 2 ? -values[i % 8] : values[i / 4]);
        CHECK(tern::test::through<tern::mxfp4>(x) == x);
    }
}
