#include <tern/format/plain.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "golden.hpp"

using tern::test::through;

TEST_CASE("format/plain: what a plain format holds comes back unchanged") {
    const std::vector<float> small{0.0f, -0.0f, 1.0f, -1.5f, 0x1p-14f, std::numeric_limits<float>::infinity()};
    tern::test::check_same_bits(through<tern::f32>(small), small);
    tern::test::check_same_bits(through<tern::f16>(small), small);
    tern::test::check_same_bits(through<tern::bf16>(small), small);
    const std::vector<float> tiny{0x1p-149f, 3e38f, -0x1.234568p-130f};
    tern::test::check_same_bits(through<tern::f32>(tiny), tiny);
}

TEST_CASE("format/plain: 70000 is infinity in f16 and near in bf16; NaN stays NaN") {
    CHECK(std::isinf(through<tern::f16>({70000.0f})[0]));
    CHECK(through<tern::bf16>({70000.0f})[0] == 70144.0f);
    const float nan = std::nanf("");
    CHECK(std::isnan(through<tern::f32>({nan})[0]));
    CHECK(std::isnan(through<tern::f16>({nan})[0]));
    CHECK(std::isnan(through<tern::bf16>({nan})[0]));
}
