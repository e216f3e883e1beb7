#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include <tern/text/vocabulary.hpp>

#include "support.hpp"

namespace {

using namespace tern;
using test::message_of;

vocabulary three() {
    vocabulary v;
    v.tokens = {"a", "<0x0A>", "<s>"};
    return v;
}

TEST_CASE("text/vocabulary: arrays that do not fit together are parse errors that name both sizes") {
    CHECK_NOTHROW(validate(three()));
    CHECK(message_of<parse_error>([] { validate({}); }) == "the vocabulary has no tokens");
    vocabulary v = three();
    v.scores = {1, 2};
    CHECK(message_of<parse_error>([&] { validate(v); }) == "the vocabulary has 3 tokens and 2 scores");
    v.scores = {1, NAN, 2};
    CHECK(message_of<parse_error>([&] { validate(v); }) == "the score of token 1 is NaN");
    v.scores = {};
    v.types = {1};
    CHECK(message_of<parse_error>([&] { validate(v); }) == "the vocabulary has 3 tokens and 1 token types");
    v.types = {1, 7, 1};
    CHECK(message_of<parse_error>([&] { validate(v); }) == "token 1 has the unknown type 7");
    v.types = {1, -1, 1};
    CHECK_THROWS_AS(validate(v), parse_error);
}

TEST_CASE("text/vocabulary: special ids outside the vocabulary are named") {
    vocabulary v = three();
    v.special.bos = 3;
    CHECK(message_of<parse_error>([&] { validate(v); }) == "the bos token is 3, and the vocabulary ends at 2");
    v.special.bos = -1;
    CHECK_THROWS_AS(validate(v), parse_error);
    v.special.bos = 2;
    CHECK_NOTHROW(validate(v));
    for (auto role : {&special_tokens::eos, &special_tokens::unknown, &special_tokens::pad, &special_tokens::separator,
                      &special_tokens::mask, &special_tokens::end_of_turn, &special_tokens::end_of_message}) {
        vocabulary w = three();
        w.special.*role = 0x7FFFFFFF;
        CHECK_THROWS_AS(validate(w), parse_error);
    }
}

TEST_CASE("text/vocabulary: the length of tokens is bounded") {
    vocabulary v = three();
    v.tokens[0] = std::string(max_token_bytes, 'x');
    CHECK_NOTHROW(validate(v));
    v.types = {4, 1, 1};
    CHECK_THROWS_AS(validate(v), parse_error);
    v.types = {};
    v.tokens[0] += 'x';
    CHECK_THROWS_AS(validate(v), parse_error);
}

TEST_CASE("text/vocabulary: without types they are inferred") {
    vocabulary v = three();
    v.special.bos = 2;
    CHECK(type_of(v, 0) == token_type::normal);
    CHECK(type_of(v, 1) == token_type::byte);
    CHECK(type_of(v, 2) == token_type::control);
    v.special.unknown = 0;
    CHECK(type_of(v, 0) == token_type::unknown);
    v.types = {0, 4, 1};
    CHECK(type_of(v, 0) == token_type::normal);
    CHECK(type_of(v, 1) == token_type::user_defined);
}

TEST_CASE("text/vocabulary: the unknown token is the named one, else the first of that type") {
    vocabulary v = three();
    CHECK(!unknown_token(v));
    v.types = {1, 2, 2};
    CHECK(unknown_token(v) == 1);
    v.special.unknown = 2;
    CHECK(unknown_token(v) == 2);
}

TEST_CASE("text/vocabulary: named bytes") {
    CHECK(named_byte("<0x0A>") == 10);
    CHECK(named_byte("<0xff>") == 255);
    CHECK(!named_byte("<0xG0>"));
    CHECK(!named_byte("<0x0A"));
    CHECK(!named_byte("<0x00A>"));
    CHECK(!named_byte(""));
}

} // namespace
