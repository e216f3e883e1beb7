#include <tern/plan/estimate.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/plan/all_cpu.hpp>
#include <tern/plan/expert_offload.hpp>
#include <tern/plan/layer_split.hpp>
#include <tern/plan/layer_stream.hpp>

#include "cost_support.hpp"

namespace test = tern::test;

namespace {

double us(tern::seconds t) { return t.count * 1e6; }

/// Three layers of a norm, a pair and a down, whose output is a matrix of its own.
tern::graph untied() {
    tern::graph g = test::layers();
    g.nodes.back().tensors = {test::add(g, "output", 2000, test::anywhere())};
    return g;
}

// Times in microseconds of test::timed for one token: launches, weights and activations (in and out, in f32).
double norm(double speed, double launch) { return launch + (64 + 2 * 16 * 4) / speed; }
double pair(double speed, double launch) { return 3 * launch + (2000 + (250 + 16) * 4) / speed; }
double down(double speed, double launch) { return launch + (600 + (150 + 16) * 4) / speed; }
double output(double speed, double launch) { return launch + (2000 + (500 + 500) * 4) / speed; }
const double embed = 1 + (2000 + 500 * 4) / 1e3; // its table has one row
double layer(double speed, double launch) { return norm(speed, launch) + pair(speed, launch) + down(speed, launch); }

constexpr double host = 1e3, gpu = 1e4; // bytes in a microsecond

} // namespace

TEST_CASE("plan/estimate: all on the host is the sum of its calls") {
    const tern::graph g = untied();
    const tern::machine m = test::timed({1 << 20});
    const tern::roofline cost(m, test::whole);
    const tern::placement p = tern::all_cpu{}.place(g, m);
    const tern::prediction e = tern::estimate(g, p, m, cost);
    CHECK(us(e.total) == doctest::Approx(embed + 3 * layer(host, 1) + output(host, 1)));
    CHECK(e.switches == 0);
    CHECK(e.waited.count == 0);
    CHECK(us(e.nodes.at(1)) == doctest::Approx(norm(host, 1)));
    CHECK(us(e.tensors.at(2)) == doctest::Approx(pair(host, 1) / 2)); // gate has half of it
    CHECK(us(e.use_of("host").busy) == doctest::Approx(us(e.total)));
    CHECK(e.use_of("gpu").busy.count == 0);
    CHECK(e.use_of("dram").moved.count > g.weight_bytes().count);
    CHECK(e.bound == "host");
    double sum = 0;
    for (const tern::seconds t : e.nodes) sum += us(t);
    CHECK(sum == doctest::Approx(us(e.total)));
}

TEST_CASE("plan/estimate: a split pays a switch to the accelerator, and the way of the logits") {
    const tern::graph g = untied();
    const tern::machine m = test::timed({1 << 20});
    const tern::roofline cost(m, test::whole);
    const tern::placement p = tern::layer_split{.layers = 1}.place(g, m);
    const tern::prediction e = tern::estimate(g, p, m, cost);
    const double over = 10 + 16 * 4 / 1e2 + 4;  // 16 numbers before the norm
    const double back = 10 + 500 * 4 / 1e2 + 4; // logits
    CHECK(us(e.total) == doctest::Approx(embed + 2 * layer(host, 1) + layer(gpu, 2) + output(gpu, 2) + over + back));
    CHECK(e.switches == 2);
    CHECK(us(e.switching) == doctest::Approx(over + back));
    CHECK(us(e.use_of("gpu").busy) == doctest::Approx(layer(gpu, 2) + output(gpu, 2)));
    CHECK(e.use_of("pageable to vram:0").moved.count == 64);
    CHECK(e.use_of("vram:0 to pageable").moved.count == 2000);
    // Of 64 tokens: the activations come 64 times, the weights once.
    tern::estimate_options how;
    how.shape.tokens = 64;
    const tern::prediction many = tern::estimate(g, p, m, cost, how);
    CHECK(us(many.switching) == doctest::Approx(14 + 64 * 0.64 + 14 + 64 * 20));
    CHECK(us(many.nodes.at(1)) == doctest::Approx(1 + (64 + 64 * 128) / host));
}

