#include <tern/base/json.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace tern;

namespace {

std::string error_of(std::string_view text, unsigned depth = 64) {
    try {
        parse_json(text, "file", depth);
    } catch (const parse_error& e) {
        CHECK(e.path() == "file");
        return e.what();
    }
    return "no error";
}

bool says(std::string_view text, std::string_view part) {
    const std::string what = error_of(text);
    INFO(what);
    return what.find(part) != what.npos;
}

} // namespace

TEST_CASE("base/json: values of every kind") {
    const json_value root =
        parse_json(R"( { "a" : [ 1 , -2 , 3.5 , true , false , null , "x" , {} , [] ] , "" : 0 } )");
    const auto a = root.at("a").array();
    REQUIRE(a.size() == 9);
    CHECK(a[0].kind() == json_kind::uint64);
    CHECK(a[0].as_uint64() == 1);
    CHECK(a[0].as_int64() == 1);
    CHECK(a[0].as_double() == 1.0);
    CHECK(a[1].kind() == json_kind::int64);
    CHECK(a[1].as_int64() == -2);
    CHECK(a[1].as_double() == -2.0);
    CHECK_THROWS_AS(a[1].as_uint64(), parse_error);
    CHECK(a[2].as_double() == 3.5);
    CHECK_THROWS_AS(a[2].as_uint64(), parse_error);
    CHECK(a[3].as_bool());
    CHECK_FALSE(a[4].as_bool());
    CHECK(a[5].is(json_kind::null));
    CHECK(a[6].as_string() == "x");
    CHECK(a[7].object().empty());
    CHECK(a[8].array().empty());
    CHECK(root.find("")->as_uint64() == 0);
    CHECK(root.find("b") == nullptr);
    CHECK(a[0].find("b") == nullptr);
    CHECK_THROWS_WITH_AS(root.at("b"), "the JSON key \"b\" is absent", parse_error);
    CHECK_THROWS_WITH_AS(a[6].as_bool(), "expected a boolean in JSON, found a string", parse_error);
    CHECK(root.object()[0].key == "a");
}

TEST_CASE("base/json: integers are exact up to 64 bits, beyond that doubles") {
    CHECK(parse_json("18446744073709551615").as_uint64() == ~std::uint64_t{0});
    CHECK(parse_json("18446744073709551616").kind() == json_kind::number);
    CHECK(parse_json("18446744073709551616").as_double() == 18446744073709551616.0);
    CHECK(parse_json("-9223372036854775808").as_int64() == std::numeric_limits<std::int64_t>::min());
    CHECK(parse_json("-9223372036854775809").kind() == json_kind::number);
    CHECK_THROWS_AS(parse_json("9223372036854775808").as_int64(), parse_error);
    CHECK(parse_json("9007199254740993").as_uint64() == 9007199254740993u);
    CHECK(parse_json("1.0").kind() == json_kind::number);
    CHECK(parse_json("-0").kind() == json_kind::number);
    CHECK(std::signbit(parse_json("-0").as_double()));
}

TEST_CASE("base/json: numbers out of range are errors when large and 0 when small") {
    CHECK(parse_json("1.7976931348623157e308").as_double() == std::numeric_limits<double>::max());
    CHECK(parse_json("4.9406564584124654e-324").as_double() == std::numeric_limits<double>::denorm_min());
    CHECK(says("1e309", "too large, at byte 0"));
    CHECK(says("-1e309", "too large"));
    CHECK(says("1e99999999999999999999", "too large"));
    CHECK(parse_json("1e-400").as_double() == 0.0);
    CHECK(parse_json("1e-99999999999999999999").as_double() == 0.0);
    CHECK(parse_json("0e99999999999999999999").as_double() == 0.0);
    CHECK(parse_json("0." + std::string(400, '0') + "1").as_double() == 0.0);
    CHECK(parse_json("0." + std::string(400, '0') + "1e50").as_double() == 0.0);
    CHECK(parse_json("0." + std::string(400, '0') + "1e401").as_double() == 1.0);
    CHECK(says("1" + std::string(400, '0') + "e-50", "too large"));
    CHECK(parse_json("1" + std::string(400, '0') + "e-400").as_double() == 1.0);
    for (const char* bad : {"01", "-", "-01", "1.", ".5", "1e", "1e+", "+1", "0x1", "NaN", "Infinity", "1.e5", "--1"})
        CHECK_MESSAGE(error_of(bad) != "no error", bad);
}

