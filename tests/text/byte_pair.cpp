#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <tern/text/byte_pair.hpp>
#include <tern/text/tokenizer.hpp>

#include "support.hpp"

namespace {

using namespace tern;
using test::id_of;
using test::message_of;
using list = std::vector<std::string>;

/// All 256 bytes, the merges and what they make.
vocabulary small_gpt2(const std::vector<std::string>& merges, const std::string& pre = "gpt-2") {
    vocabulary v;
    v.model = "gpt2";
    v.pre = pre;
    for (int b = 0; b < 256; ++b) {
        v.tokens.emplace_back();
        detail::append_byte_character(static_cast<unsigned char>(b), v.tokens.back());
    }
    for (const std::string& merge : merges) {
        v.merges.push_back(merge);
        const std::size_t space = merge.find(' ', 1);
        v.tokens.push_back(merge.substr(0, space) + merge.substr(space + 1));
    }
    v.types.assign(v.tokens.size(), 1);
    return v;
}

void add(vocabulary& v, const std::string& text, token_type type) {
    v.tokens.push_back(text);
    v.types.push_back(static_cast<std::int32_t>(type));
}

list pieces(const vocabulary& v, std::string_view text) {
    std::vector<token_id> ids;
    byte_pair(v).encode(text, false, ids);
    list all;
    for (const token_id id : ids) all.push_back(v.tokens[static_cast<std::size_t>(id)]);
    return all;
}

TEST_CASE("text/byte_pair: bytes and the characters that stand for them") {
    std::string all;
    for (int b = 0; b < 256; ++b) {
        std::string c;
        detail::append_byte_character(static_cast<unsigned char>(b), c);
        CHECK(detail::bytes_of_characters(c) == std::string(1, static_cast<char>(b)));
        all += c;
    }
    CHECK(all.find("!\"#") != all.npos);
    CHECK(detail::bytes_of_characters("\u0120Hello\u010A") == " Hello\n");
    CHECK(detail::bytes_of_characters("\u00E9") == "\xE9");
    CHECK(detail::bytes_of_characters("\u0143") == "\xAD");
    CHECK(detail::bytes_of_characters("\u0144\u2581\xFF") == "\u0144\u2581\xFF"); // these stand for no byte
}

TEST_CASE("text/byte_pair: the earliest merge goes first, further left among equals") {
    CHECK(pieces(small_gpt2({"b c", "a b"}), "abc") == list{"a", "bc"});
    CHECK(pieces(small_gpt2({"a b", "b c"}), "abc") == list{"ab", "c"});
    CHECK(pieces(small_gpt2({"a a", "aa a"}), "aaaaa") == list{"aa", "aaa"});
    CHECK(pieces(small_gpt2({"\u0120 a"}), "a a") == list{"a", "\u0120a"});
}

TEST_CASE("text/byte_pair: merges do not cross what the pre-tokenizer cuts") {
    CHECK(pieces(small_gpt2({"a 1", "1 1"}), "a11") == list{"a", "11"});
    CHECK(pieces(small_gpt2({"a 1", "1 1"}, "smollm"), "a11") == list{"a", "1", "1"});
    vocabulary v = small_gpt2({"a b"});
    v.pre = "";
    CHECK(pieces(v, "ab") == list{"ab"}); // no name: "default"
    v.pre = "nobody";
    CHECK_THROWS_AS(byte_pair{v}, unsupported_error);
}

TEST_CASE("text/byte_pair: digits are grouped from the right where the pre-tokenizer says so") {
    const std::vector<std::string> merges{"1 1", "11 1"};
    CHECK(pieces(small_gpt2(merges, "afmoe"), "11111") == list{"11", "111"});
    CHECK(pieces(small_gpt2(merges, "superbpe"), "1111") == list{"1", "111"});
    CHECK(pieces(small_gpt2(merges, "tiny_aya"), "1111 1111a") == list{"1", "111", "\u0120", "111", "1", "a"});
    CHECK(pieces(small_gpt2(merges, "llama-bpe"), "1111") == list{"111", "1"});
}

TEST_CASE("text/byte_pair: a piece that is a token stays whole where the name asks for it") {
    vocabulary v = small_gpt2({"a b"}, "llama-bpe");
    add(v, "abc", token_type::normal);
    CHECK(pieces(v, "abc") == list{"abc"});
    v.pre = "qwen2";
    CHECK(pieces(v, "abc") == list{"ab", "c"});
}

TEST_CASE("text/byte_pair: any byte comes through") {
    const tokenizer t = make_tokenizer(small_gpt2({"a b"}));
    std::string all;
    for (int b = 0; b < 256; ++b) all += static_cast<char>(b);
    for (const std::string& text : {all, std::string("\0\0", 2), std::string("ab\xC3"), std::string("\xFF\xFE ab")}) {
        CHECK(t.decode(t.encode(text)) == text);
    }
}

TEST_CASE("text/byte_pair: a byte without a token becomes the unknown token, or U+FFFD, or an error") {
    vocabulary v = small_gpt2({"a b"});
    std::string ff;
    detail::append_byte_character(0xFF, ff);
    v.types[0xFF] = 4; // user defined: the character itself, not the byte
    const list replaced = pieces(v, "a\xFF");
    CHECK(replaced.size() == 4);
    CHECK(detail::bytes_of_characters(replaced[1] + replaced[2] + replaced[3]) == replacement_character);
    v.types[0xFD] = v.types[0xBD] = 4;
    CHECK_THROWS_AS(pieces(v, "\xFF"), unsupported_error);
    add(v, "<unk>", token_type::unknown);
    CHECK(pieces(v, "a\xFF") == list{"a", "<unk>"});
}

TEST_CASE("text/byte_pair: control tokens are never made from text") {
    vocabulary v = small_gpt2({"a b"}, "llama-bpe");
    add(v, "abc", token_type::control);
    CHECK(pieces(v, "abc") == list{"ab", "c"});
}

TEST_CASE("text/byte_pair: hostile merges are parse errors that show the merge") {
    vocabulary v = small_gpt2({"a b"});
    const auto what = [&](std::vector<std::string> merges) {
        v.merges = std::move(merges);
        return message_of<parse_error>([&] { byte_pair{v}; });
    };
    CHECK(what({}) == "a byte-pair vocabulary needs merges, and this one has none");
    CHECK(what({"a b", "xx yy"}) == "merge 1, \"xx yy\", joins what is no token");
    CHECK(what({"b a"}) == "merge 0, \"b a\", makes what is no token");
    CHECK(what({"ab"}) == "merge 0, \"ab\", is not two tokens with a space between");
    CHECK(what({""}) == "merge 0, \"\", is not two tokens with a space between");
    CHECK(what({" "}) == "merge 0, \" \", is not two tokens with a space between");
    CHECK(what({"a "}) == "merge 0, \"a \", is not two tokens with a space between");
    CHECK(what({"a b", "a b"}).empty());
    v = small_gpt2({"a b"});
    add(v, "ab", token_type::normal);
    CHECK(message_of<parse_error>([&] { byte_pair{v}; }).find("\"ab\" twice") != std::string::npos);
}

TEST_CASE("text/byte_pair: the plain kind writes spaces as U+2581 and spells in byte tokens") {
    vocabulary v = test::small_sentencepiece({"\u2581", "a", "b", "\u2581a", "ab", "\n", "\n\n"});
    v.model = "gemma4";
    v.scores.clear();
    v.merges = {"\u2581 a", "a b", "\n \n"};
    CHECK(pieces(v, " ab") == list{"\u2581a", "b"});
    CHECK(pieces(v, "ab\n\n\u00E9") == list{"ab", "\n\n", "<0xC3>", "<0xA9>"});
    const tokenizer t = make_tokenizer(v);
    CHECK(t.adds_bos());
    CHECK(!t.vocab().add_bos);
    CHECK(!t.adds_space_prefix());
    const std::string text("  a\0\xFF b\n", 8);
    CHECK(t.decode(t.encode(text)) == text);
}

TEST_CASE("text/byte_pair: a mebibyte in one piece takes no quadratic time") {
    const tokenizer t = make_tokenizer(small_gpt2({"a a", "aa aa", "\u0120 \u0120"}));
    const std::size_t n = 1 << 20;
    CHECK(t.encode(std::string(n, 'a')).size() == n / 4);
    CHECK(t.encode(std::string(n, ' ')).size() == n / 2);
    CHECK(t.encode(std::string(n, '\xFF')).size() == n);
}

void agrees(const char* name) {
    const auto path = test::shared_file("vocab/ggml-vocab-" + std::string(name) + ".gguf");
    if (!path) return;
    const tokenizer t = make_tokenizer(test::read_vocabulary(*path));
    const auto cases = test::read_cases(*path);
    CHECK(cases.size() == 46);
    for (const auto& [text, ids] : cases) {
        CAPTURE(text);
        CHECK(t.encode(text, {.add_special = false}) == ids);
        CHECK(t.decode(ids) == text);
    }
}

TEST_CASE("text/byte_pair: agrees with published tokens: gpt-2") { agrees("gpt-2"); }
TEST_CASE("text/byte_pair: agrees with published tokens: llama-bpe") { agrees("llama-bpe"); }
TEST_CASE("text/byte_pair: agrees with published tokens: qwen2") { agrees("qwen2"); }
TEST_CASE("text/byte_pair: agrees with published tokens: deepseek-coder") { agrees("deepseek-coder"); }
TEST_CASE("text/byte_pair: agrees with published tokens: gemma-4") { agrees("gemma-4"); }
TEST_CASE("text/byte_pair: agrees with published tokens: llama-spm") { agrees("llama-spm"); }

TEST_CASE("text/byte_pair: special tokens of a real vocabulary are kept whole") {
    const auto path = test::shared_file("vocab/ggml-vocab-llama-bpe.gguf");
    if (!path) return;
    const tokenizer t = make_tokenizer(test::read_vocabulary(*path));
    CHECK(!t.vocab().add_bos);
    CHECK(t.adds_bos());
    const auto ids = t.encode("<|begin_of_text|>Hello<|eot_id|>", {.add_special = false, .parse_special = true});
    CHECK(ids == std::vector<token_id>{128000, 9906, 128009});
    CHECK(t.encode("<|eot_id|>", {.add_special = false}).size() > 1);
    CHECK(t.encode("Hello") == std::vector<token_id>{128000, 9906});
}

} // namespace
