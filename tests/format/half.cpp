#include <tern/format/half.hpp>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include <doctest/doctest.h>

namespace {

float from_bits(std::uint32_t bits) { return tern::detail::float_of(bits); }
constexpr float infinity = std::numeric_limits<float>::infinity();

/// A binary16 from its definition.
double f16_value(std::uint32_t half) {
    const int exponent = static_cast<int>(half >> 10 & 31), mantissa = static_cast<int>(half & 1023);
    const double sign = half & 0x8000 ? -1 : 1;
    if (exponent == 31) return mantissa ? std::nan("") : sign * HUGE_VAL;
    return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

} // namespace

TEST_CASE("format/half: every binary16 decodes to its value and comes back") {
    for (std::uint32_t h = 0; h < 0x10000; ++h) {
        const auto half = static_cast<std::uint16_t>(h);
        const float f = tern::f16_to_f32(half);
        const double expected = f16_value(h);
        if (std::isnan(expected)) {
            REQUIRE(std::isnan(f));
            REQUIRE(std::isnan(tern::f16_to_f32(tern::f32_to_f16(f))));
        } else {
            REQUIRE(static_cast<double>(f) == expected);
            REQUIRE(std::signbit(f) == (h >= 0x8000));
            REQUIRE(tern::f32_to_f16(f) == half);
        }
    }
}

TEST_CASE("format/half: f32 to binary16 rounds to nearest, ties to even") {
    for (std::uint32_t h = 0; h < 0x7BFF; ++h) {
        const float low = tern::f16_to_f32(static_cast<std::uint16_t>(h));
        const float high = tern::f16_to_f32(static_cast<std::uint16_t>(h + 1));
        const float middle = low + (high - low) / 2; // exact
        const std::uint32_t even = h % 2 == 0 ? h : h + 1;
        REQUIRE(tern::f32_to_f16(middle) == even);
        REQUIRE(tern::f32_to_f16(-middle) == (even | 0x8000));
        REQUIRE(tern::f32_to_f16(std::nextafterf(middle, 0)) == h);
        REQUIRE(tern::f32_to_f16(std::nextafterf(middle, infinity)) == h + 1);
    }
    CHECK(tern::f32_to_f16(65504.0f) == 0x7BFF);
    CHECK(tern::f32_to_f16(std::nextafterf(65520.0f, 0)) == 0x7BFF);
    CHECK(tern::f32_to_f16(65520.0f) == 0x7C00);
    CHECK(tern::f32_to_f16(3.0e38f) == 0x7C00);
    CHECK(tern::f32_to_f16(-3.0e38f) == 0xFC00);
    CHECK(tern::f32_to_f16(infinity) == 0x7C00);
    CHECK(tern::f32_to_f16(from_bits(1)) == 0);
    CHECK(tern::f32_to_f16(-0.0f) == 0x8000);
}

TEST_CASE("format/half: a NaN stays a NaN, also where only the lowest bit says so") {
    for (const std::uint32_t bits : {0x7F800001u, 0xFF800001u, 0x7FC00000u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
        const std::uint16_t b = tern::f32_to_bf16(from_bits(bits)), h = tern::f32_to_f16(from_bits(bits));
        CHECK(std::isnan(tern::bf16_to_f32(b)));
        CHECK(std::isnan(tern::f16_to_f32(h)));
        CHECK((b >> 15) == (bits >> 31));
        CHECK((h >> 15) == (bits >> 31));
    }
}

TEST_CASE("format/half: every bfloat16 round-trips, and f32 rounds to even") {
    for (std::uint32_t b = 0; b < 0x10000; ++b) {
        const float f = tern::bf16_to_f32(static_cast<std::uint16_t>(b));
        if (!std::isnan(f)) REQUIRE(tern::f32_to_bf16(f) == b);
    }
    CHECK(tern::f32_to_bf16(tern::bf16_to_f32(0x0001)) == 0x0001);
    CHECK(tern::f32_to_bf16(from_bits(0x3F808000)) == 0x3F80);
    CHECK(tern::f32_to_bf16(from_bits(0x3F818000)) == 0x3F82);
    CHECK(tern::f32_to_bf16(from_bits(0x3F808001)) == 0x3F81);
    CHECK(tern::f32_to_bf16(from_bits(0x7F7FFFFF)) == 0x7F80);
    CHECK(tern::f32_to_bf16(-infinity) == 0xFF80);
}

TEST_CASE("format/half: E8M0 is a power of two for every byte but 255") {
    for (int e = 0; e < 255; ++e) REQUIRE(tern::e8m0_to_f32(static_cast<std::uint8_t>(e)) == std::ldexp(1.0f, e - 127));
    CHECK(std::isnan(tern::e8m0_to_f32(255)));
}

TEST_CASE("format/half: FP8 E4M3FN and E5M2 follow their definition") {
    for (int b = 0; b < 256; ++b) {
        const auto byte = static_cast<std::uint8_t>(b);
        const float e4m3 = tern::e4m3_to_f32(byte), e5m2 = tern::e5m2_to_f32(byte);
        const int exponent = b >> 3 & 15, mantissa = b & 7;
        const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                              : std::ldexp(8.0f + static_cast<float>(mantissa), exponent - 10);
        if ((b & 127) == 127)
            REQUIRE(std::isnan(e4m3));
        else
            REQUIRE(e4m3 == (b < 128 ? magnitude : -magnitude));
        const double wide = f16_value(static_cast<std::uint32_t>(b) << 8);
        if (std::isnan(wide))
            REQUIRE(std::isnan(e5m2));
        else
            REQUIRE(static_cast<double>(e5m2) == wide);
    }
    CHECK(tern::e4m3_to_f32(0x7E) == 448.0f);
    CHECK(std::isnan(tern::e4m3_to_f32(0x7F)));
    CHECK(tern::e5m2_to_f32(0x7C) == infinity);
    CHECK(tern::e5m2_to_f32(0x7B) == 57344.0f);
}

TEST_CASE("format/half: values are read and written at odd addresses") {
    unsigned char raw[9] = {0xAA, 1, 2, 3, 4, 5, 6, 7, 8};
    CHECK(tern::load<std::uint32_t>(raw + 1) == 0x04030201u);
    CHECK(tern::load<std::uint64_t>(raw + 1) == 0x0807060504030201u);
    struct record {
        unsigned char tag;
        tern::unaligned<float> value;
    };
    static_assert(alignof(record) == 1 && sizeof(record) == 5);
    record r{};
    r.value.set(1.5f);
    CHECK(r.value.get() == 1.5f);
    CHECK(r.tag == 0);
}

// The conversions are usable at compile time.
static_assert(tern::f16_to_f32(0x3C00) == 1.0f && tern::f32_to_f16(1.0f) == 0x3C00);
static_assert(tern::f16_to_f32(0x0001) == 0x1p-24f && tern::f32_to_f16(0x1p-24f) == 0x0001);
static_assert(tern::bf16_to_f32(0x3F80) == 1.0f && tern::e8m0_to_f32(127) == 1.0f && tern::e4m3_to_f32(0x38) == 1.0f);
