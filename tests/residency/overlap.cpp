// How long layers take whose weights come over a link while others compute: exactly, in virtual time.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "support/counting_source.hpp"
#include <tern/async/run_loop.hpp>
#include <tern/async/virtual_clock.hpp>
#include <tern/async/when_all.hpp>
#include <tern/device/virtual_device.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/residency/scheduler.hpp>
#include <tern/residency/store.hpp>
#include <tern/transfer/blocking.hpp>
#include <tern/transfer/prefetched.hpp>
#include <tern/transfer/staged.hpp>

using namespace tern::literals;

namespace {

constexpr std::size_t layers = 12;
constexpr tern::bytes layer_size = 1_MiB;
constexpr tern::bytes chunk = 128_KiB;
constexpr double bandwidth = 128e6;
constexpr double latency = 50e-6;
constexpr double rounding = 1e-12;

using ahead = tern::prefetched<2, tern::staged<chunk, 2>>;

/// An accelerator with room for three layers, and weights in RAM for twelve.
struct machine {
    tern::virtual_clock time;
    tern::run_loop loop{time};
    tern::heap_arena staging;
    tern::virtual_device gpu;
    std::vector<std::byte> weights = tern::test::pattern_bytes(layers * layer_size.count);
    tern::residency_store store{loop, staging, {.time = &time}};
    std::size_t wrong = 0;

    explicit machine(double compute)
        : gpu({.capacity = 8_MiB, .bandwidth = {bandwidth}, .latency = {latency}, .launch = {compute}}, time) {
        for (std::size_t l = 0; l < layers; ++l) {
            store.add("blk." + std::to_string(l), {.memory = weights.data() + l * layer_size.count}, layer_size);
            store.assign(static_cast<tern::slice_id>(l), gpu);
        }
        store.bound(gpu, layer_size * 3);
    }
    /// Of one layer in chunks.
    static double copy() { return latency * (layer_size.count / chunk.count) + layer_size.count / bandwidth; }
    static double copy_of_chunk() { return latency + chunk.count / bandwidth; }

    std::vector<tern::scheduled_use> order(tern::move_function move, std::size_t uses_ahead) {
        std::vector<tern::scheduled_use> uses;
        for (tern::slice_id l = 0; l < layers; ++l) uses.push_back({l, &gpu, move, uses_ahead});
        return uses;
    }
};

/// Times that layers took, over some passes; the first pass is left out.
tern::task<std::vector<double>> layer_times(machine& m, tern::move_function move, int passes = 4) {
    std::vector<double> times;
    double before = 0;
    for (int pass = 0; pass < passes; ++pass)
        for (tern::slice_id l = 0; l < layers; ++l) {
            tern::lease held = m.store.try_borrow(l, m.gpu);
            if (!held) held = co_await m.store.borrow(l, m.gpu, move);
            co_await tern::launch(m.gpu, m.loop, 1, 1, [&m, l, data = held.data()](std::size_t, std::size_t) {
                m.wrong += std::memcmp(data, m.weights.data() + l * layer_size.count, layer_size.count) != 0;
            });
            held = {};
            const double now = m.time.now().count;
            if (pass > 0) times.push_back(now - before);
            before = now;
        }
    co_return times;
}

double mean(const std::vector<double>& times) {
    double sum = 0;
    for (const double t : times) sum += t;
    return sum / static_cast<double>(times.size());
}

tern::task<> bring(machine& m, tern::slice_id id) {
    const tern::lease held = co_await m.store.borrow(id, m.gpu, &ahead::move);
}
/// How long a copy of activations takes that begins `after` some time.
tern::task<double> copy_activations(machine& m, tern::direction way, double after, tern::bytes n) {
    co_await m.time.sleep_for({after});
    const tern::allocation there = m.gpu.memory().allocate(n, "activations");
    std::vector<std::byte> here(n.count);
    std::byte* const to = way == tern::direction::to_device ? there.data() : here.data();
    const std::byte* const from = way == tern::direction::to_device ? here.data() : there.data();
    const double begin = m.time.now().count;
    co_await tern::copy(m.gpu, m.loop, way, to, from, n, tern::lane::activations);
    co_return m.time.now().count - begin;
}

} // namespace

TEST_CASE("residency/overlap: a layer takes the longer of its copy and its operator") {
    for (const double ratio : {0.1, 0.17, 0.3, 0.5, 0.8, 1.25, 2.0, 3.3, 6.0, 10.0}) {
        CAPTURE(ratio);
        machine m(machine::copy() / ratio);
        tern::scheduler order(m.store);
        order.follow(m.order(&ahead::move, ahead::ahead));
        const std::vector<double> times = m.loop.run(layer_times(m, &ahead::move));
        const double longer = std::max(machine::copy(), machine::copy() / ratio);
        CHECK(times.size() == 3 * layers);
        CHECK(m.wrong == 0);
        CHECK(*std::max_element(times.begin(), times.end()) <= longer + machine::copy_of_chunk() + rounding);
        CHECK(mean(times) >= longer - rounding);
        CHECK(mean(times) <= longer + rounding);
        CHECK(m.gpu.memory().budget().peak() <= layer_size * 3);
        m.loop.run(m.store.drain());
        // Nothing was brought twice for one use; some is there for a next pass.
        CHECK(m.store.counters(m.gpu).moved <= layer_size * (4 * layers + 3));
    }
}

