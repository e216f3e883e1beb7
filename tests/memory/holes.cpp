#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <tern/memory/holes.hpp>

using tern::detail::hole_list;

namespace {

std::vector<std::uint64_t> pieces(const hole_list& l) {
    std::vector<std::uint64_t> ends;
    for (const auto& h : l) {
        ends.push_back(h.begin);
        ends.push_back(h.end);
    }
    return ends;
}

} // namespace

TEST_CASE("memory/holes: a piece is taken from the start, the end, the middle or all of a hole") {
    hole_list l(100);
    l.expect(4);
    l.take(0, 0, 10);
    CHECK(pieces(l) == std::vector<std::uint64_t>{10, 100});
    l.take(0, 90, 10);
    CHECK(pieces(l) == std::vector<std::uint64_t>{10, 90});
    l.take(0, 30, 20);
    CHECK(pieces(l) == std::vector<std::uint64_t>{10, 30, 50, 90});
    CHECK(l.largest() == 40);
    l.take(1, 50, 40);
    CHECK(pieces(l) == std::vector<std::uint64_t>{10, 30});
}

TEST_CASE("memory/holes: what is free joins its neighbours") {
    hole_list l(100);
    l.expect(10);
    l.take(0, 0, 100);
    CHECK(l.count() == 0);
    CHECK(l.largest() == 0);
    l.give_back(40, 10);
    l.give_back(0, 10);
    l.give_back(80, 20);
    CHECK(pieces(l) == std::vector<std::uint64_t>{0, 10, 40, 50, 80, 100});
    l.give_back(10, 5); // the one before
    l.give_back(35, 5); // the one behind
    CHECK(pieces(l) == std::vector<std::uint64_t>{0, 15, 35, 50, 80, 100});
    l.give_back(15, 20); // both
    CHECK(pieces(l) == std::vector<std::uint64_t>{0, 50, 80, 100});
    l.give_back(50, 30);
    CHECK(pieces(l) == std::vector<std::uint64_t>{0, 100});
    l.clear();
    CHECK(l.count() == 0);
    CHECK(hole_list(0).count() == 0);
}
