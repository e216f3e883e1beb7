#include <tern/plan/bound.hpp>

#include <cstddef>
#include <random>

#include <doctest/doctest.h>

#include <tern/plan/automatic.hpp>

#include "cost_support.hpp"

namespace test = tern::test;

TEST_CASE("plan/bound: bytes over bandwidths, of what fits and what does not") {
    // 64 KiB of an output, two norms and two routers: 74240 bytes that every token uses; 2 * 8 experts of 48 KiB.
    const tern::graph g = test::mixture();
    constexpr double used = 65536 + 2 * (256 + 4096), expert = 3 * 16384;
    const auto least = [&](const tern::machine& m) {
        return tern::least_time(g, m, tern::roofline(m, test::whole), {}).count * 1e6;
    };
    tern::machine m = test::timed({1 << 20}); // 1000 bytes a microsecond, 10000 there, 100 over the link
    CHECK(least(m) == doctest::Approx((used + 4 * expert) / 1e4));
    CHECK(least(m.with_budget<tern::vram>({})) == doctest::Approx((used + 4 * expert) / 1e3));
    // Half of the experts beside the rest; what activations need is 500. Both sides have 1000 together, not 1100.
    m = m.with_budget<tern::vram>({500 + static_cast<std::uint64_t>(used + 8 * expert)});
    CHECK(least(m) == doctest::Approx(used / 1e4 + 2 * expert / 1e3));
    for (tern::memory_space& s : m.memories)
        if (s.where == test::pageable0) s.bandwidth = tern::bytes_per_second{2e9};
    CHECK(least(m) == doctest::Approx(used / 1e4 + 2 * expert / 1.1e3)); // now the host's mapping reads 1000
}

TEST_CASE("plan/bound: with arithmetic a call takes the longer of its bytes and its operations") {
    const tern::graph g = test::mixture();
    tern::machine m = test::timed({1 << 20});
    const auto least = [&](const tern::machine& on, std::size_t tokens, tern::least_of what) {
        tern::estimate_options how;
        how.shape.tokens = tokens;
        return tern::least_time(g, on, tern::roofline(on, test::whole), how, {}, test::vram0, test::mapped0, what)
                   .count *
               1e6;
    };
    // Arithmetic that costs next to nothing changes nothing.
    CHECK(least(m, 64, tern::least_of::arithmetic) == doctest::Approx(least(m, 64, tern::least_of::bytes)));
    // 1e6 operations a microsecond: weights of f32 have two for each 4 bytes and token, 10000 bytes are 5000 * tokens.
    m.processors[1].rates.f32 = 1e12;
    CHECK(least(m, 1, tern::least_of::arithmetic) == doctest::Approx(least(m, 1, tern::least_of::bytes)));
    const double output = 2.0 * 16384 * 256 / 1e6; // of 256 tokens, one row each
    const double more = least(m, 256, tern::least_of::arithmetic) - least(m, 256, tern::least_of::bytes);
    CHECK(more > output - 65536 / 1e4);
    CHECK(more < output - 65536 / 1e4 + 0.5); // and of norms and routers
}

TEST_CASE("plan/bound: nothing that is tried is faster") {
    std::mt19937 random(4);
    for (int round = 0; round < 30; ++round) {
        CAPTURE(round);
        const tern::graph g = test::random_graph(random, 1 + random() % 4);
        tern::machine m = test::timed({random() % g.weight_bytes().count});
        const tern::automatic<> policy{tern::roofline(m, test::whole)};
        const double least = tern::least_time(g, m, policy.prices(m), policy.options.how).count;
        for (const tern::tried_placement& t : policy.tried(g, m)) CHECK(t.time.count >= least * 0.999);
    }
}
