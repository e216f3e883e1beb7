#include <tern/base/units.hpp>

#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

using namespace tern::literals;

TEST_CASE("base/units: bytes add, multiply and subtract, and never wrap") {
    static_assert(2_MiB == 2048_KiB && 1_GiB > 1023_MiB);
    CHECK(1_KiB + 1_B == tern::bytes{1025});
    CHECK(1_KiB * 3 == 3_KiB);
    CHECK_THROWS_AS(tern::bytes{std::numeric_limits<std::uint64_t>::max()} + 1_B, tern::shape_error);
    CHECK_THROWS_AS(tern::bytes{std::uint64_t{1} << 63} * 2, tern::shape_error);
    CHECK_THROWS_AS(1_B - 2_B, tern::shape_error);
}

TEST_CASE("base/units: bytes over a bandwidth are a time, and over a time a bandwidth") {
    CHECK((tern::bytes{3'000'000'000} / 3_GBps).count == doctest::Approx(1));
    CHECK((1_GiB / tern::bytes_per_second{}).count == 0);
    CHECK((tern::bytes{500} / tern::seconds{2}).count == doctest::Approx(250));
}

TEST_CASE("base/units: sizes are read as people write them, and refused otherwise") {
    CHECK(tern::parse_bytes("8MiB") == 8_MiB);
    CHECK(tern::parse_bytes("1.5 GiB") == 1536_MiB);
    CHECK(tern::parse_bytes("512") == 512_B);
    CHECK(tern::parse_bytes("2G") == 2_GiB);
    CHECK(tern::parse_bytes("0") == 0_B);
    for (const char* bad : {"", "MiB", "-1", "8 apples", "8XiB", "99999999999999999999", "1e9", "nan"})
        CHECK_THROWS_AS(tern::parse_bytes(bad), tern::config_error);
    CHECK(to_string(1536_MiB) == "1.5 GiB");
    CHECK(to_string(812_B) == "812 B");
}