TEST_CASE("plan/estimate: matrices of one input each take it over, attention takes three, sums stay") {
    tern::graph g;
    const auto matrix = [&](const char* name) {
        const std::size_t t = test::add(g, name, 256, test::anywhere());
        g.tensors[t].shape = {8, 8, 1};
        return t;
    };
    g.nodes.push_back({"embed", {matrix("table")}, 1, 8});
    g.nodes.push_back({"rms_norm", {test::add(g, "norm", 32, test::anywhere())}, 1, 8, 0, 0});
    for (const char* name : {"q", "k", "v"}) g.nodes.push_back({"linear", {matrix(name)}, 1, 8, 0, 0});
    g.nodes.push_back({"attention", {}, 1, 8, 0, 0});
    g.nodes.push_back({"linear", {matrix("o")}, 1, 8, 0, 0});
    g.nodes.push_back({"add", {}, 1, 8, 0, 0});
    const tern::machine m = test::timed({1 << 20});
    const tern::roofline cost(m, test::whole);
    tern::placement p = tern::all_cpu{}.place(g, m);
    for (const std::size_t t : {2, 3, 4, 5}) p.tensors[t].where = test::vram0;
    // q, k, v take the norm's result; attention takes theirs back; o takes one, add one.
    tern::prediction e = tern::estimate(g, p, m, cost);
    CHECK(e.switches == 3 + 3 + 1 + 1);
    CHECK(us(e.switching) == doctest::Approx(8 * (14 + 0.32)));
    // An engine whose cache and sums are where the layer is: once over and once back.
    for (const std::size_t t : {1}) p.tensors[t].where = test::vram0;
    tern::estimate_options how;
    how.shape.habits = tern::fused_engine;
    e = tern::estimate(g, p, m, cost, how);
    CHECK(e.switches == 2);
    CHECK(e.use_of("host").busy.count == doctest::Approx(1e-6 + (32 + 32) / 1e9));
}

TEST_CASE("plan/estimate: attention reads the cache, which grows with the context") {
    tern::graph g;
    for (int i = 0; i < 4; ++i) g.nodes.push_back({"attention", {}, 1, 8});
    const tern::machine m = test::timed({1 << 20});
    const tern::roofline cost(m, test::whole);
    tern::estimate_options how;
    how.shape.context = 99;
    how.shape.cache_per_token = {1000};
    const tern::prediction e = tern::estimate(g, {}, m, cost, how);
    CHECK(us(e.total) == doctest::Approx(4 * (1 + (100 * 250 + 64) / host)));
}