TEST_CASE("residency/overlap: without a scheduler copy and operator come after one another") {
    for (const double ratio : {0.1, 1.0, 10.0}) {
        CAPTURE(ratio);
        const double compute = machine::copy() / ratio;
        machine chunked(compute);
        for (const double t : chunked.loop.run(layer_times(chunked, &ahead::move, 2)))
            CHECK(t == doctest::Approx(machine::copy() + compute).epsilon(rounding));
        machine whole(compute);
        const double copy = whole.gpu.time_of_copy(layer_size).count;
        CHECK(copy == doctest::Approx(latency + layer_size.count / bandwidth));
        for (const double t : whole.loop.run(layer_times(whole, &tern::blocking::move, 2)))
            CHECK(t == doctest::Approx(copy + compute).epsilon(rounding));
        CHECK(chunked.wrong + whole.wrong == 0);
    }
}

TEST_CASE("residency/overlap: activations do not queue behind weights") {
    machine m(1e-3);
    constexpr tern::bytes n = 64_KiB;
    const double alone = m.gpu.time_of_copy(n).count;
    const auto [a, b, c, in, out] = m.loop.run(tern::when_all(bring(m, 0), bring(m, 1), bring(m, 2),
                                                              copy_activations(m, tern::direction::to_device, 1e-3, n),
                                                              copy_activations(m, tern::direction::to_host, 1e-3, n)));
    CHECK(in == doctest::Approx(alone).epsilon(rounding));
    CHECK(out == doctest::Approx(alone).epsilon(rounding));
    // The weights came as if alone.
    CHECK(m.time.now().count == doctest::Approx(3 * machine::copy()).epsilon(rounding));
}

// The matrices gate, up and down of 32 experts, of which a router chose 4: two and two that are neighbours.
namespace {

constexpr tern::bytes expert_size = 96_KiB;
constexpr std::size_t experts = 32;
constexpr std::array<tern::slice_id, 4> chosen{4, 5, 20, 21};
using one_copy = tern::staged<1_MiB, 1>; // a run is one chunk

struct mixture {
    tern::virtual_clock time;
    tern::run_loop loop{time};
    tern::heap_arena staging;
    tern::virtual_device gpu;
    std::vector<std::byte> weights = tern::test::pattern_bytes(3 * experts * expert_size.count);
    tern::residency_store store{loop, staging};
    std::size_t wrong = 0;

    explicit mixture(double compute)
        : gpu({.capacity = expert_size * 12, .bandwidth = {bandwidth}, .latency = {latency}, .launch = {compute}},
              time) {
        for (std::size_t i = 0; i < 3 * experts; ++i) {
            store.add("expert", {.memory = weights.data() + i * expert_size.count}, expert_size);
            store.assign(static_cast<tern::slice_id>(i), gpu);
        }
    }
};

tern::task<> one_layer(mixture& m) {
    for (tern::slice_id part = 0; part < 3; ++part) {
        std::array<tern::slice_id, 4> ids = chosen;
        for (tern::slice_id& id : ids) id += part * experts;
        m.store.expect(ids, m.gpu, &one_copy::move);
    }
    for (tern::slice_id part = 0; part < 3; ++part)
        for (const tern::slice_id e : chosen) {
            const tern::slice_id id = part * experts + e;
            const tern::lease held = co_await m.store.borrow(id, m.gpu, &one_copy::move);
            co_await tern::launch(m.gpu, m.loop, 1, 1, [&m, id, data = held.data()](std::size_t, std::size_t) {
                m.wrong += std::memcmp(data, m.weights.data() + id * expert_size.count, expert_size.count) != 0;
            });
        }
}

} // namespace

TEST_CASE("residency/overlap: 4 of 32 experts cost their own bytes, in one copy for neighbours, while others compute") {
    const double stage = latency + 2 * expert_size.count / bandwidth;
    const double copies = 6 * stage;
    for (const double ratio : {0.1, 0.5, 0.9, 1.1, 2.0, 10.0}) {
        CAPTURE(ratio);
        const double compute = copies / ratio;
        mixture m(compute / 12);
        m.loop.run(one_layer(m));
        CHECK(m.wrong == 0);
        CHECK(m.gpu.traffic().to_device == expert_size * 12);
        CHECK(m.store.counters(m.gpu).transfers == 6);
        CHECK(m.time.now().count <= std::max(copies, compute) + stage + rounding);
        CHECK(m.time.now().count >= std::max(copies, compute) - rounding);
        CHECK(m.gpu.memory().budget().used() == 0_B); // streamed: gone with their use
    }
}
