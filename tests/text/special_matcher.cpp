#include <doctest/doctest.h>

#include <string>

#include <tern/text/special_matcher.hpp>

namespace {

using namespace tern;

vocabulary words() {
    vocabulary v;
    v.tokens = {"<s>", "ab", "abcd", "normal", "b\xFFx", "", "<unk>", "abcx"};
    v.types = {3, 4, 4, 1, 4, 4, 2, 4};
    return v;
}

TEST_CASE("text/special_matcher: the leftmost token, and the longest there") {
    const vocabulary v = words();
    const detail::special_matcher m(v, false);
    CHECK(m.find("xxabcd", 0).begin == 2);
    CHECK(m.find("xxabcd", 0).token == 2);
    CHECK(m.find("xxabce", 0).token == 1);
    CHECK(m.find("xxabcd", 3).token == no_token);
    CHECK(m.find("abc", 0).token == 1);
    CHECK(m.find("abcx", 0).token == 7);
    CHECK(m.find("ab\xFFx", 0).token == 1);
    CHECK(m.find("cb\xFFx", 0).token == 4);
    CHECK(m.find("normal", 0).token == no_token);
    CHECK(m.find("", 0).token == no_token);
    CHECK(m.find("a", 0).token == no_token);
}

TEST_CASE("text/special_matcher: control and unknown tokens only when asked for") {
    const vocabulary v = words();
    CHECK(detail::special_matcher(v, false).find("a<s><unk>", 0).token == no_token);
    CHECK(detail::special_matcher(v, true).find("a<s><unk>", 0).token == 0);
    CHECK(detail::special_matcher(v, true).find("a<s><unk>", 2).token == 6);
}

} // namespace
