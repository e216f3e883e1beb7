#include <tern/plan/streaming.hpp>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cost_support.hpp"

namespace test = tern::test;

namespace {

/// Four matrices of 1000 bytes, which need 20 us each over the link, streamed from RAM through a pool.
struct fixture {
    tern::graph g;
    tern::machine m = test::timed({1 << 20});
    tern::roofline cost{m, test::whole};
    tern::placement p;
    tern::timeline time{m};

    fixture(std::size_t ahead, std::uint64_t pool) {
        for (int i = 0; i < 4; ++i) {
            const std::size_t t = test::add(g, "w" + std::to_string(i), 1000, test::anywhere());
            g.tensors[t].ahead = ahead;
            g.nodes.push_back({"linear", {t}, 1, 4, 0});
            p.tensors.push_back({test::pageable0, "", test::vram0});
        }
        p.pools.push_back({.where = test::vram0, .limit = {pool}});
    }
    tern::weight_stream<tern::roofline> stream() { return {g, p, m, cost, time, test::pageable0}; }
};

double us(double t) { return t * 1e6; }

} // namespace

TEST_CASE("plan/streaming: of copies that are queued the first alone pays what begins it") {
    // 10 us to begin, 20 us for a slice.
    const tern::queued_copies copies({{0, 30e-6}}, {{0, 50e-6}}, {1000});
    CHECK(us(copies.way(1)[0].time) == doctest::Approx(30));
    CHECK(us(copies.way(3)[0].time) == doctest::Approx(70));
    CHECK(us(copies.way(0.5)[0].time) == doctest::Approx(15)); // every other time there is one
    CHECK(us(copies.way(0)[0].time) == doctest::Approx(0));
    CHECK(copies.each().count == 1000);
    // A price that does not grow evenly gives no negative times.
    const tern::queued_copies odd({{0, 30e-6}}, {{0, 20e-6}}, {1000});
    CHECK(us(odd.way(4)[0].time) == doctest::Approx(30));
}

TEST_CASE("plan/streaming: a serial stream begins with the use") {
    fixture f(2, 10'000);
    tern::weight_stream<tern::roofline> s(f.g, f.p, f.m, f.cost, f.time, test::pageable0, true);
    s.pump(0);
    CHECK(us(s.lease(5e-6)) == doctest::Approx(25));
    CHECK(us(s.lease(100e-6)) == doctest::Approx(120));
}

TEST_CASE("plan/streaming: what comes ahead comes in order, one at a time, until it is far enough ahead") {
    fixture f(2, 10'000);
    auto s = f.stream();
    CHECK(!s.empty());
    CHECK(s.uses_of(0) == 1);
    s.pump(0);
    CHECK(us(s.lease(0)) == doctest::Approx(20)); // the third begins now: two are ahead
    s.release();
    CHECK(us(s.lease(20e-6)) == doctest::Approx(40));
    CHECK(us(s.lease(100e-6)) == doctest::Approx(60));
    // The fourth began when the second was leased, at 40, behind the third: 80. The first of the next pass began when
    // the third was leased, at 100.
    CHECK(us(s.lease(100e-6)) == doctest::Approx(80));
    CHECK(us(s.lease(100e-6)) == doctest::Approx(120));
}

TEST_CASE("plan/streaming: without a window each is brought when it is asked for") {
    fixture f(0, 10'000);
    auto s = f.stream();
    s.pump(0);
    CHECK(us(s.lease(5e-6)) == doctest::Approx(25));
    s.release();
    CHECK(us(s.lease(50e-6)) == doctest::Approx(70));
}

TEST_CASE("plan/streaming: a pool that holds one brings the next when it was released") {
    fixture f(8, 1000);
    auto s = f.stream();
    s.pump(0);
    CHECK(us(s.lease(0)) == doctest::Approx(20));
    s.release();
    s.pump(30e-6);
    CHECK(us(s.lease(31e-6)) == doctest::Approx(50));
}

TEST_CASE("plan/streaming: ways over two links, shares of a cache, what has no way") {
    fixture f(1, 500);
    const auto s = f.stream();
    const std::vector<tern::hop> way = s.way(test::direct0, test::vram0, {1000});
    REQUIRE(way.size() == 2);
    CHECK(us(way[0].time) == doctest::Approx(20)); // of the disk
    CHECK(us(way[1].time) == doctest::Approx(20));
    CHECK(s.way(test::pageable0, test::vram0, {1000}).size() == 1);
    CHECK(s.way(test::mapped0, test::pinned0, {1000}).empty()); // the processor copies
    CHECK_THROWS_AS(s.way(test::direct0, {tern::tier_of<tern::vram>, 1, 0}, {1}), tern::config_error);
    CHECK(s.cached_share(test::vram0) == 1); // nothing is cached
    for (tern::placed_tensor& t : f.p.tensors) t.stay = tern::retention::cache;
    CHECK(s.cached_share(test::vram0) == doctest::Approx(0.125));
    CHECK(fixture(1, 1).stream().uses_of(3) == 1);
}
