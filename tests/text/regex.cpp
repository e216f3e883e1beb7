#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include <tern/text/regex.hpp>

#include "support.hpp"

namespace {

using namespace tern;
using namespace std::string_literals;

/// The parts, matches in brackets.
std::vector<std::string> parts(const regex& pattern, std::string_view text) {
    std::vector<std::string> all;
    pattern.split(text, [&](std::string_view part, bool matched) {
        all.push_back(matched ? "[" + std::string(part) + "]" : std::string(part));
    });
    return all;
}
using list = std::vector<std::string>;

TEST_CASE("text/regex: cuts a text at its matches and loses nothing") {
    CHECK(parts(regex(R"(\p{L}+)"), "two words") == list{"[two]", " ", "[words]"});
    CHECK(parts(regex(R"(\p{L}+)"), "1\xC3\xA9t\xC3\xA9!") == list{"1", "[\xC3\xA9t\xC3\xA9]", "!"});
    CHECK(parts(regex("x"), "") == list{});
    CHECK(parts(regex("x"), "ab") == list{"ab"});
    CHECK(parts(regex("a*"), "baab") == list{"b", "[aa]", "b"}); // empty matches do not count
    CHECK(parts(regex("b$"), "b\n") == list{"b\n"});
}

TEST_CASE("text/regex: bytes that are no UTF-8 come through, and matches do not look across them") {
    CHECK(parts(regex(R"(\p{L}+)"), "a\xFF\xFE"
                                    "b") == list{"[a]", "\xFF\xFE", "[b]"});
    CHECK(parts(regex("ab"), "a\xFF"
                             "b") == list{"a", "\xFF", "b"});
    CHECK(parts(regex("."), "\xE2\x96") == list{"\xE2\x96"});
    CHECK(parts(regex("."), "\xED\xA0\x80") == list{"\xED\xA0\x80"});
    CHECK(parts(regex("[^x]"), "\0y"s) == list{"[\0]"s, "[y]"});
}

TEST_CASE("text/regex: a space is what Unicode calls White_Space") {
    const std::string nel = "\xC2\x85", ideographic = "\xE3\x80\x80", vowel_separator = "\xE1\xA0\x8E";
    CHECK(parts(regex(R"(\s+)"), "\v" + nel + ideographic) == list{"[\v" + nel + ideographic + "]"});
    CHECK(parts(regex(R"(\s+)"), vowel_separator) == list{vowel_separator});
    CHECK(parts(regex(R"([^\sx]+)"), "x" + vowel_separator + " ") == list{"x", "[" + vowel_separator + "]", " "});
    CHECK(parts(regex(R"(a(?!\S))"), "a" + vowel_separator + "a b") == list{"a" + vowel_separator, "[a]", " b"});
    CHECK(parts(regex(R"([]\s]+)"), "a] b") == list{"a", "[] ]", "b"});
    CHECK(parts(regex(R"([^]\s]+)"), "] b") == list{"] ", "[b]"});
    CHECK(parts(regex(R"([[:alpha:]\s]+)"), "1a b") == list{"1", "[a b]"});
    CHECK(parts(regex(R"(\\s)"), "\\s s") == list{"[\\s]", " s"});
}

TEST_CASE("text/regex: a wrong pattern is a config error that shows it") {
    const std::string what = test::message_of<config_error>([] { regex wrong("a(b"); });
    CHECK(what.find("a(b") != what.npos);
    CHECK(what.find("parenthes") != what.npos);
    CHECK_THROWS_AS(regex(R"(\C)"), config_error);
    CHECK_THROWS_AS(regex(std::string(10000, '(')), config_error);
}

TEST_CASE("text/regex: no pattern runs away") {
    const regex slow("(a+)+b|(?:a|aa)+$", {.steps = 100000, .memory_kib = 1024});
    const std::string text(5000, 'a');
    CHECK_THROWS_AS(parts(slow, text + "c"), budget_error);
    const regex hungry("(?:a|b)*c", {.steps = 50'000'000, .memory_kib = 64});
    CHECK_THROWS_AS(parts(hungry, std::string(100000, 'a') + "dc"), budget_error);
}

TEST_CASE("text/regex: a pattern that moves the start of its match is refused") {
    CHECK_THROWS_AS(parts(regex("(?=ab\\K)x|a(?=b\\K)"), "ab"), error);
}

} // namespace
