// Arrivals that meet: who waits for room, who gives up, what a failure leaves, in virtual time; and on several threads.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "residency/schedule.hpp"
#include <tern/async/loop_thread.hpp>
#include <tern/async/when_all.hpp>
#include <tern/device/emulated.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/memory/region_arena.hpp>
#include <tern/transfer/staged.hpp>

using namespace tern::literals;
using tern::copy_state;
using tern::slice_id;

namespace {

constexpr std::size_t slice_size = 1024;
constexpr double copy_time = 1e-3;
constexpr tern::move_function in_one = &tern::staged<64_KiB, 1>::move;
constexpr tern::move_function in_chunks = &tern::staged<100_B, 2>::move;

/// Four neighbours in a file, and an accelerator to which each takes a millisecond.
struct bench {
    tern::virtual_clock time;
    tern::run_loop home{time};
    tern::heap_arena ram;
    tern::heap_arena staging;
    tern::cpu_device cpu{ram, 1};
    tern::test::randomness random{1};
    tern::test::shaky_device gpu{{.capacity = 64_KiB, .bandwidth = {slice_size / copy_time}}, time, random};
    tern::test::counting_source file{4 * slice_size};
    tern::residency_store store{home, staging};

    bench() {
        for (std::size_t i = 0; i < 4; ++i) {
            store.add("w" + std::to_string(i), {.file = &file, .offset = i * slice_size}, {slice_size});
            store.assign(static_cast<slice_id>(i), gpu);
        }
    }
    copy_state state(slice_id id) { return store.state(id, gpu.memory().where()); }
    tern::bytes used() { return gpu.memory().budget().used(); }
    bool right(slice_id id, const tern::lease& held) const {
        return std::memcmp(held.data(), file.data.data() + id * slice_size, slice_size) == 0;
    }
};

/// Whether the bytes are right, and when they were there.
struct arrival {
    bool right = false;
    double at = 0;
};
tern::task<arrival> use(bench& b, slice_id id, tern::move_function move = in_one) {
    const tern::lease held = co_await b.store.borrow(id, b.gpu, move);
    co_return arrival{b.right(id, held), b.time.now().count};
}
tern::task<std::exception_ptr> error_of(bench& b, slice_id id) {
    try {
        const tern::lease held = co_await b.store.borrow(id, b.gpu, in_chunks);
    } catch (...) { co_return std::current_exception(); }
    co_return nullptr;
}
tern::task<tern::lease> hold(bench& b, slice_id id) { return b.store.borrow(id, b.gpu, in_one); }
tern::task<> place_on_cpu(bench& b, slice_id id) { return b.store.place(id, b.cpu, in_one); }
/// For what is to happen after other tasks have begun.
tern::task<std::size_t> bring_ahead(bench& b, std::vector<slice_id> ids) {
    co_return b.store.bring_ahead(ids, b.gpu, in_one);
}
tern::task<> evict(bench& b, slice_id id) {
    b.store.evict(id, b.gpu);
    co_return;
}
tern::task<> expect(bench& b, std::vector<slice_id> ids, tern::move_function move = in_one) {
    b.store.expect(ids, b.gpu, move);
    co_return;
}
/// Says when it looked, too.
tern::task<copy_state> look(bench& b, slice_id id, double when) {
    co_await b.time.sleep_for({when});
    co_return b.state(id);
}

} // namespace

TEST_CASE("residency/arrivals: room that is promised to what comes ahead is waited for, and then taken from it") {
    bench b;
    b.store.bound(b.gpu, {slice_size});
    const auto [got, begun] = b.home.run(tern::when_all(use(b, 0), bring_ahead(b, {1})));
    CHECK(begun == 1);
    CHECK(got.right);
    CHECK(got.at == doctest::Approx(2 * copy_time));
    CHECK(b.state(1) == copy_state::absent);
    CHECK(b.store.counters(b.gpu).evictions == 1);
    CHECK(b.used() == 0_B);
}

TEST_CASE("residency/arrivals: what is needed waits for what is on its way, then takes its room unless it is leased") {
    bench b;
    b.store.bound(b.gpu, {slice_size});
    const auto [begun, got] = b.home.run(tern::when_all(bring_ahead(b, {0}), use(b, 1)));
    CHECK(begun == 1);
    CHECK(got.right);
    CHECK(got.at == doctest::Approx(2 * copy_time));
    CHECK(b.store.cached(b.gpu) == 0_B);
    {
        const tern::lease held = b.home.run(hold(b, 2));
        try {
            static_cast<void>(b.home.run(use(b, 3)));
            FAIL("there is no room");
        } catch (const tern::budget_error& e) {
            CHECK(e.needed() == slice_size);
            CHECK(e.available() == 0);
        }
        CHECK(b.right(2, held));
        // Nobody waits for these: they are given up.
        CHECK(b.home.run(bring_ahead(b, {3})) == 0);
        b.home.run(expect(b, {3}));
        b.home.run(b.store.drain());
        CHECK(b.state(3) == copy_state::absent);
    }
    CHECK(b.home.run(use(b, 3)).right);
    CHECK(b.used() == 0_B);
}

