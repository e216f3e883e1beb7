#include <tern/memory/region_arena.hpp>
#include <tern/sim/device.hpp>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/async/run_loop.hpp>
#include <tern/async/virtual_clock.hpp>
#include <tern/async/when_all.hpp>
#include <tern/kernel/elementwise.hpp>
#include <tern/op/context.hpp>

#include "support.hpp"

namespace {

namespace test = tern::test;

struct bench {
    tern::virtual_clock time{};
    tern::run_loop home{time};
    const tern::machine m = test::plain_machine();
    const tern::cost_by<test::by_bytes> cost{test::by_bytes{}};
    tern::sim_world world{time, cost};
    tern::region_arena ram{test::ram, {1 << 20}};
    tern::region_arena vram{test::card, {1 << 20}};
    tern::sim_device host{world, m.processors[0], ram};
    tern::sim_device card{world, m.processors[1], vram};
    tern::context ctx{home, host};
};

tern::task<> copy(bench& b, std::size_t n, tern::lane lane = tern::lane::weights) {
    const tern::allocation from = b.ram.allocate({n}, "from");
    const tern::allocation to = b.vram.allocate({n}, "to");
    co_await tern::copy(b.card, b.home, tern::direction::to_device, to.data(), from.data(), {n}, lane);
}
tern::task<> add(bench& b, tern::device& on, std::size_t rows, std::size_t cols) {
    const tern::activation x = b.ctx.make(on, rows, cols);
    co_await b.ctx.launch<tern::kernel::add>(on, {.a = x.data(),
                                                  .a_stride = cols,
                                                  .b = x.data(),
                                                  .b_stride = cols,
                                                  .rows = rows,
                                                  .cols = cols,
                                                  .y = x.data(),
                                                  .y_stride = cols});
}

} // namespace

TEST_CASE("sim/device: operators take their price, one after the other on a device and side by side on two") {
    bench b;
    const double one = 1e-6 + 12.0 * 10 * 100 / 10e9;
    b.home.run(add(b, b.host, 10, 100));
    CHECK(b.time.now().count == doctest::Approx(one));
    b.home.run(tern::when_all(add(b, b.host, 10, 100), add(b, b.host, 10, 100), add(b, b.card, 10, 100)));
    CHECK(b.time.now().count == doctest::Approx(3 * one));
    CHECK(b.host.computing().calls == 3);
    CHECK(b.host.computing().busy.count == doctest::Approx(3 * one));
    CHECK(b.card.computing().busy.count == doctest::Approx(1e-6 + 12.0 * 1000 / 100e9));
    CHECK(b.card.computing().bytes == 12000);
}

TEST_CASE("sim/device: copies take their price, beside what is under way") {
    bench b;
    const double alone = 1e-5 + 1e5 / 1e9;
    b.home.run(copy(b, 100'000));
    CHECK(b.time.now().count == doctest::Approx(alone));
    const double begin = b.time.now().count;
    b.home.run(tern::when_all(copy(b, 100'000), copy(b, 100'000))); // of one queue: one after the other
    CHECK(b.time.now().count - begin == doctest::Approx(2 * alone));
    const double again = b.time.now().count;
    b.home.run(tern::when_all(copy(b, 100'000), copy(b, 100'000, tern::lane::activations)));
    CHECK(b.time.now().count - again == doctest::Approx(1e-5 + 2e5 / 1e9)); // the second shares the bus
    CHECK(b.card.bringing().bytes == 500'000);
    CHECK(b.card.bringing().is_link);
    CHECK(b.card.traffic().to_device == tern::bytes{500'000});
    CHECK(b.world.under_way.empty());
}

TEST_CASE("sim/device: routers choose as the world draws, and tokens are grouped by expert") {
    bench b;
    b.world.routing = tern::expert_draw({.skew = 0, .seed = 3});
    constexpr std::size_t tokens = 5, experts = 8, k = 3;
    std::vector<std::int32_t> ids(tokens * k), order(tokens * k), row_of(tokens * k), offsets(experts + 1);
    std::vector<float> weights(tokens * k);
    const auto route = [&]() -> tern::task<> {
        co_await b.ctx.launch<tern::kernel::route>(b.host, {.logits = nullptr,
                                                            .logits_stride = experts,
                                                            .tokens = tokens,
                                                            .experts = experts,
                                                            .k = k,
                                                            .softmax = tern::kernel::router_softmax::before_top_k,
                                                            .normalise = true,
                                                            .scale = 1,
                                                            .ids = ids.data(),
                                                            .weights = weights.data()});
        co_await b.ctx.launch<tern::kernel::group_by_expert>(b.host, {.ids = ids.data(),
                                                                      .pairs = tokens * k,
                                                                      .experts = experts,
                                                                      .offsets = offsets.data(),
                                                                      .order = order.data(),
                                                                      .row_of = row_of.data()});
    };
    b.home.run(route());
    for (std::size_t t = 0; t < tokens; ++t) CHECK(std::set<std::int32_t>(&ids[t * k], &ids[t * k] + k).size() == k);
    CHECK(weights[7] == doctest::Approx(1.0 / 3));
    CHECK(offsets.back() == tokens * k);
    for (std::size_t p = 0; p < tokens * k; ++p)
        CHECK(order[static_cast<std::size_t>(row_of[p])] == static_cast<int>(p));
    CHECK(b.world.routed == 1);
}

TEST_CASE("sim/device: events say who did what, when and for how long") {
    bench b;
    std::vector<tern::sim_event> events;
    b.world.events = &events;
    b.home.run(add(b, b.card, 1, 10));
    b.home.run(copy(b, 1000));
    REQUIRE(events.size() == 2);
    CHECK(events[0].track == "card");
    CHECK(events[0].what == "add");
    CHECK(events[1].track == "to card");
    CHECK(events[1].begin.count == doctest::Approx(events[0].length.count));
    CHECK(events[1].amount == 1000);
}
