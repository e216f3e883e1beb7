#include <tern/plan/pricing.hpp>

#include <string>

#include <doctest/doctest.h>

#include "cost_support.hpp"

namespace test = tern::test;

namespace {

double us(double t) { return t * 1e6; }

} // namespace

TEST_CASE("plan/pricing: launches are what an empty call takes; a kernel that copies needs no latency and no sync") {
    const tern::graph g = test::layers();
    const tern::machine m = test::timed({1 << 20});
    const tern::roofline cost(m, test::whole);
    tern::estimate_options how;
    how.shape.habits.zero_copy = true;
    const tern::pricing prices(g, m, cost, how);
    const tern::processor& gpu = prices.processor_at(test::vram0);
    CHECK(us(prices.launches_of(prices.work(2), gpu, test::vram0)) == doctest::Approx(6));
    // 1000 bytes at 100 MB/s and a launch of 2 us, both ways.
    CHECK(us(prices.move_activations(prices.host(), gpu, 1000)) == doctest::Approx(2 + 10));
    CHECK(us(prices.move_activations(gpu, prices.host(), 1000)) == doctest::Approx(2 + 10));
    CHECK(prices.move_activations(gpu, gpu, 1000) == 0);
}

TEST_CASE("plan/pricing: calls on both processors, and the ways between them") {
    const tern::graph g = test::layers();
    const tern::machine m = test::timed({1 << 20});
    const tern::roofline cost(m, test::whole);
    const tern::estimate_options how;
    const tern::pricing prices(g, m, cost, how);
    const tern::processor& host = prices.host();
    const tern::processor& gpu = prices.processor_at(test::vram0);
    CHECK(host.name == "host");
    // Node 2 is gate and up, 1000 bytes each and 250 wide: three launches; 250 and 16 numbers of activations.
    CHECK(us(prices.on(2, host, test::mapped0)) == doctest::Approx(3 + 2.0 + 0.266 * 4));
    CHECK(us(prices.on(2, gpu, test::vram0)) == doctest::Approx(6 + 0.2 + 0.0266 * 4));
    // 250 numbers over the link: 10 us, 1000 bytes at 100 MB/s, 4 us of sync.
    CHECK(us(prices.arrival(2, host, gpu)) == doctest::Approx(10 + 10 + 4));
    CHECK(prices.arrival(2, gpu, gpu) == 0);
    CHECK(us(prices.departure(gpu)) == doctest::Approx(10 + 20 + 4)); // 500 logits
    CHECK(prices.departure(host) == 0);
    CHECK(prices.read_from(host, test::mapped0) == test::mapped0);
    tern::machine unknown = m;
    unknown.memories[1].bandwidth = {};
    const tern::pricing other(g, unknown, cost, how);
    CHECK(other.read_from(other.host(), test::mapped0) == test::pageable0);
}

TEST_CASE("plan/pricing: experts go by those that tokens use, and their rows come and go") {
    const tern::graph g = test::mixture();
    const tern::machine m = test::timed({1 << 20});
    const tern::roofline cost(m, test::whole);
    tern::estimate_options how;
    how.shape.tokens = 3;
    how.shape.habits.experts_through_host = true;
    const tern::pricing prices(g, m, cost, how);
    const tern::expert_use use = prices.use(3, 4);
    CHECK(use.touched == doctest::Approx(8 * (1 - 0.75 * 0.75 * 0.75)));
    CHECK(use.cached == doctest::Approx(use.touched / 2));
    CHECK(prices.pairs(3) == 6);
    // Two experts of 3 * 16 KiB, 3 rows each, 4096 wide: 4 launches each; activations 3 * 4097 numbers a row.
    const double bytes = 2 * 3 * 16384 + 6 * 3 * 4097 * 4;
    CHECK(us(prices.experts_on(3, prices.host(), test::mapped0, 2, 6)) == doctest::Approx(8 + bytes / 1e3));
    // There and back: 3 rows of 4096 numbers, twice for each of two experts.
    const double way = 4 * (10 + 4 + 3 * 4096 * 4 / 1e2);
    CHECK(us(prices.experts_on(3, prices.processor_at(test::vram0), test::vram0, 2, 6)) ==
          doctest::Approx(16 + bytes / 1e4 + way));
    how.shape.habits.experts_through_host = false;
    const tern::pricing there(g, m, cost, how);
    CHECK(us(there.experts_on(3, there.processor_at(test::vram0), test::vram0, 2, 6)) ==
          doctest::Approx(16 + bytes / 1e4));
    CHECK(prices.experts_on(3, prices.host(), test::mapped0, 0, 0) == 0);
}

TEST_CASE("plan/pricing: two accelerators without a link meet in the host's memory; what is missing is said") {
    const tern::graph g = test::layers();
    tern::machine m = test::timed({1 << 20});
    const tern::location vram1{tern::tier_of<tern::vram>, 1, 0};
    m.memories.push_back({vram1, {1 << 20}, {}, false, {}, tern::bytes_per_second{1e10}, ""});
    m.processors.push_back(m.processors[1]);
    m.processors[2].name = "gpu 2";
    m.processors[2].reads = {vram1};
    m.links.push_back({test::pageable0, vram1, tern::bytes_per_second{1e8}, tern::seconds{2e-5}, ""});
    const tern::roofline cost(m, test::whole);
    const tern::estimate_options how;
    const tern::pricing prices(g, m, cost, how);
    CHECK(us(prices.move_activations(m.processors[1], m.processors[2], 100)) ==
          doctest::Approx(10 + 1 + 4 + 20 + 1 + 4));
    CHECK_THROWS_AS(prices.processor_at({tern::tier_of<tern::vram>, 2, 0}), tern::config_error);
    tern::estimate_options none;
    none.shape.tokens = 0;
    CHECK_THROWS_AS(tern::pricing(g, m, cost, none), tern::config_error);
    m.processors.clear();
    CHECK_THROWS_AS(tern::pricing(g, m, cost, how), tern::config_error);
}
