#include <doctest/doctest.h>

#include <string_view>

#include <tern/text/utf8.hpp>

namespace {

using tern::next_utf8;
using tern::utf8_kind;
using namespace std::string_view_literals;

constexpr bool is(std::string_view text, utf8_kind kind, std::size_t size) {
    return next_utf8(text).kind == kind && next_utf8(text).size == size;
}

static_assert(is("a", utf8_kind::valid, 1));
static_assert(is("\0"sv, utf8_kind::valid, 1));
static_assert(is("\xC3\xA9x", utf8_kind::valid, 2));
static_assert(is("\xE2\x96\x81", utf8_kind::valid, 3));
static_assert(is("\xF0\x9F\xA6\x99", utf8_kind::valid, 4));
static_assert(is("\xF4\x8F\xBF\xBF", utf8_kind::valid, 4)); // U+10FFFF

TEST_CASE("text/utf8: what is no character is named invalid, with the run that one U+FFFD stands for") {
    CHECK(is("\x80", utf8_kind::invalid, 1));
    CHECK(is("\xC0\xAF", utf8_kind::invalid, 1));         // overlong
    CHECK(is("\xE0\x80\x80", utf8_kind::invalid, 1));     // overlong
    CHECK(is("\xED\xA0\x80", utf8_kind::invalid, 1));     // a surrogate
    CHECK(is("\xF4\x90\x80\x80", utf8_kind::invalid, 1)); // above U+10FFFF
    CHECK(is("\xFF", utf8_kind::invalid, 1));
    CHECK(is("\xF0\x9F\xA6x", utf8_kind::invalid, 3));
    CHECK(is("\xC3x", utf8_kind::invalid, 1));
}

TEST_CASE("text/utf8: a beginning is told apart from what can no longer become a character") {
    CHECK(is("\xC3", utf8_kind::cut, 1));
    CHECK(is("\xE2\x96", utf8_kind::cut, 2));
    CHECK(is("\xF0\x9F\xA6", utf8_kind::cut, 3));
    CHECK(is("\xF0\x80", utf8_kind::invalid, 1));
}

} // namespace
