// The cache of experts against what can be counted offline: a routing trace is played through a store.
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "support/cache_simulation.hpp"
#include "support/counting_source.hpp"
#include "support/data.hpp"
#include <tern/async/run_loop.hpp>
#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/residency/scheduler.hpp>
#include <tern/residency/store.hpp>
#include <tern/transfer/staged.hpp>

using namespace tern::literals;
using tern::test::routing_trace;

namespace {

constexpr std::size_t size = 64;
constexpr tern::move_function whole = &tern::staged<64_KiB, 1>::move;

routing_trace zipf() { return tern::test::read_routing_trace(tern::test::source_file("tests/data/routing/zipf1.txt")); }

struct cache {
    explicit cache(std::size_t slices) : file(slices * size) {
        for (std::size_t i = 0; i < slices; ++i) {
            const tern::slice_id id = store.add("expert", {.file = &file, .offset = i * size}, {size});
            store.assign(id, cpu, tern::retention::cache);
        }
    }

    tern::run_loop home;
    tern::heap_arena ram;
    tern::cpu_device cpu{ram, 1};
    tern::test::counting_source file;
    tern::residency_store store{home, ram};
};

tern::task<> play(cache& c, const routing_trace& trace, std::size_t& wrong) {
    for (const std::uint32_t slice : trace.accesses) {
        const tern::lease held = co_await c.store.borrow(slice, c.cpu, whole);
        wrong += held.data()[0] != tern::test::pattern(slice * size);
    }
}

tern::pool_counters played(const routing_trace& trace, std::size_t capacity,
                           std::shared_ptr<const tern::eviction_policy> policy) {
    cache c(trace.slices);
    c.store.bound(c.cpu, {capacity * size}, std::move(policy));
    std::size_t wrong = 0;
    c.home.run(play(c, trace, wrong));
    const tern::pool_counters counted = c.store.counters(c.cpu);
    CHECK(wrong == 0);
    CHECK(counted.hits + counted.misses == trace.accesses.size());
    CHECK(c.file.bytes_read == counted.misses * size);
    CHECK(counted.moved == tern::bytes{counted.misses * size});
    CHECK(counted.evictions == counted.misses - capacity);
    CHECK(c.store.cached(c.cpu) == tern::bytes{capacity * size});
    return counted;
}

} // namespace

TEST_CASE("residency/cache: lru in the store is an offline lru, frequency its simulation, at each capacity") {
    const routing_trace trace = zipf();
    for (const std::size_t capacity : {std::size_t{16}, trace.slices / 4, trace.slices / 2}) {
        CAPTURE(capacity);
        CHECK(played(trace, capacity, nullptr).hits == tern::test::hits_of_lru_list(trace, capacity));
        const auto policy = std::make_shared<tern::frequency>(tern::frequency::half_life_for(trace.slices));
        CHECK(played(trace, capacity, policy).hits == tern::test::hits_of(*policy, trace, capacity));
    }
}

TEST_CASE(
    "residency/cache: experts that were chosen come together, and none that is about to be used leaves for them") {
    tern::emulated_device gpu{{.capacity = 64_KiB}}; // outlives the store
    cache c(8);
    for (tern::slice_id id = 0; id < 8; ++id) c.store.assign(id, gpu, tern::retention::cache);
    c.store.bound(gpu, {4 * size});
    const auto borrow = [&](tern::slice_id id) { return c.home.run(c.store.borrow(id, gpu, whole)); };
    for (const tern::slice_id id : {0u, 1u, 2u, 3u}) borrow(id);
    // 0 is the least recently used, and it is needed again: 1 and 2 leave.
    const tern::slice_id chosen[] = {0, 5, 6};
    c.store.expect(chosen, gpu, whole);
    c.home.run(c.store.drain());
    CHECK(c.store.readable(0, gpu));
    CHECK(c.store.readable(3, gpu));
    CHECK(c.store.readable(5, gpu));
    CHECK(c.store.readable(6, gpu));
    CHECK(c.store.counters(gpu).transfers == 5); // 5 and 6 are neighbours
    const tern::pool_counters before = c.store.counters(gpu);
    for (const tern::slice_id id : chosen) borrow(id);
    CHECK(c.store.counters(gpu).hits == before.hits + 1); // what had to be brought is a miss, although it was there
    CHECK(c.store.counters(gpu).misses == before.misses + 2);
    CHECK(c.store.counters(gpu).transfers == before.transfers);
}

TEST_CASE("residency/cache: guesses stop while they bring more in vain than they save, and go on where they pay") {
    for (const bool useful : {false, true}) {
        CAPTURE(useful);
        constexpr std::size_t experts = 32;
        cache c(2 * experts);
        c.store.bound(c.cpu, {(useful ? 4 : 16) * size});
        tern::scheduler order(c.store);
        order.guess_experts({{{{0, whole}}, experts, {size}, &c.cpu}, {{{experts, whole}}, experts, {size}, &c.cpu}},
                            {size});
        const auto use = [&](tern::slice_id id) {
            c.store.expect({&id, 1}, c.cpu, whole);
            c.home.run(c.store.borrow(id, c.cpu, whole));
            c.home.run(c.store.drain());
        };
        // Useful: three experts a layer take turns where there is room for two. In vain: those that were popular once
        // never come again.
        for (std::size_t step = 0; step < 160 && !useful; ++step) {
            use(static_cast<tern::slice_id>(step % 16));
            use(static_cast<tern::slice_id>(experts + step % 16));
        }
        bool stopped = false;
        std::uint64_t guessed_when_stopped = 0;
        for (std::size_t step = 0; step < 400; ++step) {
            const auto turn = static_cast<tern::slice_id>(useful ? step % 3 : 16 + step % 16);
            use(turn);
            use(static_cast<tern::slice_id>(experts) + turn);
            if (order.guessing_stopped() && !stopped) {
                stopped = true;
                guessed_when_stopped = c.store.counters(c.cpu).guessed.count;
            }
        }
        const tern::pool_counters counted = c.store.counters(c.cpu);
        MESSAGE("guessed ", counted.guessed.count / size, ", used ", counted.guess_used.count / size, ", in vain ",
                counted.guess_wasted.count / size);
        CHECK(stopped == !useful);
        if (useful) CHECK(counted.guess_used > counted.guess_wasted);
        if (!useful) CHECK(counted.guessed.count <= 3 * guessed_when_stopped); // tried again, and stopped again
    }
}
