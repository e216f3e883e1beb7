#include <doctest/doctest.h>

#include <string>

#include <tern/text/index.hpp>

#include "support.hpp"

namespace {

using namespace tern;

TEST_CASE("text/index: tokens are found by text, twice the same text is an error that names both") {
    vocabulary v;
    for (int i = 0; i < 1000; ++i) v.tokens.push_back("t" + std::to_string(i));
    v.tokens.push_back("");
    v.tokens.push_back("t7");
    detail::token_index index(v);
    for (token_id i = 0; i < 1001; ++i) index.add(i);
    for (token_id i = 0; i < 1000; ++i) CHECK(index.find(v.tokens[static_cast<std::size_t>(i)]) == i);
    CHECK(index.find("") == no_token);
    CHECK(index.find("t1000") == no_token);
    CHECK(index.find("longer than any") == no_token);
    CHECK(test::message_of<parse_error>([&] { index.add(1001); }) ==
          "the vocabulary has \"t7\" twice, as token 7 and as token 1001");
}

TEST_CASE("text/index: merges are found by their sides in order, and the first of a pair counts") {
    detail::merge_index index(3);
    index.add(1, 2, {10, 5});
    index.add(1, 2, {20, 6});
    index.add(2, 1, {30, 7});
    CHECK(index.find(1, 2).rank == 10);
    CHECK(index.find(1, 2).result == 5);
    CHECK(index.find(2, 1).result == 7);
    CHECK(index.find(1, 1).result == no_token);
}

TEST_CASE("text/index: entries made to collide are refused, not probed for ever") {
    // Keys whose mixed values end in zeros, found by undoing the mixing function.
    const auto unmix = [](std::uint64_t x) {
        const auto inverse = [](std::uint64_t a) {
            std::uint64_t r = a;
            for (int i = 0; i < 6; ++i) r *= 2 - a * r;
            return r;
        };
        x = (x ^ (x >> 33)) * inverse(0xC4CEB9FE1A85EC53u);
        x = (x ^ (x >> 33)) * inverse(0xFF51AFD7ED558CCDu);
        return x ^ (x >> 33);
    };
    CHECK(detail::mix(unmix(12345)) == 12345);
    detail::merge_index index(2000);
    CHECK_THROWS_AS(
        [&] {
            for (std::uint64_t i = 1; i < 2000; ++i) {
                const std::uint64_t key = unmix(i << 40);
                index.add(static_cast<token_id>(key >> 32), static_cast<token_id>(key), {0, 1});
            }
        }(),
        parse_error);
}

} // namespace
