#include <tern/file/gguf_value.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "file/bytes.hpp"

using namespace tern;
using namespace tern::test;

TEST_CASE("file/gguf_value: integers convert where they fit") {
    CHECK(gguf_value(std::uint8_t{200}).as<std::uint64_t>() == 200);
    CHECK(gguf_value(std::uint64_t{5}).as<std::int8_t>() == 5);
    CHECK(gguf_value(std::int32_t{-5}).as<std::int64_t>() == -5);
    CHECK(contains(message_of<parse_error>([] { gguf_value(std::int32_t{-5}).as<std::uint32_t>(); }),
                   "is -5, out of range for uint32"));
    CHECK_THROWS_AS(gguf_value(std::uint32_t{256}).as<std::uint8_t>(), parse_error);
    CHECK_THROWS_AS(gguf_value(~std::uint64_t{0}).as<std::int64_t>(), parse_error);
}

TEST_CASE("file/gguf_value: kinds are not mixed") {
    CHECK(gguf_value(1.5f).as<double>() == 1.5);
    CHECK(gguf_value(2.5).as<float>() == 2.5f);
    CHECK(gguf_value(true).as<bool>());
    CHECK(gguf_value(std::string("x")).as<std::string_view>() == "x");
    CHECK_THROWS_AS(gguf_value(1.5f).as<std::int32_t>(), parse_error);
    CHECK_THROWS_AS(gguf_value(std::int32_t{1}).as<float>(), parse_error);
    CHECK_THROWS_AS(gguf_value(std::uint8_t{1}).as<bool>(), parse_error);
    CHECK_THROWS_AS(gguf_value(true).as<std::int32_t>(), parse_error);
    CHECK_THROWS_AS(gguf_value(true).as<float>(), parse_error);
    CHECK_THROWS_AS(gguf_value(std::string("1")).as<std::int32_t>(), parse_error);
    CHECK(contains(message_of<parse_error>([] { gguf_value(std::uint16_t{1}).as<std::string>(); }),
                   "is of type uint16, expected a string"));
    CHECK_THROWS_AS(gguf_value(std::uint16_t{1}).array(), parse_error);
}

TEST_CASE("file/gguf_value: arrays") {
    const gguf_value numbers(make_gguf_array(std::vector<std::int32_t>{1, -2, 3}));
    CHECK(numbers.type() == gguf_value_type::array);
    CHECK(numbers.array().element == gguf_value_type::int32);
    CHECK(numbers.array().size() == 3);
    CHECK(numbers.as<std::vector<std::int64_t>>() == std::vector<std::int64_t>{1, -2, 3});
    CHECK_THROWS_AS(numbers.as<std::vector<std::uint32_t>>(), parse_error);
    CHECK_THROWS_AS(numbers.as<std::vector<std::string>>(), parse_error);
    CHECK_THROWS_AS(numbers.as<std::int32_t>(), parse_error);
    const gguf_value texts(make_gguf_array(std::vector<const char*>{"a", "", "bc"}));
    CHECK(texts.as<std::vector<std::string>>() == std::vector<std::string>{"a", "", "bc"});
    CHECK_THROWS_AS(texts.as<std::vector<float>>(), parse_error);
    const gguf_array bools = make_gguf_array(std::vector<bool>{true, false});
    CHECK(bools.element == gguf_value_type::boolean);
    CHECK(bools.to_vector<bool>() == std::vector<bool>{true, false});
}

TEST_CASE("file/gguf_value: names and sizes") {
    CHECK(name_of(gguf_value_type::float64) == "float64");
    CHECK(name_of(static_cast<gguf_value_type>(13)) == "unknown");
    CHECK(size_of(gguf_value_type::string) == 0);
    CHECK(size_of(gguf_value_type::uint64) == 8);
    static_assert(gguf_value_type_for<long long>() == gguf_value_type::int64);
    static_assert(gguf_value_type_for<bool>() == gguf_value_type::boolean);
    static_assert(gguf_value_type_for<const char*>() == gguf_value_type::string);
}
