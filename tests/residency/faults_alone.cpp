// Faults at every point: memory that runs out at each single allocation, a stop at each suspension, a broken disk and a
// broken link at each read and copy. Always the right error, nothing left behind, and the next run is right.
#include <doctest/doctest.h>

#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "support/allocations.hpp"
#include "support/counting_source.hpp"
#include <tern/async/run_loop.hpp>
#include <tern/async/virtual_clock.hpp>
#include <tern/async/when_all.hpp>
#include <tern/device/cpu.hpp>
#include <tern/device/virtual_device.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/residency/scheduler.hpp>
#include <tern/residency/store.hpp>
#include <tern/transfer/prefetched.hpp>

using namespace tern::literals;
using tern::test::allocations_left;

namespace {

constexpr std::size_t slices = 6;
constexpr std::size_t size = 10'000;
constexpr tern::move_function in_chunks = &tern::prefetched<2, tern::staged<4_KiB, 2>>::move;

/// A link that counts its copies and can break, or ask for a stop, at one of them; so does the file for reads.
struct bench {
    tern::virtual_clock time;
    tern::run_loop home{time};
    tern::heap_arena ram;
    tern::heap_arena staging;
    tern::cpu_device cpu{ram, 1};
    tern::virtual_device gpu{
        {.capacity = 64_KiB, .bandwidth = tern::bytes_per_second{1e6}, .latency = tern::seconds{1e-3}}, time};
    tern::test::counting_source file{slices * size};
    tern::residency_store store{home, staging, {.time = &time}};
    tern::scheduler order{store};

    bench() {
        for (std::size_t i = 0; i < slices; ++i) {
            const auto id = store.add("w" + std::to_string(i), {.file = &file, .offset = i * size}, {size});
            store.assign(id, i % 2 == 0 ? static_cast<tern::device&>(gpu) : cpu, tern::retention::drop);
        }
        store.bound(gpu, {3 * size});
        store.bound(cpu, {2 * size});
    }
    bool right(tern::slice_id id, const tern::lease& held) const {
        return std::memcmp(held.data(), file.data.data() + id * size, size) == 0;
    }
    void clean() {
        home.run(store.drain());
        for (tern::slice_id id = 0; id < slices; ++id) {
            store.evict(id, cpu);
            store.evict(id, gpu);
            CHECK(store.state(id, cpu.memory().where()) == tern::copy_state::absent);
            CHECK(store.state(id, gpu.memory().where()) == tern::copy_state::absent);
        }
        CHECK(ram.budget().used() == 0_B);
        CHECK(staging.budget().used() == 0_B);
        CHECK(gpu.memory().budget().used() == 0_B);
        CHECK(store.cached(cpu) == 0_B);
        CHECK(store.cached(gpu) == 0_B);
    }
};

tern::task<int> borrow(bench& b, tern::slice_id id, tern::device& on) {
    const tern::lease held = co_await b.store.borrow(id, on, in_chunks);
    co_await b.time.sleep_for({1e-4});
    co_return b.right(id, held) ? 1 : 0;
}

/// All ways in which bytes come: placed, streamed in a plan's order, expected, shared by two, brought between memories.
tern::task<int> everything(bench& b) {
    int right = 0;
    std::vector<tern::scheduled_use> uses;
    for (tern::slice_id id = 0; id < slices; ++id) uses.push_back({id, b.store.home_of(id), in_chunks, 2});
    b.order.follow(uses);
    co_await b.store.place(1, b.cpu, in_chunks);
    for (tern::slice_id id = 0; id < slices; ++id) right += co_await borrow(b, id, *b.store.home_of(id));
    const tern::slice_id chosen[] = {2, 3};
    b.store.expect(chosen, b.gpu, in_chunks);
    tern::task<int> one = borrow(b, 2, b.gpu);
    tern::task<int> other = borrow(b, 2, b.gpu);
    const auto both = co_await tern::when_all(std::move(one), std::move(other));
    right += std::get<0>(both) + std::get<1>(both);
    right += co_await borrow(b, 1, b.gpu); // from the copy in RAM
    co_await b.store.place(4, b.gpu, in_chunks);
    right += co_await borrow(b, 4, b.gpu);
    b.order.follow({});
    co_return right;
}
constexpr int all_right = slices + 4;

/// Runs everything with a fault at its n-th point for each n, until there are no more points; gives how many there
/// were.
template <class... Errors, class Arm, class Disarm> int at_every_point(Arm arm, Disarm disarm) {
    int failures = 0;
    for (long n = 0;; ++n) {
        REQUIRE(n < 3000);
        CAPTURE(n);
        bench b;
        bool failed = false;
        int right = 0;
        arm(b, n);
        try {
            right = b.home.run(everything(b));
        } catch (const std::exception& e) {
            failed = true;
            CHECK((... || (dynamic_cast<const Errors*>(&e) != nullptr)));
        }
        const bool none_met = disarm(b);
        b.order.follow({});
        b.clean();
        CHECK(b.home.run(everything(b)) == all_right); // the next run is right
        b.clean();
        failures += failed;
        if (failed) continue;
        CHECK(right == all_right);
        // Faults of what comes ahead reach nobody: look on until a run meets no fault at all.
        if (none_met) break;
    }
    return failures;
}

} // namespace

