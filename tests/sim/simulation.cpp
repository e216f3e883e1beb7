#include <tern/sim/simulation.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/file/open_checkpoint.hpp>
#include <tern/plan/all_cpu.hpp>
#include <tern/plan/expert_offload.hpp>
#include <tern/plan/first_fit.hpp>
#include <tern/plan/layer_stream.hpp>

#include <support/data.hpp>
#include <support/model.hpp>

#include "support.hpp"

namespace {

namespace test = tern::test;

/// A model in a simulation.
struct bench {
    const tern::cost_by<test::by_bytes> cost{test::by_bytes{}};
    tern::simulation sim;
    tern::checkpoint file;
    std::unique_ptr<tern::decoder> model;
    tern::graph g;

    explicit bench(const std::string& name, const tern::machine& m = test::plain_machine(),
                   tern::simulation_options options = {})
        : sim(m, cost, options), file(tern::open_checkpoint(test::source_file(name))),
          model(test::open(file, sim.store())), g(tern::record(*model, sim.loop(), sim.host(), 64)) {
        sim.maps(file);
    }
    template <class Policy> tern::seconds load(const Policy& policy) {
        return sim.load(policy.place(g, sim.machine()), g);
    }
};

} // namespace

TEST_CASE("sim/simulation: a decoder on the host takes the sum of its operators, and repeats exactly") {
    bench b("examples/data/tiny.gguf");
    CHECK(b.load(tern::all_cpu{}).count == 0);
    const tern::pass_report once = b.sim.prefill(*b.model, 1);
    CHECK(once.took.count == doctest::Approx(once.tracks[0].busy.count)); // nothing overlaps on one device
    CHECK(b.sim.prefill(*b.model, 1).took.count == doctest::Approx(once.took.count).epsilon(1e-9));
    CHECK(once.bound()->name == "host");
    CHECK(once.tokens_per_second() == doctest::Approx(1 / once.took.count));
    // Each weight but the table is read once; activations, keys and values come on top.
    double weights = 0;
    for (const tern::graph_node& node : b.g.nodes)
        for (const std::size_t t : node.tensors)
            if (node.op != "embed") weights += static_cast<double>(b.g.tensors[t].size().count);
    CHECK(once.tracks[0].bytes > weights);
    CHECK(once.tracks[0].bytes < 1.3 * weights);
    CHECK(b.sim.decode(*b.model, 400).took > b.sim.decode(*b.model, 4).took); // more keys to read
}

TEST_CASE("sim/simulation: what lies on the card is computed there, and loading takes the link") {
    bench b("examples/data/tiny.gguf");
    const tern::placement p = tern::first_fit{}.place(b.g, b.sim.machine());
    const double bytes = static_cast<double>(p.bytes_at(b.g, test::card).count);
    CHECK(bytes > 0);
    CHECK(b.sim.load(p, b.g).count >= bytes / 1e9);
    const tern::pass_report r = b.sim.decode(*b.model, 16, 4);
    CHECK(r.tokens == 4);
    REQUIRE(r.tracks.size() == 5);
    CHECK(r.tracks[2].name == "card");
    CHECK(r.tracks[2].bytes >= 4 * bytes);
    CHECK(r.tracks[1].bytes == 0); // the disk
    CHECK(b.sim.store().counters().arrivals > 0);
}

TEST_CASE("sim/simulation: streaming is bound by the slowest link, however fast the card is") {
    const std::uint64_t activations = bench("examples/data/tiny.gguf").g.activation_room().count;
    bench b("examples/data/tiny.gguf", test::plain_machine({activations + (5 << 18)}));
    b.load(tern::layer_stream{.from = tern::tier_of<tern::direct>});
    static_cast<void>(b.sim.decode(*b.model, 8, 2));
    const tern::pass_report r = b.sim.decode(*b.model, 16, 4);
    CHECK(r.bound()->name == "disk");
    CHECK(r.took.count == doctest::Approx(r.tracks[1].bytes / 0.5e9).epsilon(0.25));
    // From RAM the link is slowest.
    b.load(tern::layer_stream{.from = tern::tier_of<tern::mapped>});
    static_cast<void>(b.sim.decode(*b.model, 8, 2));
    const tern::pass_report ram = b.sim.decode(*b.model, 16, 4);
    CHECK(ram.bound()->name == "to card");
    CHECK(ram.took < r.took);
}

TEST_CASE("sim/simulation: experts that were chosen lately stay, so that a skewed routing brings less") {
    // For what is no expert, and for four of the experts.
    const tern::graph g = bench("examples/data/tiny-moe.gguf").g;
    std::uint64_t room = g.activation_room().count;
    std::uint64_t expert = 0;
    for (const tern::planned_tensor& t : g.tensors) {
        if (t.shape.experts == 1) room += t.size().count + 3 * 4096;
        if (t.shape.experts > 1) expert = std::max<std::uint64_t>(expert, 3 * (t.slice_size.count + 2 * 4096));
    }
    room += 4 * expert;
    double moved[2];
    for (const int skewed : {0, 1}) {
        tern::simulation_options how;
        how.routing = tern::expert_draw({.skew = 3.0 * skewed});
        bench b("examples/data/tiny-moe.gguf", test::plain_machine({room}), how);
        b.load(tern::expert_offload{});
        static_cast<void>(b.sim.decode(*b.model, 8, 20));
        const auto before = b.sim.store().counters().moved;
        static_cast<void>(b.sim.decode(*b.model, 32, 40));
        moved[skewed] = static_cast<double>((b.sim.store().counters().moved - before).count);
    }
    CHECK(moved[0] > 0);
    CHECK(moved[1] < 0.7 * moved[0]);
}

TEST_CASE("sim/simulation: room for the cache is set aside, and machines without what is needed are refused") {
    bench b("examples/data/tiny.gguf");
    const auto room = [&] { return b.sim.machine().room_at(test::ram) + b.sim.machine().room_at(test::card); };
    const auto before = room();
    b.sim.reserve_cache(*b.model, b.g, 1000);
    const tern::kv_shape s = b.model->config().cache_for(1);
    const double taken = static_cast<double>((before - room()).count);
    CHECK(taken == doctest::Approx(8.0 * static_cast<double>(s.layers * s.width * 1000)).epsilon(0.001));
    const tern::cost_by<test::by_bytes> cost{test::by_bytes{}};
    CHECK_THROWS_AS(tern::simulation({}, cost), tern::config_error);
    tern::machine m = test::plain_machine();
    m.memories.erase(m.memories.begin());
    CHECK_THROWS_AS(tern::simulation(m, cost), tern::config_error);
    m = test::plain_machine();
    m.memories[0].budget = tern::unlimited;
    CHECK_THROWS_AS(tern::simulation(m, cost), tern::config_error);
    m.memories[0].capacity = tern::bytes{1 << 20};
    tern::simulation small(m, cost);
    CHECK(small.host().memory().budget().limit() == tern::bytes{1 << 20});
}
