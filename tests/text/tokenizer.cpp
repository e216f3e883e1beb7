#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include <tern/text/tokenizer.hpp>

#include "support.hpp"

namespace {

using namespace tern;
using test::id_of;
using test::message_of;
using test::small_sentencepiece;
using ids = std::vector<token_id>;

vocabulary words() {
    vocabulary v = small_sentencepiece({"\u2581a", "\u2581", "a", "b", "<box>"});
    v.types.back() = static_cast<std::int32_t>(token_type::user_defined);
    return v;
}

TEST_CASE("text/tokenizer: add_bos false gives none, true gives one, absent stays absent under the family's rule") {
    vocabulary v = words();
    const token_id a = id_of(v, "\u2581a");
    v.add_bos = false;
    CHECK(make_tokenizer(v).encode("a") == ids{a});
    CHECK(!make_tokenizer(v).adds_bos());
    v.add_bos = true;
    CHECK(make_tokenizer(v).encode("a") == ids{1, a});
    v.add_bos.reset();
    const tokenizer absent = make_tokenizer(v);
    CHECK(!absent.vocab().add_bos.has_value());
    CHECK(absent.adds_bos());
    CHECK(absent.encode("a") == ids{1, a});
    CHECK(absent.encode("a", {.add_special = false}) == ids{a});
    CHECK(absent.describe().find("add_bos true (absent; the family's rule)") != std::string::npos);
    CHECK(absent.describe().find("add_eos false (absent; the family's rule)") != std::string::npos);
    v.special.bos.reset();
    CHECK(make_tokenizer(v).encode("a") == ids{a});
}

TEST_CASE("text/tokenizer: add_eos and add_space_prefix follow their flags") {
    vocabulary v = words();
    v.add_eos = true;
    v.add_space_prefix = false;
    const tokenizer t = make_tokenizer(v);
    CHECK(t.encode("a") == ids{1, id_of(v, "a"), 2});
    CHECK(t.describe().find("add_eos true (file), add_space_prefix false (file)") != std::string::npos);
    CHECK(t.decode(t.encode(" a")) == " a");
}

TEST_CASE("text/tokenizer: a flag that asks for a token that is not named is a config error") {
    vocabulary v = words();
    v.special = {.unknown = 0};
    CHECK_NOTHROW(make_tokenizer(v));
    v.add_bos = true;
    CHECK(message_of<config_error>([&] { make_tokenizer(v); }).find("add_bos is true") == 0);
    v.add_bos = false;
    v.add_eos = true;
    CHECK(message_of<config_error>([&] { make_tokenizer(v); }).find("add_eos is true") == 0);
}

TEST_CASE("text/tokenizer: special tokens are kept whole when asked for, user-defined ones always") {
    const vocabulary v = words();
    const tokenizer t = make_tokenizer(v);
    const token_id a = id_of(v, "\u2581a"), box = id_of(v, "<box>");
    CHECK(t.encode("<s>a</s>", {.add_special = false, .parse_special = true}) == ids{1, a, 2});
    CHECK(t.encode("a<box>a", {.add_special = false}) == ids{a, box, a});
    for (const token_id id : t.encode("<s>a</s>", {.add_special = false})) { CHECK(t.type(id) != token_type::control); }
    CHECK(t.decode(t.encode("<s>a</s>")) == "<s>a</s>");
    const ids parsed = t.encode("<s>a <box>b</s>", {.add_special = false, .parse_special = true});
    CHECK(t.decode(parsed, {.special = true}) == "<s>a <box>b</s>");
    CHECK(t.decode(parsed) == "a <box>b");
    const ids unknown = t.encode("a<unk>a", {.add_special = false, .parse_special = true});
    CHECK(unknown == ids{a, 0, id_of(v, "a")});
    CHECK(t.decode(unknown, {.special = true}) == "a<unk>a");
}

TEST_CASE("text/tokenizer: empty texts, NUL bytes and invalid UTF-8 come back as they were") {
    const tokenizer t = make_tokenizer(words());
    CHECK(t.encode("") == ids{1});
    CHECK(t.encode("", {.add_special = false}).empty());
    CHECK(t.decode({}).empty());
    for (const std::string& text : {std::string("\0a\0", 3), std::string("\xFF\xE2\x96 \xC3"), std::string("  a  "),
                                    std::string("\n"), std::string(" ")}) {
        CHECK(t.decode(t.encode(text)) == text);
    }
}

TEST_CASE("text/tokenizer: pieces and types, and ids outside the vocabulary") {
    const vocabulary v = words();
    const tokenizer t = make_tokenizer(v);
    CHECK(t.size() == v.tokens.size());
    CHECK(t.piece(1) == "<s>");
    CHECK(t.piece(id_of(v, "\u2581a")) == " a");
    CHECK(t.piece(3 + 0xC3) == "\xC3");
    CHECK(t.is_end(2));
    CHECK(!t.is_end(1));
    const auto last = static_cast<token_id>(t.size());
    for (const token_id id : {last, token_id{-1}, token_id{0x7FFFFFFF}}) {
        CHECK_THROWS_AS(t.piece(id), shape_error);
        CHECK_THROWS_AS(t.type(id), shape_error);
        CHECK_THROWS_AS(t.decode(ids{id}), shape_error);
        CHECK(!t.is_end(id));
    }
}

TEST_CASE("text/tokenizer: a family that is not there is named") {
    vocabulary v = words();
    v.model = "bert";
    CHECK(message_of<unsupported_error>([&] { make_tokenizer(v); }).find("\"bert\"") != std::string::npos);
    v.model = "llama";
    v.tokens.clear();
    CHECK_THROWS_AS(make_tokenizer(v), parse_error);
}

TEST_CASE("text/tokenizer: copies share their tables and outlive the original") {
    tokenizer copy = make_tokenizer(words());
    {
        const tokenizer original = make_tokenizer(small_sentencepiece({"zz"}));
        copy = original;
    }
    CHECK(copy.piece(3 + 256) == "zz");
    CHECK(copy.vocab().model == "llama");
}

TEST_CASE("text/tokenizer: the chat template is carried along untouched") {
    vocabulary v = words();
    v.chat_template = "{% for m in messages %}\n{{ m }}";
    CHECK(make_tokenizer(v).vocab().chat_template == v.chat_template);
}

} // namespace