TEST_CASE("residency/faults_alone: memory that runs out at any allocation") {
    tern::test::only_one_fails = true;
    const int failures = at_every_point<std::bad_alloc, tern::budget_error>(
        [](bench&, long n) { allocations_left = n; }, [](bench&) { return allocations_left.exchange(-1) >= 0; });
    MESSAGE(failures, " allocations failed");
    CHECK(failures >= 1);
}

TEST_CASE("residency/faults_alone: a disk that breaks at any read") {
    static thread_local long reads;
    const int failures = at_every_point<tern::io_error>(
        [](bench& b, long n) {
            reads = n;
            b.file.on_read = [](tern::test::counting_source&, std::uint64_t) {
                if (reads-- == 0) throw tern::io_error("the disk is broken");
            };
        },
        [](bench& b) { return b.file.on_read = nullptr, reads >= 0; });
    MESSAGE(failures, " reads failed that somebody waited for");
    CHECK(failures >= 1);
}

TEST_CASE("residency/faults_alone: a stop at any read") {
    static thread_local long reads;
    static std::stop_source* source;
    std::stop_source stop;
    const int failures = at_every_point<tern::stopped_error>(
        [&](bench& b, long n) {
            stop = std::stop_source();
            source = &stop;
            reads = n;
            b.store.stop_with(stop.get_token());
            b.file.on_read = [](tern::test::counting_source&, std::uint64_t) {
                if (reads-- == 0) source->request_stop();
            };
        },
        [](bench& b) { return b.store.stop_with({}), b.file.on_read = nullptr, reads >= 0; });
    MESSAGE(failures, " stops were reported");
    CHECK(failures >= 1);
}

TEST_CASE("residency/faults_alone: a stop at any moment") {
    // In virtual time every suspension ends at a moment of the clock: all of them are met.
    double end = 0;
    {
        bench b;
        CHECK(b.home.run(everything(b)) == all_right);
        end = b.time.now().count;
        b.clean();
    }
    int stopped = 0;
    int ran = 0;
    for (double at = 0; at < end; at += 5e-4) {
        CAPTURE(at);
        bench b;
        std::stop_source stop;
        b.store.stop_with(stop.get_token());
        const auto stop_at = [](bench& with, std::stop_source& s, double when) -> tern::task<int> {
            co_await with.time.sleep_until({when});
            s.request_stop();
            co_return 0;
        };
        try {
            tern::task<int> work = everything(b);
            tern::task<int> timer = stop_at(b, stop, at);
            const auto both = b.home.run(tern::when_all(std::move(work), std::move(timer)));
            CHECK(std::get<0>(both) == all_right); // nothing was under way then
            ++ran;
        } catch (const tern::stopped_error&) { ++stopped; }
        b.store.stop_with({});
        b.order.follow({});
        b.clean();
        CHECK(b.home.run(everything(b)) == all_right);
        b.clean();
    }
    MESSAGE(stopped, " runs stopped, ", ran, " did not notice");
    CHECK(stopped > 10);
}