TEST_CASE(
    "residency/arrivals: all who wait for an arrival that fails are given one exception, and the next try succeeds") {
    bench b;
    b.file.fails_from = 500;
    const auto errors = b.home.run(tern::when_all(error_of(b, 0), error_of(b, 0), error_of(b, 0)));
    REQUIRE(std::get<0>(errors) != nullptr);
    CHECK(std::get<0>(errors) == std::get<1>(errors));
    CHECK(std::get<0>(errors) == std::get<2>(errors));
    CHECK_THROWS_AS(std::rethrow_exception(std::get<0>(errors)), tern::io_error);
    CHECK(b.state(0) == copy_state::absent);
    CHECK(b.store.counters().arrivals == 0);
    b.file.fails_from = ~std::uint64_t{0};
    CHECK(b.home.run(use(b, 0)).right);
}

TEST_CASE("residency/arrivals: a failure of what was only expected is nobody's, one that is waited for is told") {
    bench b;
    b.file.fails_from = 1500; // in the second of the run
    b.home.run(expect(b, {0, 1, 2}, in_chunks));
    b.home.run(b.store.drain());
    for (slice_id id = 0; id < 3; ++id) CHECK(b.state(id) == copy_state::absent);
    CHECK(b.used() == 0_B);
    CHECK(b.store.cached(b.gpu) == 0_B);
    const auto [none, one, other] =
        b.home.run(tern::when_all(expect(b, {0, 1, 2}, in_chunks), error_of(b, 1), error_of(b, 2)));
    CHECK(one != nullptr);
    CHECK(one == other);
    CHECK(b.home.run(use(b, 0)).right); // alone, it can be read
    b.file.fails_from = ~std::uint64_t{0};
    const auto [again, second] = b.home.run(tern::when_all(expect(b, {0, 1, 2}), use(b, 2)));
    CHECK(second.right);
    CHECK(b.store.counters(b.gpu).transfers == 2);
}

TEST_CASE(
    "residency/arrivals: a copy that is evicted while it comes goes when it is there, unless somebody waits for it") {
    bench b;
    b.home.run(tern::when_all(bring_ahead(b, {0}), evict(b, 0)));
    b.home.run(b.store.drain());
    CHECK(b.state(0) == copy_state::absent);
    CHECK(b.used() == 0_B);
    const auto [got, none] = b.home.run(tern::when_all(use(b, 1), evict(b, 1)));
    CHECK(got.right);
    CHECK(b.used() == 0_B);
    // One of a run: its memory goes with the last of them.
    b.home.run(tern::when_all(expect(b, {0, 1, 2}), evict(b, 1)));
    b.home.run(b.store.drain());
    CHECK(b.state(0) == copy_state::resident);
    CHECK(b.state(1) == copy_state::absent);
    CHECK(b.used() == tern::bytes{3 * slice_size});
    CHECK(b.home.run(use(b, 2)).right);
    CHECK(b.used() == tern::bytes{3 * slice_size});
    CHECK(b.store.cached(b.gpu) == tern::bytes{3 * slice_size});
    CHECK(b.home.run(use(b, 0)).right);
    CHECK(b.used() == 0_B);
    CHECK(b.store.cached(b.gpu) == 0_B);
}

TEST_CASE("residency/arrivals: a run whose first slice came to RAM before it moves has the bytes of all of them") {
    bench b;
    const auto [none, begun] = b.home.run(tern::when_all(place_on_cpu(b, 0), bring_ahead(b, {0, 1, 2})));
    CHECK(begun == 3);
    b.home.run(b.store.drain());
    CHECK(b.store.counters(b.gpu).transfers == 1);
    for (slice_id id = 0; id < 3; ++id) CHECK(b.home.run(use(b, id)).right);
}

