#include <tern/base/checked.hpp>

#include <cstdint>
#include <limits>
#include <string>

#include <doctest/doctest.h>

namespace {
constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
}

TEST_CASE("base/checked: sums, products and rounding that do not fit are nothing, or an error with a name") {
    static_assert(tern::try_add<std::uint64_t>(most - 1, 1) == most);
    CHECK_FALSE(tern::try_add<std::uint64_t>(most, 1));
    CHECK(tern::try_mul<std::uint64_t>(0, most) == 0u);
    CHECK_FALSE(tern::try_mul<std::uint64_t>(std::uint64_t{1} << 32, std::uint64_t{1} << 32));
    CHECK(tern::try_round_up<std::uint64_t>(33, 32) == 64u);
    CHECK(tern::try_round_up<std::uint64_t>(64, 32) == 64u);
    CHECK_FALSE(tern::try_round_up<std::uint64_t>(most, 32));
    try {
        tern::checked_mul<std::uint64_t>(most, 2, "the bytes of a row");
        FAIL("no error");
    } catch (const tern::shape_error& e) { CHECK(std::string(e.what()) == "the bytes of a row overflows"); }
}

TEST_CASE("base/checked: a cast that would change the value throws") {
    CHECK(tern::checked_cast<std::uint8_t>(255) == 255);
    CHECK_THROWS_AS(tern::checked_cast<std::uint8_t>(256), tern::shape_error);
    CHECK_THROWS_AS(tern::checked_cast<std::uint64_t>(-1), tern::shape_error);
}
