#include <tern/base/json_writer.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include <tern/base/json.hpp>

using namespace tern;

TEST_CASE("base/json_writer: objects, arrays, values") {
    json_writer out;
    out.begin_object();
    out.key("a").begin_array().value(1).value(-2).value(true).null().value("x").begin_object().end_object().end_array();
    out.member("b", 0.1).key("c").begin_array().end_array().member("d", std::string("e"));
    out.end_object();
    CHECK(out.take() == R"({"a":[1,-2,true,null,"x",{}],"b":0.1,"c":[],"d":"e"})");
    CHECK(out.value(7u).take() == "7"); // used again
}

TEST_CASE("base/json_writer: numbers read back to the same value, NaN and infinity are null") {
    json_writer out;
    const double numbers[] = {0.1, 1e308, 4.9406564584124654e-324, -1.0 / 3, 1e23, 123456789012345680.0};
    out.begin_array();
    for (const double n : numbers) out.value(n);
    out.value(0.1f).value(~std::uint64_t{0}).value(std::numeric_limits<std::int64_t>::min());
    out.value(std::nan("")).value(std::numeric_limits<double>::infinity()).end_array();
    const json_value root = parse_json(out.take());
    const auto read = root.array();
    for (std::size_t i = 0; i < 6; ++i) CHECK(read[i].as_double() == numbers[i]);
    CHECK(static_cast<float>(read[6].as_double()) == 0.1f);
    CHECK(read[7].as_uint64() == ~std::uint64_t{0});
    CHECK(read[8].as_int64() == std::numeric_limits<std::int64_t>::min());
    CHECK(read[9].is(json_kind::null));
    CHECK(read[10].is(json_kind::null));
}

TEST_CASE("base/json_writer: strings are escaped") {
    const std::string text("\"\\/\n\t\x01\x1f\0 \xc3\xa9", 12);
    json_writer out;
    CHECK(parse_json(out.begin_object().member(text, text).end_object().take()).at(text).as_string() == text);
    CHECK(out.value("\x01\"").take() == "\"\\u0001\\\"\"");
}

TEST_CASE("base/json_writer: what would be no JSON is refused") {
    CHECK_THROWS_AS(json_writer{}.key("a"), config_error);
    CHECK_THROWS_AS(json_writer{}.begin_array().key("a"), config_error);
    CHECK_THROWS_AS(json_writer{}.begin_object().value(1), config_error);
    CHECK_THROWS_AS(json_writer{}.begin_object().key("a").key("b"), config_error);
    CHECK_THROWS_AS(json_writer{}.begin_object().key("a").end_object(), config_error);
    CHECK_THROWS_AS(json_writer{}.begin_object().end_array(), config_error);
    CHECK_THROWS_AS(json_writer{}.end_array(), config_error);
    CHECK_THROWS_AS(json_writer{}.value(1).value(2), config_error);
    CHECK_THROWS_AS(json_writer{}.begin_object().take(), config_error);
    CHECK_THROWS_AS(json_writer{}.take(), config_error);
}