TEST_CASE("plan/estimate: streamed weights are bound by the link or by computation, whichever is longer") {
    tern::graph g = untied();
    for (tern::planned_tensor& t : g.tensors) t.ahead = 16;
    tern::machine m = test::timed({20'000});
    const tern::placement p = tern::layer_stream{.from = tern::tier_of<tern::pageable>, .window = {8000}}.place(g, m);
    std::size_t streamed = 0;
    double link = 0;
    for (std::size_t t = 0; t < p.tensors.size(); ++t)
        if (p.tensors[t].streamed()) ++streamed, link += 10 + static_cast<double>(g.tensors[t].size().count) / 1e2;
    REQUIRE(streamed > 2);
    const tern::roofline cost(m, test::whole);
    tern::prediction e = tern::estimate(g, p, m, cost);
    CHECK(us(e.total) == doctest::Approx(link).epsilon(0.25)); // the switches delay it a little
    CHECK(us(e.total) >= link);
    CHECK(us(e.use_of("pageable to vram:0").busy) >= link);
    CHECK(e.bound == "pageable to vram:0");
    CHECK(e.waited.count > 0.5 * e.total.count);
    // A link that takes no time leaves the computation.
    for (tern::link& l : m.links) l.bandwidth = tern::bytes_per_second{}, l.latency = tern::seconds{};
    e = tern::estimate(g, p, m, tern::roofline(m, test::whole));
    CHECK(e.waited.count == doctest::Approx(0));
    CHECK(e.bound == "gpu");
    // Without a window ahead both are one after the other.
    m = test::timed({20'000});
    const double overlapped = tern::estimate(g, p, m, cost).total.count;
    for (tern::planned_tensor& t : g.tensors) t.ahead = 0;
    e = tern::estimate(g, p, m, cost);
    CHECK(e.total.count > overlapped);
    CHECK(us(e.waited) == doctest::Approx(link));
}

TEST_CASE("plan/estimate: weights from the disk take both links at once") {
    tern::graph g;
    for (int i = 0; i < 8; ++i) {
        const std::size_t t = test::add(g, "w" + std::to_string(i), 8 << 20, test::anywhere());
        g.tensors[t].ahead = 4;
        g.nodes.push_back({"linear", {t}, 1, 4});
    }
    const tern::machine m = test::timed({64 << 20});
    const tern::roofline cost(m, test::whole);
    tern::placement p{"mine",
                      std::vector<tern::placed_tensor>(8, {test::direct0, "", test::vram0}),
                      {{.where = test::vram0, .limit = {32 << 20}}}};
    const tern::prediction e = tern::estimate(g, p, m, cost);
    // The disk gives 50 MB/s, the link 100: eight times 8 MiB from the disk.
    CHECK(e.total.count == doctest::Approx(8 * (8 << 20) / 5e7).epsilon(0.01));
    CHECK(e.bound == "direct to pageable");
    CHECK(e.use_of("direct to pageable").moved.count == 64 << 20);
    CHECK(e.use_of("pinned to vram:0").moved.count + e.use_of("pageable to vram:0").moved.count == 64 << 20);
}

TEST_CASE("plan/estimate: cached experts: hits compute, misses come, or the host computes them") {
    const tern::graph g = test::mixture();
    tern::machine m = test::timed({1 << 20});
    for (tern::link& l : m.links) l.latency = tern::seconds{};
    m.processors[1].sync = tern::seconds{};
    const tern::roofline cost(m, test::whole);
    tern::placement p = tern::all_cpu{}.place(g, m);
    for (std::size_t t = 0; t < g.tensors.size(); ++t)
        if (g.tensors[t].shape.experts > 1) p.tensors[t] = {test::mapped0, "", test::vram0, tern::retention::cache};
    // Room for a quarter of the experts: half of one of the two that a token uses is there.
    p.pools.push_back({.where = test::vram0, .limit = {2 * 8 * 3 * 16384 / 4}});
    const double each = 3 * 16384.0;
    const double moves = 2 * 4096 * 4 / 1e2;   // rows, there and back
    const double activations = 3 * 4097 * 4.0; // of one row
    const double one_gpu = 8 + (each + activations) / gpu + moves;
    const double one_host = 4 + (each + activations) / host;
    constexpr tern::engine_habits through_host{true, true, true, false}; // experts' rows come and go
    tern::estimate_options how;
    how.shape.habits = through_host;
    tern::prediction e = tern::estimate(g, p, m, cost, how);
    // 1.5 experts come at 100 MB/s, and the last one is computed.
    CHECK(us(e.nodes[3]) == doctest::Approx(1.5 * each / 1e2 + one_gpu));
    CHECK(us(e.waited) == doctest::Approx(2 * (1.5 * each / 1e2 - one_gpu)));
    CHECK(e.use_of("mapped to vram:0").moved.count == static_cast<std::uint64_t>(2 * 1.5 * each));
    how.misses = tern::on_miss::compute;
    e = tern::estimate(g, p, m, cost, how);
    CHECK(us(e.nodes[3]) == doctest::Approx(std::max(1.5 * one_host, 0.5 * one_gpu)));
    CHECK(e.use_of("mapped to vram:0").moved.count == 0);
    how.misses = tern::on_miss::split;
    e = tern::estimate(g, p, m, cost, how);
    // The host reads with what the link leaves of 1 GB/s: 900 MB/s, where it would read a little less than 1000.
    const double slowed = 0.9 * host / ((each + activations) / one_host);
    const double q = one_host / slowed / (one_host / slowed + each / 1e2); // of the misses, those that are fetched
    CHECK(e.use_of("mapped to vram:0").moved.count == doctest::Approx(2 * 1.5 * q * each).epsilon(1e-3));
    // With popular experts in the cache less is missing.
    how.misses = tern::on_miss::fetch;
    how.popularity = {8, 8, 1, 1, 1, 1, 1, 1}; // p = 16/22 for two, 2/22 for six
    e = tern::estimate(g, p, m, cost, how);
    CHECK(e.use_of("mapped to vram:0").moved.count == doctest::Approx(2 * 12.0 / 22 * each).epsilon(1e-3));
    // Not cached but placed: all touched ones compute where they are.
    how = {};
    how.shape.habits = through_host;
    for (tern::placed_tensor& t : p.tensors)
        if (t.streamed()) t = {test::vram0, ""};
    e = tern::estimate(g, p, m, cost, how);
    CHECK(us(e.nodes[3]) == doctest::Approx(2 * one_gpu));
    how.shape.tokens = 3;
    e = tern::estimate(g, p, m, cost, how);
    const double touched = 8 * (1 - 27.0 / 64);
    CHECK(us(e.nodes[3]) == doctest::Approx(touched * (8 + each / gpu) + 6 * (activations / gpu + moves)));
}

namespace {

/// What every token uses is on the accelerator, and a quarter of the experts fit beside it; the table stays.
tern::placement quarter_cached(const tern::graph& g, const tern::machine& m) {
    tern::placement p = tern::all_cpu{}.place(g, m);
    for (std::size_t t = 0; t < g.tensors.size(); ++t)
        if (g.tensors[t].shape.experts > 1)
            p.tensors[t] = {test::mapped0, "", test::vram0, tern::retention::cache};
        else if (g.tensors[t].name != "table")
            p.tensors[t] = {test::vram0, ""};
    p.pools.push_back({.where = test::vram0, .limit = {2 * 8 * 3 * 16384 / 4}});
    return p;
}

} // namespace

TEST_CASE("plan/estimate: the host learns of the choice before it brings experts, and results meet where one says") {
    const tern::graph g = test::mixture();
    const tern::machine m = test::timed({1 << 20});
    const tern::roofline cost(m, test::whole);
    const tern::placement p = quarter_cached(g, m);
    const double each = 3 * 16384.0, row = 4096 * 4.0; // bytes
    const double activations = 3 * 4097 * 4.0;         // of an expert's row
    const double expert = (each + activations) / gpu;  // on the accelerator, in us
    tern::estimate_options how;
    how.shape.habits = tern::fused_engine;
    how.misses = tern::on_miss::fetch;
    tern::prediction e = tern::estimate(g, p, m, cost, how);
    // Two numbers and two weights come over, then 1.5 experts with one latency, and the last one is computed: two
    // kernels serve all.
    const double choice = 10 + 4 + 16 / 1e2;
    CHECK(us(e.nodes[3]) == doctest::Approx(choice + 10 + 1.5 * each / 1e2 + (4 + 2 * expert) / 2));
    how.misses = tern::on_miss::compute;
    e = tern::estimate(g, p, m, cost, how);
    const double host_time = 2 + 1.5 * (each + activations) / host;
    // Now the row comes with the choice; half a result comes to the host meanwhile, and the sum goes back.
    CHECK(us(e.nodes[3]) == doctest::Approx(choice + row / 1e2 + host_time + 14 + row / 1e2));
    how.shape.habits.mixture_overlaps = true; // the host's results go over
    e = tern::estimate(g, p, m, cost, how);
    CHECK(us(e.nodes[3]) == doctest::Approx(choice + row / 1e2 + host_time + 14 + 1.5 * row / 1e2));
}

TEST_CASE("plan/estimate: what a mixture leaves of the accelerator's time computes the expert of all tokens") {
    tern::graph g = test::mixture();
    const std::size_t shared = test::add(g, "shared", 20'000, test::anywhere());
    g.nodes.insert(g.nodes.begin() + 4, {"linear", {shared}, 1, 4096, 0, 0});
    const tern::machine m = test::timed({1 << 20});
    const tern::roofline cost(m, test::whole);
    const tern::placement p = quarter_cached(g, m);
    tern::estimate_options how;
    how.shape.habits = tern::fused_engine;
    CHECK(us(tern::estimate(g, p, m, cost, how).nodes[4]) > 3);
    how.shape.habits.mixture_overlaps = true;
    CHECK(us(tern::estimate(g, p, m, cost, how).nodes[4]) == doctest::Approx(0));
}

TEST_CASE("plan/estimate: kernels that are queued ahead have a part of a launch between them") {
    tern::graph g;
    g.nodes.push_back({"embed", {test::add(g, "table", 16, test::anywhere())}, 1, 4});
    for (int i = 0; i < 4; ++i)
        g.nodes.push_back({"linear", {test::add(g, "w" + std::to_string(i), 1'000'000, test::anywhere())}, 1, 4, 0, 0});
    for (int i = 0; i < 8; ++i)
        g.nodes.push_back({"rms_norm", {test::add(g, "n" + std::to_string(i), 16, test::anywhere())}, 1, 4, 0, 0});
    const tern::machine m = test::timed({8 << 20});
    const tern::roofline cost(m, test::whole);
    tern::placement p = tern::all_cpu{}.place(g, m);
    for (std::size_t t = 1; t < p.tensors.size(); ++t) p.tensors[t].where = test::vram0;
    tern::estimate_options how;
    how.shape.habits = tern::fused_engine;
    const tern::prediction one_by_one = tern::estimate(g, p, m, cost, how);
    how.shape.habits.queued_launch = 0.25;
    const tern::prediction ahead = tern::estimate(g, p, m, cost, how);
    // Each matrix takes its operand from the host and waits for its launch of 2 us; eight norms are queued while the
    // last of them runs, and have 0.5 us between them.
    CHECK(us(one_by_one.total) - us(ahead.total) == doctest::Approx(8 * 1.5));
    how.shape.habits.queued_launch = 1;
    CHECK(us(tern::estimate(g, p, m, cost, how).total) == doctest::Approx(us(one_by_one.total)));
}

TEST_CASE("plan/estimate: transfers and the host share a memory") {
    // The host computes from RAM while weights stream out of it: 2 x 1 MB over 900 MB/s beside 1 GB/s of reading.
    tern::graph g;
    const std::size_t a = test::add(g, "a", 1'000'000, test::anywhere());
    const std::size_t b = test::add(g, "b", 1'000'000, test::anywhere());
    g.tensors[b].ahead = 2;
    g.nodes = {{"linear", {a}, 1, 1}, {"linear", {b}, 1, 1}};
    tern::machine m = test::timed({8 << 20});
    for (tern::link& l : m.links) l.bandwidth = tern::bytes_per_second{9e8}, l.latency = tern::seconds{};
    const tern::roofline cost(m, test::whole);
    tern::placement p{"mine",
                      {{test::pageable0, ""}, {test::pageable0, "", test::vram0}},
                      {{.where = test::vram0, .limit = {4 << 20}}}};
    const double contended = tern::estimate(g, p, m, cost).total.count;
    for (tern::memory_space& s : m.memories) s.bus.clear();
    const double apart = tern::estimate(g, p, m, cost).total.count;
    CHECK(apart < 3.2e-3);
    CHECK(contended > 1.2 * apart);
    CHECK(contended < 4e-3); // 2 MB of b and 1 MB of a, and the accelerator
}

TEST_CASE("plan/estimate: mapped weights that RAM does not hold come from the disk") {
    tern::graph g;
    for (int i = 0; i < 4; ++i)
        g.nodes.push_back({"linear", {test::add(g, "w" + std::to_string(i), 1'000'000, test::anywhere())}, 1, 1});
    tern::machine m = test::timed({1 << 20});
    const tern::roofline cost(m, test::whole);
    const tern::placement p = tern::all_cpu{}.place(g, m);
    const double warm = tern::estimate(g, p, m, cost).total.count;
    CHECK(warm < 0.01);
    m = m.with_budget<tern::pageable>({3'000'000});
    CHECK(tern::estimate(g, p, m, cost).total.count == doctest::Approx(1e6 / 5e7).epsilon(0.01));
    m = m.with_reserved(test::pageable0, {3'000'000});
    CHECK(tern::estimate(g, p, m, cost).total.count == doctest::Approx(4e6 / 5e7).epsilon(0.01));
}

TEST_CASE("plan/estimate: tokens a second of a prompt in chunks, and of what follows") {
    const tern::graph g = untied();
    const tern::machine m = test::timed({1 << 20});
    const tern::roofline cost(m, test::whole);
    const tern::placement p = tern::all_cpu{}.place(g, m);
    const tern::speed s = tern::speed_of(g, p, m, cost, {}, {.prompt = 40, .chunk = 16, .generated = 10});
    double sum = 0;
    for (const std::size_t n : {16, 16, 8}) {
        tern::estimate_options how;
        how.shape.tokens = n;
        sum += tern::estimate(g, p, m, cost, how).total.count;
    }
    CHECK(s.prefill == doctest::Approx(40 / sum));
    CHECK(s.decode == doctest::Approx(1 / tern::estimate(g, p, m, cost).total.count));
    CHECK_THROWS_AS(tern::speed_of(g, p, m, cost, {}, {.prompt = 0}), tern::config_error);
    CHECK_THROWS_AS(tern::speed_of(g, p, m, cost, {}, {.chunk = 0}), tern::config_error);
}

TEST_CASE("plan/estimate: a placement of another graph, and a machine that does not say enough, are refused") {
    const tern::graph g = untied();
    tern::machine m = test::timed({1 << 20});
    tern::placement p = tern::all_cpu{}.place(g, m);
    const tern::roofline cost(m, test::whole);
    CHECK_THROWS_AS(tern::estimate(test::layers(), p, m, cost), tern::config_error);
    p.tensors[0].where = {tern::tier_of<tern::vram>, 1, 0};
    CHECK_THROWS_AS(tern::estimate(g, p, m, cost), tern::config_error);
    p = tern::all_cpu{}.place(g, m);
    m.processors.clear();
    CHECK_THROWS_AS(tern::estimate(g, p, m, cost), tern::config_error);
}

TEST_CASE("plan/estimate: a mixture of 120 layers is quick to estimate") {
    const tern::graph g = test::deep_mixture(120);
    const tern::machine m = test::timed({std::uint64_t{1} << 30});
    const tern::roofline cost(m, test::whole);
    const tern::placement p = tern::expert_offload{}.place(g, m);
    tern::estimate_options how;
    const auto begin = std::chrono::steady_clock::now();
    const tern::prediction e = tern::estimate(g, p, m, cost, how);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    MESSAGE("estimate of " << g.nodes.size() << " calls: " << took.count() << " ms");
    CHECK(e.total.count > 0);
    CHECK(e.nodes.size() == g.nodes.size());
}

TEST_CASE("plan/estimate: a faster link is never slower, streams and caches included") {
    tern::graph dense = untied();
    for (tern::planned_tensor& t : dense.tensors) t.ahead = 4;
    const tern::graph mixture = test::mixture();
    for (const tern::tier_info& from :
         {tern::tier_of<tern::pageable>, tern::tier_of<tern::mapped>, tern::tier_of<tern::direct>})
        for (const tern::on_miss misses : {tern::on_miss::fetch, tern::on_miss::compute, tern::on_miss::split}) {
            double streamed = 1e300;
            double cached = 1e300;
            for (double faster = 0.25; faster < 100; faster *= 1.5) {
                CAPTURE(from.name);
                CAPTURE(faster);
                tern::machine m = test::timed({400 * 1024});
                for (tern::link& l : m.links) l.bandwidth = tern::bytes_per_second{l.bandwidth->count * faster};
                const tern::roofline cost(m, test::whole);
                tern::estimate_options how;
                how.misses = misses;
                const tern::machine small = m.with_budget<tern::vram>({20'000});
                const tern::placement a = tern::layer_stream{.from = from, .window = {8000}}.place(dense, small);
                const double now = tern::estimate(dense, a, small, cost, how).total.count;
                CHECK(now <= streamed * (1 + 1e-9));
                streamed = now;
                const tern::placement b = tern::expert_offload{.from = from}.place(mixture, m);
                const double mixed = tern::estimate(mixture, b, m, cost, how).total.count;
                CHECK(mixed <= cached * (1 + 1e-9));
                cached = mixed;
            }
        }
}
