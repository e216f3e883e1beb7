#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <tern/text/stream.hpp>

#include "support.hpp"

namespace {

using namespace tern;
using test::id_of;

vocabulary words() { return test::small_sentencepiece({"\u2581a", "\u2581", "a", "\u00E9"}); }
token_id byte(int b) { return static_cast<token_id>(3 + b); }

TEST_CASE("text/stream: a character over several byte tokens comes out once it is whole") {
    text_stream s(make_tokenizer(words()));
    CHECK(s.push(byte(0xF0)).empty());
    CHECK(s.push(byte(0x9F)).empty());
    CHECK(s.push(byte(0xA6)).empty());
    CHECK(s.push(byte(0x99)) == "\xF0\x9F\xA6\x99");
    CHECK(s.push(byte('x')) == "x");
    CHECK(s.push(id_of(words(), "\u00E9")) == "\u00E9");
    CHECK(s.finish().empty());
}

TEST_CASE("text/stream: what can no longer become a character is U+FFFD, one a run") {
    text_stream s(make_tokenizer(words()));
    CHECK(s.push(byte(0xE2)).empty());
    CHECK(s.push(byte(0x96)).empty());
    CHECK(s.push(byte('a')) == "\uFFFDa");
    CHECK(s.push(byte(0xFF)) == "\uFFFD");
    CHECK(s.push(byte(0xC3)).empty());
    CHECK(s.push(byte(0xC3)) == "\uFFFD");
    CHECK(s.push(byte(0xA9)) == "\u00E9");
}

TEST_CASE("text/stream: finish gives U+FFFD for an unfinished character, and the stream can go on") {
    text_stream s(make_tokenizer(words()));
    CHECK(s.push(byte(0xE2)).empty());
    CHECK(s.finish() == "\uFFFD");
    CHECK(s.finish().empty());
    CHECK(s.push(byte('x')) == "x");
}

TEST_CASE("text/stream: a continuing stream keeps its leading space, one that begins drops it") {
    const token_id a = id_of(words(), "\u2581a");
    CHECK(text_stream(make_tokenizer(words())).push(a) == " a");
    CHECK(text_stream(make_tokenizer(words()), text_position::begins).push(a) == "a");
}

TEST_CASE("text/stream: control tokens are silent unless asked for") {
    CHECK(text_stream(make_tokenizer(words())).push(2).empty());
    CHECK(text_stream(make_tokenizer(words()), text_position::continues, {.special = true}).push(2) == "</s>");
}

TEST_CASE("text/stream: joined, it is what decode gives") {
    const tokenizer t = make_tokenizer(words());
    const std::string text = "a \u00E9\U0001F999  a\n\u4E2D";
    text_stream s(t, text_position::begins);
    std::string joined;
    for (const token_id id : t.encode(text)) joined += s.push(id);
    joined += s.finish();
    CHECK(joined == text);
}

TEST_CASE("text/stream: an id outside the vocabulary changes nothing") {
    text_stream s(make_tokenizer(words()));
    CHECK(s.push(byte(0xC3)).empty());
    CHECK_THROWS_AS(s.push(-1), shape_error);
    CHECK(s.push(byte(0xA9)) == "\u00E9");
}

} // namespace