TEST_CASE("residency/arrivals: where leases leave a pool's part of vram in pieces, what is free beside it joins them") {
    constexpr std::uint64_t sizes[] = {39'000, 1'000, 79'000};
    tern::run_loop home;
    tern::heap_arena staging;
    tern::emulated_device gpu{{.capacity = 125'000_B}};
    tern::test::counting_source file{119'000};
    tern::residency_store store(home, staging, {});
    std::uint64_t offset = 0;
    for (const std::uint64_t n : sizes) {
        store.assign(store.add("w", {.file = &file, .offset = offset}, {n}), gpu, tern::retention::drop, false);
        offset += n;
    }
    store.bound(gpu, 80'000_B);
    const auto borrow = [&](slice_id id) { return home.run(store.borrow(id, gpu, in_one)); };
    tern::lease first = borrow(0);
    const tern::lease in_the_middle = borrow(1);
    first = {};
    // 39,000 bytes are free before it, 44,000 behind, and 41,000 outside of the part, before all of them.
    const tern::lease last = borrow(2);
    CHECK(std::memcmp(last.data(), file.data.data() + 40'000, 79'000) == 0);
    CHECK(std::memcmp(in_the_middle.data(), file.data.data() + 39'000, 1'000) == 0);
}

TEST_CASE("residency/arrivals: what is brought ahead to stay does not count against the pool once it is there") {
    bench b;
    b.store.bound(b.gpu, {slice_size});
    b.store.assign(0, b.gpu, tern::retention::keep);
    CHECK(b.home.run(bring_ahead(b, {0})) == 1);
    b.home.run(b.store.drain());
    CHECK(b.state(0) == copy_state::resident);
    CHECK(b.store.cached(b.gpu) == 0_B);
    CHECK(b.home.run(use(b, 1)).right);
    b.store.evict(0, b.gpu);
    CHECK(b.used() == 0_B);
}

TEST_CASE("residency/arrivals: of several that came together each that is placed no longer counts against the pool") {
    bench b;
    const auto cached = [&] { return b.store.cached(b.gpu); };
    for (slice_id id = 0; id < 3; ++id) b.store.assign(id, b.gpu, tern::retention::cache);
    CHECK(b.home.run(bring_ahead(b, {0, 1, 2})) == 3);
    b.home.run(b.store.drain());
    REQUIRE(b.store.counters(b.gpu).transfers == 1);
    CHECK(cached() == tern::bytes{3 * slice_size});
    for (int i = 0; i < 2; ++i) b.home.run(b.store.place(1, b.gpu, in_one));
    CHECK(cached() == tern::bytes{2 * slice_size});
    b.store.evict(0, b.gpu);
    CHECK(cached() == tern::bytes{2 * slice_size}); // its memory goes with the last of them
    b.home.run(b.store.place(2, b.gpu, in_one));
    CHECK(cached() == tern::bytes{slice_size});
    b.store.assign(2, b.gpu, tern::retention::cache); // and back
    CHECK(cached() == tern::bytes{2 * slice_size});
    b.store.assign(2, b.gpu, tern::retention::keep);
    CHECK(cached() == tern::bytes{slice_size});
    b.store.evict(1, b.gpu);
    b.store.assign(2, b.gpu, tern::retention::cache); // the last one has all of their memory
    CHECK(cached() == tern::bytes{3 * slice_size});
    b.store.evict(2, b.gpu);
    CHECK(cached() == 0_B);
    CHECK(b.used() == 0_B);
}

TEST_CASE("residency/arrivals: two that read the disk at once and have staging for one come one after the other") {
    for (const std::uint64_t staging_size : {128, 256, 64}) {
        CAPTURE(staging_size);
        bench b;
        tern::test::virtual_disk disk(b.time);
        tern::region_arena staging({}, {staging_size});
        tern::residency_store store(b.home, staging, {.disk = &disk});
        for (std::size_t i = 0; i < 4; ++i) store.add("w", {.file = &b.file, .offset = i * slice_size}, {slice_size});
        int right = 0;
        const auto use_one = [&](slice_id id) -> tern::task<> {
            const tern::lease held = co_await store.borrow(id, b.gpu, &tern::staged<100_B, 1>::move);
            right += b.right(id, held);
        };
        std::vector<tern::task<>> all;
        for (slice_id id = 0; id < 4; ++id) all.push_back(use_one(id));
        if (staging_size < 100) {
            CHECK_THROWS_AS(b.home.run(tern::when_all(std::move(all))), tern::budget_error);
            CHECK(right == 0);
        } else {
            b.home.run(tern::when_all(std::move(all)));
            CHECK(right == 4);
        }
        CHECK(b.used() == 0_B);
        CHECK(staging.budget().used() == 0_B);
    }
}

TEST_CASE("residency/arrivals: the states of a copy follow one another") {
    bench b;
    b.store.assign(0, b.gpu, tern::retention::cache);
    const auto [got, begun, there, left] = b.home.run(
        tern::when_all(use(b, 0), look(b, 0, copy_time / 2), look(b, 0, copy_time * 2), look(b, 1, copy_time)));
    CHECK(got.right);
    CHECK(begun == copy_state::arriving);
    CHECK(there == copy_state::resident);
    CHECK(left == copy_state::absent);
    {
        const tern::lease held = b.store.try_borrow(0, b.gpu);
        CHECK(b.state(0) == copy_state::leased);
        b.store.evict(0, b.gpu);
        CHECK(b.state(0) == copy_state::leaving);
        const tern::lease second = b.store.try_borrow(0, b.gpu); // still readable
        CHECK(b.right(0, second));
        CHECK(b.state(0) == copy_state::leaving);
    }
    CHECK(b.state(0) == copy_state::absent);
}

// Threads that lend, evict, expect and count while the home loop borrows and transfers run on a third.
namespace {

constexpr std::size_t shared_slices = 8;

struct shared {
    tern::run_loop home;
    tern::loop_thread transfers;
    tern::heap_arena ram;
    tern::heap_arena staging;
    tern::emulated_device gpu{{.capacity = {4 * slice_size}}};
    tern::test::counting_source file{shared_slices * slice_size};
    tern::residency_store store{home, staging, {.transfers = &transfers.loop()}};
    tern::scheduler order{store};
    std::atomic<bool> over{false};
    std::atomic<int> wrong{0};
    std::atomic<int> lent{0};

    void check(slice_id id, const tern::lease& held) {
        ++lent;
        wrong += std::memcmp(held.data(), file.data.data() + id * slice_size, slice_size) != 0;
    }
};

void disturb(shared& s, std::uint64_t seed) {
    tern::test::randomness random{seed};
    while (!s.over) {
        const auto id = static_cast<slice_id>(random.below(shared_slices - 1));
        const std::array<slice_id, 2> ids{id, id + 1};
        switch (random.below(8)) {
        case 0: s.store.evict(id, s.gpu); break;
        case 1: s.store.expect(ids, s.gpu, in_chunks); break;
        case 2: static_cast<void>(s.store.bring_ahead(ids, s.gpu, in_one)); break;
        case 3: static_cast<void>(s.store.counters(s.gpu)); break;
        case 4: s.wrong += s.store.cached(s.gpu) > tern::bytes{3 * slice_size}; break;
        case 5: static_cast<void>(s.store.state(id, s.gpu.memory().where())); break;
        default:
            if (const tern::lease held = s.store.try_borrow(id, s.gpu)) s.check(id, held);
        }
        std::this_thread::yield();
    }
}

tern::task<int> borrow_all(shared& s, std::uint64_t seed) {
    tern::test::randomness random{seed};
    int refused = 0;
    for (int i = 0; i < 20; ++i) {
        const auto id = static_cast<slice_id>(random.below(shared_slices));
        try {
            const tern::lease held = co_await s.store.borrow(id, s.gpu, random.below(2) == 0 ? in_one : in_chunks);
            s.check(id, held);
            co_await s.home.schedule();
        } catch (const tern::budget_error&) { ++refused; } // others lease all that there is room for
    }
    co_return refused;
}

} // namespace

TEST_CASE("residency/arrivals: threads lend, evict, expect and count while others borrow") {
    shared s;
    s.store.bound(s.gpu, {3 * slice_size});
    std::vector<tern::scheduled_use> uses;
    for (slice_id id = 0; id < shared_slices; ++id) {
        s.store.add("w", {.file = &s.file, .offset = id * slice_size}, {slice_size});
        s.store.assign(id, s.gpu, id % 2 == 0 ? tern::retention::drop : tern::retention::cache);
        uses.push_back({id, &s.gpu, in_one, 2});
    }
    s.order.follow(uses);
    std::vector<std::thread> threads;
    for (std::uint64_t t = 1; t <= 3; ++t) threads.emplace_back([&s, t] { disturb(s, t); });
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
    int refused = 0;
    for (std::uint64_t round = 10; round < 2000 && std::chrono::steady_clock::now() < end; ++round)
        refused += s.home.run(borrow_all(s, round));
    s.over = true;
    for (std::thread& t : threads) t.join();
    s.order.follow({});
    s.home.run(s.store.drain());
    for (slice_id id = 0; id < shared_slices; ++id) s.store.evict(id, s.gpu);
    CHECK(s.wrong == 0);
    CHECK(s.lent > refused);
    CHECK(s.store.cached(s.gpu) == 0_B);
    CHECK(s.gpu.memory().budget().used() == 0_B);
    CHECK(s.staging.budget().used() == 0_B);
}
