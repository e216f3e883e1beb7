#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <tern/text/merging.hpp>

namespace {

using namespace tern;
using detail::candidate;
using detail::symbol;

/// The sizes that are left when letters merge by `find`.
template <class Find> std::vector<unsigned> sizes(std::size_t count, Find find) {
    detail::merger<int> chain;
    for (std::size_t i = 0; i < count; ++i) chain.add(i, 1, 0);
    chain.run(find);
    std::vector<unsigned> left;
    for (const symbol& s : chain.symbols) {
        if (s.size > 0) left.push_back(s.size);
    }
    return left;
}

TEST_CASE("text/merging: a smaller key goes first, then the pair further left") {
    const auto pairs = [](const symbol& l, const symbol& r) -> candidate<int> {
        return {1, l.size == 1 && r.size == 1 ? 1 : no_token};
    };
    CHECK(sizes(5, pairs) == std::vector<unsigned>{2, 2, 1});
    const auto last_first = [](const symbol& l, const symbol& r) -> candidate<int> {
        return {-static_cast<int>(l.begin), l.size == 1 && r.size == 1 ? 1 : no_token};
    };
    CHECK(sizes(5, last_first) == std::vector<unsigned>{1, 2, 2});
}

TEST_CASE("text/merging: pairs that were merged away are not merged again") {
    const auto all = [](const symbol&, const symbol&) -> candidate<int> { return {0, 1}; };
    CHECK(sizes(1000, all) == std::vector<unsigned>{1000});
    CHECK(sizes(1, all) == std::vector<unsigned>{1});
    CHECK(sizes(0, all).empty());
}

TEST_CASE("text/merging: the number of lookups grows with the text, not with its square") {
    std::size_t lookups = 0;
    const auto doubling = [&](const symbol& l, const symbol& r) -> candidate<int> {
        ++lookups;
        return {static_cast<int>(l.size), l.size == r.size ? 1 : no_token};
    };
    CHECK(sizes(1 << 16, doubling) == std::vector<unsigned>{1 << 16});
    CHECK(lookups < 4 * (1 << 16));
}

TEST_CASE("text/merging: a text beyond 1 GiB is refused") {
    CHECK_NOTHROW(detail::check_text_size({"", 0}));
    CHECK_THROWS_AS(detail::check_text_size({"", detail::max_text_bytes + 1}), budget_error);
}

} // namespace
