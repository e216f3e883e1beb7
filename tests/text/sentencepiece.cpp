#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <tern/text/sentencepiece.hpp>

#include "support.hpp"

namespace {

using namespace tern;
using test::id_of;
using test::small_sentencepiece;

std::vector<std::string> pieces(const vocabulary& v, std::string_view text, bool prefix = false) {
    std::vector<token_id> ids;
    sentencepiece(v).encode(text, prefix, ids);
    std::vector<std::string> all;
    for (const token_id id : ids) all.push_back(v.tokens[static_cast<std::size_t>(id)]);
    return all;
}
using list = std::vector<std::string>;

TEST_CASE("text/sentencepiece: the pair with the highest score merges first, further left among equals") {
    vocabulary v = small_sentencepiece({"bc", "ab", "a", "b", "c", "aa"});
    CHECK(pieces(v, "abc") == list{"a", "bc"});
    std::swap(v.scores[id_of(v, "bc") + 0u], v.scores[id_of(v, "ab") + 0u]);
    CHECK(pieces(v, "abc") == list{"ab", "c"});
    CHECK(pieces(v, "aaa") == list{"aa", "a"});
}

TEST_CASE("text/sentencepiece: spaces are U+2581, and a prefix is one more") {
    const vocabulary v = small_sentencepiece({"\u2581a", "\u2581", "a"});
    CHECK(pieces(v, "a") == list{"a"});
    CHECK(pieces(v, "a", true) == list{"\u2581a"});
    CHECK(pieces(v, " a", true) == list{"\u2581", "\u2581a"});
    CHECK(pieces(v, "", true).empty());
}

TEST_CASE("text/sentencepiece: what has no token is spelt in bytes, NUL and invalid bytes too") {
    const vocabulary v = small_sentencepiece({"a"});
    CHECK(pieces(v, "a\u00E9") == list{"a", "<0xC3>", "<0xA9>"});
    CHECK(pieces(v, std::string_view("\0a\xFF", 3)) == list{"<0x00>", "a", "<0xFF>"});
    CHECK(pieces(v, "\xE2\x96") == list{"<0xE2>", "<0x96>"});
}

TEST_CASE("text/sentencepiece: without bytes a run of unknown characters is one unknown token") {
    vocabulary v = small_sentencepiece({"a"}, false);
    CHECK(pieces(v, "xya\u00E9") == list{"<unk>", "a", "<unk>"});
    v.special.unknown.reset();
    CHECK(pieces(v, "x") == list{"<unk>"}); // by its type
    v.types[0] = 1;
    CHECK_THROWS_AS(pieces(v, "x"), unsupported_error);
}

TEST_CASE("text/sentencepiece: control and byte tokens are never made from text") {
    const vocabulary v =
        small_sentencepiece({"<s", "</s", "<0x4", "<", "s", ">", "/", "0", "x", "4", "1", "<0", "<0x", "1>"});
    CHECK(pieces(v, "<s>") == list{"<s", ">"});
    CHECK(pieces(v, "<0x41>") == list{"<0x4", "1>"});
}

TEST_CASE("text/sentencepiece: the bytes behind a token") {
    const vocabulary v = small_sentencepiece({"\u2581a\u2581"});
    const sentencepiece s(v);
    CHECK(s.piece(0) == "<unk>");
    CHECK(s.piece(1) == "<s>");
    CHECK(s.piece(3) == std::string(1, '\0'));
    CHECK(s.piece(3 + 0xE9) == "\xE9");
    CHECK(s.piece(id_of(v, "\u2581a\u2581")) == " a ");
}

TEST_CASE("text/sentencepiece: hostile vocabularies are parse errors, odd ones work") {
    vocabulary v = small_sentencepiece({"a", "a"});
    CHECK_THROWS_AS(sentencepiece{v}, parse_error);
    v = small_sentencepiece({"a", "", ""});
    CHECK(pieces(v, "ab") == list{"a", "<0x62>"}); // empty tokens are never found
    v.scores.pop_back();
    CHECK_THROWS_AS(sentencepiece{v}, parse_error);
    v.scores.clear();
    CHECK_THROWS_AS(sentencepiece{v}, parse_error);
    v = small_sentencepiece({"a"});
    v.tokens[3] = "0x00";
    CHECK_THROWS_AS(sentencepiece{v}, parse_error);
    v = small_sentencepiece({"ab", "a", "b"});
    v.scores[id_of(v, "ab") + 0u] = -INFINITY;
    CHECK(pieces(v, "ab") == list{"ab"});
}

TEST_CASE("text/sentencepiece: a mebibyte of one character takes no quadratic time") {
    std::vector<std::string> runs;
    for (std::size_t n = 64; n > 0; n /= 2) runs.emplace_back(n, 'a');
    const vocabulary v = small_sentencepiece(runs);
    CHECK(pieces(v, std::string(1 << 20, 'a')).size() == (1 << 20) / 64);
    CHECK(pieces(v, std::string(1 << 20, ' ')).size() == 3 << 20);
}

} // namespace
