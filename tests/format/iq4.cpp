#include <tern/format/iq4.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include "golden.hpp"

TEST_CASE("format/iq4: the sixteen levels, and their way back") {
    constexpr float levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    tern::iq4_nl::block b{};
    b.d.set(0x3C00); // 1
    for (int i = 0; i < 16; ++i) b.qs[i] = static_cast<unsigned char>(i | ((15 - i) << 4));
    std::vector<float> out(32);
    tern::iq4_nl::decode(b, out.data());
    for (std::size_t c = 0; c < 16; ++c) {
        CHECK(out[c] == levels[c]);
        CHECK(out[31 - c] == levels[c]);
    }
    CHECK(tern::test::through<tern::iq4_nl>(out) == out);
}

TEST_CASE("format/iq4: a number takes the nearest level") {
    for (float v = -126.8f; v < 113.0f; v += 0.37f) {
        std::vector<float> x(32, 1.0f);
        for (std::size_t i = 1; i < 31; ++i) x[i] = tern::iq4_nl::level(static_cast<int>(i % 16)); // the scale stays 1
        x[31] = v;
        const float got = tern::test::through<tern::iq4_nl>(x)[31];
        float nearest = tern::iq4_nl::level(0);
        for (int c = 1; c < 16; ++c)
            if (std::fabs(tern::iq4_nl::level(c) - v) < std::fabs(nearest - v)) nearest = tern::iq4_nl::level(c);
        CHECK(std::fabs(got - v) <= std::fabs(nearest - v) + 0.5f);
    }
}