TEST_CASE("base/json: strings decode escapes and refuse what is no Unicode") {
    CHECK(parse_json(R"("\"\\\/\b\f\n\r\t")").as_string() == "\"\\/\b\f\n\r\t");
    CHECK(parse_json(R"("\u0041\u00e9\u20AC\ud83d\ude00\u0000")").as_string() ==
          std::string("A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\0", 11));
    CHECK(parse_json("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf\"").as_string().size() == 13);
    CHECK(says(R"("\ud83d")", "high surrogate"));
    CHECK(says(R"("\ud83dx")", "high surrogate"));
    CHECK(says(R"("\ud83d\u0041")", "high surrogate"));
    CHECK(says(R"("\ude00")", "low surrogate"));
    CHECK(says(R"("\u12g4")", "hexadecimal"));
    CHECK(says(R"("\u-123")", "hexadecimal"));
    CHECK(says(R"("\u12)", "ends within an escape"));
    CHECK(says(R"("\x")", "unknown escape"));
    CHECK(says("\"a\nb\"", "control character"));
    CHECK(says("\"abc", "ends within a string"));
    for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
                            "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc3", "\xe2\x82", "\xff", "\xc3(", "\xe2\x82("})
        CHECK_MESSAGE(says("\"" + std::string(bad) + "\"", "not valid UTF-8"), bad);
}

TEST_CASE("base/json: what is not strict JSON is an error with its position") {
    CHECK(says("", "at byte 0"));
    CHECK(says("{\"a\":1,}", "key in quotes, at byte 7"));
    CHECK(says("[1,]", "expected a value, at byte 3"));
    CHECK(says("[1 2]", "expected ',' or ']', at byte 3"));
    CHECK(says("{\"a\" 1}", "expected ':', at byte 5"));
    CHECK(says("{\"a\":1", "the text ends early, at byte 6"));
    CHECK(says("[1] x", "more text follows"));
    CHECK(says("tru", "expected a value"));
    CHECK(says("// c\n1", "expected a value"));
    CHECK(says("\xef\xbb\xbf{}", "at byte 0"));
    CHECK(says(std::string_view("\0", 1), "expected a value"));
    CHECK(says(R"({"a":1,"b":{"w":1,"w":2}})", "\"w\" is there twice"));
    CHECK(says(R"({"\u0077":1,"w":2})", "twice"));
}

TEST_CASE("base/json: every cut of a valid text is an error") {
    const std::string text = R"({"a":[1,-2.5e3,true,null,"x\u00e9\n"],"b":{"c":false}})";
    parse_json(text);
    for (std::size_t n = 0; n < text.size(); ++n) CHECK_MESSAGE(error_of(text.substr(0, n)) != "no error", n);
}

TEST_CASE("base/json: depth is bounded") {
    const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
    parse_json(nested(64));
    CHECK(says(nested(65), "nested more than 64 deep"));
    CHECK(says(std::string(1000000, '['), "nested"));
    CHECK(error_of(R"({"a":{"b":1}})", 1).find("nested more than 1") != std::string::npos);
}

TEST_CASE("base/json: a large object is searched, not walked") {
    std::string text = "{";
    for (int i = 0; i < 100000; ++i) text += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":" + std::to_string(i);
    const json_value root = parse_json(text + "}");
    std::uint64_t sum = 0;
    for (int i = 0; i < 100000; ++i) sum += root.at("k" + std::to_string(i)).as_uint64();
    CHECK(sum == 4999950000u);
}
