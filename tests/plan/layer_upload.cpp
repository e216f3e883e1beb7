#include <tern/plan/layer_upload.hpp>

#include <cstddef>

#include <doctest/doctest.h>

#include <tern/plan/estimate.hpp>

#include "cost_support.hpp"

namespace test = tern::test;

namespace {

tern::graph untied() {
    tern::graph g = test::layers();
    g.nodes.back().tensors = {test::add(g, "output", 2000, test::anywhere())};
    return g;
}

} // namespace

TEST_CASE("plan/layer_upload: the layers before come for each use, through room for the largest of them") {
    const tern::graph g = untied();
    const tern::machine m = test::with({20'000});
    const tern::layer_upload policy{.layers = 1};
    const tern::placement p = policy.place(g, m);
    CHECK(test::sound(p, g, m));
    CHECK(p.policy == "layer_upload");
    CHECK(test::of(p, g, "table").where == test::mapped0); // it is looked up
    CHECK(!test::of(p, g, "table").streamed());
    for (const char* name : {"2.gate", "2.down", "output"}) CHECK(test::of(p, g, name).where == test::vram0);
    for (const char* name : {"0.norm", "0.gate", "1.up", "1.down"}) {
        CHECK(test::of(p, g, name).where == test::mapped0);
        CHECK(test::of(p, g, name).computes == test::vram0);
    }
    // Twice gate and up with their padding; the layer itself has less.
    CHECK(p.pool_at(test::vram0).count == 2 * (2 * (1000 + 64)));
}

TEST_CASE("plan/layer_upload: few tokens are computed where their weights lie, which are the same") {
    const tern::graph g = untied();
    const tern::machine m = test::with({12'000});
    const tern::layer_upload policy;
    const tern::placement many = policy.place_for(32, g, m), few = policy.place_for(31, g, m);
    CHECK(many.policy == "layer_upload");
    CHECK(few.policy == "layer_split");
    CHECK(few.pools.empty());
    std::size_t streamed = 0, placed = 0;
    for (std::size_t t = 0; t < g.tensors.size(); ++t) {
        CHECK(many.tensors[t].where == few.tensors[t].where);
        CHECK(!few.tensors[t].streamed());
        streamed += many.tensors[t].streamed() ? 1 : 0;
        placed += many.tensors[t].where == test::vram0 ? 1 : 0;
    }
    CHECK(streamed > 0);
    CHECK(placed > 1);
    // Without room for it beside the window less is placed than by layer_split alone.
    const tern::placement split = tern::layer_split{.layers = tern::layer_split::as_many_as_fit}.place(g, m);
    CHECK(few.bytes_at(g, test::vram0) < split.bytes_at(g, test::vram0));
    // With room for all nothing is brought.
    const tern::machine large = test::with({1 << 20});
    const tern::placement all = policy.place(g, large);
    CHECK(all.pools.empty());
}

TEST_CASE("plan/layer_upload: experts come too, and mixtures need room for one call at least") {
    const tern::graph g = test::mixture();
    const tern::placement p = tern::layer_upload{.layers = 0}.place(g, test::with({1 << 20}));
    CHECK(test::sound(p, g, test::with({1 << 20})));
    for (std::size_t t = 0; t < g.tensors.size(); ++t)
        if (g.tensors[t].shape.experts > 1) {
            CHECK(p.tensors[t].streamed());
            CHECK(p.tensors[t].stay == tern::retention::drop);
        }
    CHECK(p.pool_at(test::vram0).count >= 8 * 3 * 16384); // a whole layer
}

TEST_CASE("plan/layer_upload: serial uploads add to the computation, others hide it") {
    tern::graph g = untied();
    for (tern::planned_tensor& t : g.tensors) t.ahead = 16;
    const tern::machine m = test::timed({20'000});
    const tern::roofline cost(m, test::whole);
    const tern::placement p = tern::layer_upload{.layers = 1}.place(g, m);
    tern::estimate_options how;
    how.shape.tokens = 64;
    how.shape.habits = tern::serial_engine;
    const tern::prediction serial = tern::estimate(g, p, m, cost, how);
    double link = 0;
    for (std::size_t t = 0; t < g.tensors.size(); ++t)
        if (p.tensors[t].streamed()) link += 10e-6 + static_cast<double>(g.tensors[t].size().count) / 1e8;
    CHECK(serial.waited.count == doctest::Approx(link));
    const double device = serial.use_of("gpu").busy.count, host = serial.use_of("host").busy.count;
    CHECK(serial.total.count == doctest::Approx(link + device + host + serial.switching.count));
    how.shape.habits = tern::fused_engine;
    const tern::prediction hidden = tern::estimate(g, p, m, cost, how);
    CHECK(hidden.total.count < serial.total.count - 0.5 * std::min(device, link));
    // Of experts too: what is fetched comes first, then all are computed.
    const tern::graph mixture = test::mixture();
    const tern::placement brought =
        tern::layer_upload{.layers = 0}.place(mixture, m.with_budget<tern::vram>({1 << 20}));
    how.shape.tokens = 1;
    how.shape.habits = tern::serial_engine;
    const tern::prediction e = tern::estimate(mixture, brought, m, cost, how);
    // Two experts of 48 KiB queued behind each other: one latency.
    CHECK(e.nodes[3].count >= 10e-6 + 2 * 49152 / 1e8 + 2 * 49152 / 1e10);
}
