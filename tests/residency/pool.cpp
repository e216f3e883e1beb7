#include <tern/residency/pool.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <tern/async/run_loop.hpp>
#include <tern/async/virtual_clock.hpp>
#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>
#include <tern/memory/heap_arena.hpp>

using namespace tern::literals;
using tern::arrival_cause;
using tern::retention;

namespace {

/// A pool and copies in it that nothing else knows of.
struct bench {
    tern::heap_arena ram{};
    tern::cpu_device cpu{ram, 1};
    std::uint64_t tick = 0;
    tern::detail::pool pool{cpu, tick};
    std::vector<std::unique_ptr<tern::detail::copy_entry>> copies{};
    std::vector<std::unique_ptr<tern::copy_usage>> usages{};

    std::size_t enter(arrival_cause cause, retention stay = retention::cache, std::uint64_t size = 100) {
        auto& c = *copies.emplace_back(std::make_unique<tern::detail::copy_entry>());
        auto& u = *usages.emplace_back(std::make_unique<tern::copy_usage>());
        u.slice = static_cast<std::uint32_t>(usages.size() - 1);
        u.bytes = size;
        c.there = c.fresh = true;
        c.awaited = cause == arrival_cause::expected;
        c.cause = cause;
        c.stay = stay;
        pool.expect_more(1);
        pool.enter(c, u);
        return copies.size() - 1;
    }
    void use(std::size_t i) { pool.used(*copies[i], *usages[i]); }
    void leave(std::size_t i) { pool.leave(*copies[i], *usages[i]); }
    /// The copy that would leave; -1 for none.
    int victim(arrival_cause cause) {
        const tern::detail::copy_entry* found = pool.victim(cause);
        for (std::size_t i = 0; i < copies.size(); ++i)
            if (copies[i].get() == found) return static_cast<int>(i);
        return -1;
    }
};

} // namespace

TEST_CASE("residency/pool: room is the limit less what is taken, also at and beyond the limit") {
    bench b;
    CHECK(b.pool.limit() == tern::unlimited);
    CHECK(b.pool.has_room(tern::unlimited));
    b.pool.take(1_B);
    CHECK(!b.pool.has_room(tern::unlimited)); // and does not wrap
    b.pool.bound(100_B);
    CHECK(b.pool.has_room(99_B));
    CHECK(!b.pool.has_room(100_B));
    b.pool.take(99_B);
    CHECK(b.pool.left() == 0_B);
    CHECK(b.pool.has_room(0_B));
    CHECK(!b.pool.has_room(1_B));
    b.pool.bound(10_B); // less than is there: nothing more comes until enough has gone
    CHECK(b.pool.left() == 0_B);
    CHECK(!b.pool.has_room(0_B));
    b.pool.give_back(95_B);
    CHECK(b.pool.used() == 5_B);
    CHECK(b.pool.left() == 5_B);
    CHECK(b.pool.has_room(5_B));
    CHECK(!b.pool.has_room(6_B));
    b.pool.promise(5_B);
    CHECK(b.pool.moving() == 1);
    CHECK(!b.pool.has_room(1_B));
    b.pool.keep_promise(5_B);
    CHECK(b.pool.moving() == 0);
    CHECK(b.pool.used() == 10_B);
}

TEST_CASE("residency/pool: the first use of what was brought in demand is a miss, all others are hits") {
    bench b;
    const std::size_t demanded = b.enter(arrival_cause::demand);
    const std::size_t expected = b.enter(arrival_cause::expected);
    const std::size_t ahead = b.enter(arrival_cause::ahead);
    const std::size_t guessed = b.enter(arrival_cause::guess);
    const std::size_t in_vain = b.enter(arrival_cause::guess, retention::cache, 33);
    CHECK(b.pool.counters.arrivals == 5);
    CHECK(b.pool.counters.moved == 433_B);
    CHECK(b.pool.counters.ahead == 100_B);
    CHECK(b.pool.counters.guessed == 133_B);
    b.use(demanded), b.use(expected);
    CHECK(b.pool.counters.misses == 2);
    CHECK(b.pool.counters.hits == 0);
    b.use(ahead), b.use(guessed);
    CHECK(b.pool.counters.hits == 2);
    CHECK(b.pool.counters.guess_used == 100_B);
    for (const std::size_t i : {demanded, expected, ahead, guessed}) b.use(i);
    CHECK(b.pool.counters.hits == 6);
    CHECK(b.pool.counters.misses == 2);
    CHECK(b.pool.counters.guess_used == 100_B);
    b.leave(in_vain);
    b.leave(guessed);
    CHECK(b.pool.counters.guess_wasted == 33_B);
}

TEST_CASE("residency/pool: what is leased or kept never leaves, what is awaited only for what is needed at once") {
    bench b;
    CHECK(b.victim(arrival_cause::demand) == -1);
    const std::size_t kept = b.enter(arrival_cause::demand, retention::keep);
    const std::size_t leased = b.enter(arrival_cause::demand);
    b.use(kept), b.use(leased);
    b.copies[leased]->leases = 1;
    for (const arrival_cause cause :
         {arrival_cause::demand, arrival_cause::expected, arrival_cause::ahead, arrival_cause::guess})
        CHECK(b.victim(cause) == -1);
    const auto awaited = static_cast<int>(b.enter(arrival_cause::expected));
    CHECK(b.victim(arrival_cause::demand) == awaited);
    CHECK(b.victim(arrival_cause::expected) == -1);
    CHECK(b.victim(arrival_cause::ahead) == -1);
    const auto ahead = static_cast<int>(b.enter(arrival_cause::ahead));
    CHECK(b.victim(arrival_cause::demand) == ahead); // before what is awaited
    CHECK(b.victim(arrival_cause::expected) == ahead);
    CHECK(b.victim(arrival_cause::ahead) == -1);
    CHECK(b.victim(arrival_cause::guess) == -1);
    const auto guessed = static_cast<int>(b.enter(arrival_cause::guess));
    for (const arrival_cause cause :
         {arrival_cause::demand, arrival_cause::expected, arrival_cause::ahead, arrival_cause::guess})
        CHECK(b.victim(cause) == guessed);
    b.leave(static_cast<std::size_t>(guessed));
    const auto past = static_cast<int>(b.enter(arrival_cause::demand));
    b.use(static_cast<std::size_t>(past));
    CHECK(b.victim(arrival_cause::ahead) == past);
    // Once they were used, all are alike: the least recently used leaves.
    b.use(static_cast<std::size_t>(awaited));
    b.use(static_cast<std::size_t>(ahead));
    b.use(static_cast<std::size_t>(past));
    CHECK(b.victim(arrival_cause::ahead) == awaited);
    b.copies[leased]->leases = 0;
    CHECK(b.victim(arrival_cause::guess) == static_cast<int>(leased));
}

TEST_CASE("residency/pool: the policy that it is given judges, and without one the least recently used leaves") {
    bench b;
    const std::size_t often = b.enter(arrival_cause::demand);
    const std::size_t once = b.enter(arrival_cause::demand);
    b.pool.judge_by(tern::make_eviction("frequency"));
    for (int i = 0; i < 5; ++i) b.use(often);
    b.use(once);
    CHECK(b.victim(arrival_cause::demand) == static_cast<int>(once));
    b.pool.judge_by(nullptr);
    CHECK(b.victim(arrival_cause::demand) == static_cast<int>(often));
    b.pool.judge_by(tern::make_eviction("pinned_set", {.pinned = {static_cast<std::uint32_t>(often)}}));
    CHECK(b.victim(arrival_cause::demand) == static_cast<int>(once));
}

TEST_CASE("residency/pool: uses in another memory count, so that one clock orders them all") {
    bench b;
    tern::heap_arena elsewhere;
    tern::cpu_device other{elsewhere, 1};
    tern::detail::pool second(other, b.tick);
    const auto frequency = std::shared_ptr<const tern::eviction_policy>(tern::make_eviction("frequency"));
    b.pool.judge_by(frequency);
    second.judge_by(frequency);
    const std::size_t hot = b.enter(arrival_cause::demand);
    const std::size_t cold = b.enter(arrival_cause::demand);
    tern::detail::copy_entry copy; // of the hot one
    copy.there = true;
    second.expect_more(1);
    second.enter(copy, *b.usages[hot]);
    b.use(hot), b.use(cold);
    for (int i = 0; i < 10; ++i) second.used(copy, *b.usages[hot]);
    CHECK(b.victim(arrival_cause::demand) == static_cast<int>(cold));
}

TEST_CASE("residency/pool: a limited pool has a range of its own, a changed limit another, and what lies there stays") {
    bench b;
    CHECK(&b.pool.rooms() == &b.ram);
    b.pool.bound(1_MiB);
    tern::arena* const first = &b.pool.rooms();
    CHECK(first != &b.ram);
    CHECK(first->budget().limit() == 1_MiB);
    CHECK(&b.pool.rooms() == first);
    tern::allocation copy = first->allocate(600_KiB, "copy");
    copy.data()[0] = std::byte{5};
    b.pool.bound(tern::unlimited);
    CHECK(&b.pool.rooms() == &b.ram);
    b.pool.bound(1_MiB);
    CHECK(&b.pool.rooms() == first);
    b.pool.bound(2_MiB);
    tern::arena* const second = &b.pool.rooms();
    CHECK(second != first);
    CHECK(second->budget().limit() == 2_MiB);
    CHECK(b.ram.budget().used() == 600_KiB);
    const tern::allocation other = second->allocate(300_KiB, "other");
    b.pool.bound(3_MiB);
    CHECK(b.pool.rooms().budget().limit() == 3_MiB);
    CHECK(copy.data()[0] == std::byte{5});
    copy = {};
    CHECK(b.ram.budget().used() == 300_KiB);
}

TEST_CASE("residency/pool: of a device's memory a limited pool has a part, and the part before comes back at once") {
    tern::emulated_device gpu{{.capacity = 1_MiB}};
    std::uint64_t tick = 0;
    tern::detail::pool pool{gpu, tick};
    CHECK(&pool.rooms() == &gpu.memory());
    pool.bound(400_KiB);
    tern::arena& first = pool.rooms();
    CHECK(&first != &gpu.memory());
    CHECK_FALSE(gpu.memory().in_one_piece(700_KiB));
    tern::allocation copy = first.allocate(300_KiB, "copy");
    copy.data()[0] = std::byte{5};
    // Whatever lies beside it, it has its room.
    std::vector<tern::allocation> beside;
    while (gpu.memory().in_one_piece(10_KiB)) beside.push_back(gpu.memory().allocate(10_KiB, "beside"));
    CHECK(first.in_one_piece(100_KiB));
    beside.clear();
    // The same limit again is another part: the one before has ended.
    pool.bound(tern::unlimited);
    CHECK(gpu.memory().in_one_piece(620_KiB));
    pool.bound(400_KiB);
    CHECK(pool.rooms().in_one_piece(400_KiB));
    CHECK(copy.data()[0] == std::byte{5});
    copy = {};
    CHECK(gpu.memory().budget().used() == 0_B);
    pool.bound(tern::unlimited);
    CHECK(gpu.memory().in_one_piece(1_MiB));
    // What is free of a part that is given up joins what is free beside it.
    pool.bound(500_KiB);
    CHECK(pool.rooms().in_one_piece(500_KiB));
    pool.give_up_range();
    CHECK(&pool.rooms() == &gpu.memory());
    CHECK(pool.rooms().in_one_piece(1_MiB));
    // Where there is none of that size, copies lie among the others.
    pool.bound(1_MiB);
    const tern::allocation middle = gpu.memory().allocate(1_KiB, "middle");
    CHECK(&pool.rooms() == &gpu.memory());
}

TEST_CASE("residency/pool: the epoch changes with each arrival and departure, and not with uses") {
    bench b;
    const std::uint64_t empty = b.pool.epoch();
    const std::size_t one = b.enter(arrival_cause::demand);
    const std::uint64_t arrived = b.pool.epoch();
    CHECK(arrived != empty);
    for (int i = 0; i < 3; ++i) b.use(one);
    CHECK(b.pool.epoch() == arrived);
    const std::size_t two = b.enter(arrival_cause::ahead);
    b.leave(one);
    CHECK(b.pool.epoch() != arrived);
    CHECK(b.pool.epoch() != empty);
    CHECK(b.copies[two]->place_in_pool == 0); // took the place of the one that left
    b.leave(two);
    CHECK(b.victim(arrival_cause::demand) == -1);
}

namespace {

tern::task<> wait(tern::virtual_clock& time, double until) { co_await time.sleep_until({until}); }

} // namespace

TEST_CASE("residency/pool: bandwidth is measured over the time in which anything moves, overlaps once") {
    CHECK(tern::pool_counters{}.bandwidth() == tern::bytes_per_second{});
    CHECK(tern::pool_counters{.busy = {4}}.bandwidth() == tern::bytes_per_second{});
    tern::virtual_clock time;
    tern::run_loop loop(time);
    bench b;
    b.pool.begin_move(&time);
    loop.run(wait(time, 2));
    b.pool.begin_move(&time);
    loop.run(wait(time, 3));
    b.pool.end_move(&time);
    CHECK(b.pool.moving() == 1);
    loop.run(wait(time, 5));
    b.pool.end_move(&time);
    loop.run(wait(time, 95)); // idle
    b.enter(arrival_cause::demand, retention::cache, 1000);
    CHECK(b.pool.moving() == 0);
    CHECK(b.pool.counters.busy.count == doctest::Approx(5));
    CHECK(b.pool.counters.bandwidth().count == doctest::Approx(200));
    b.pool.begin_move(nullptr); // without a clock nothing is measured
    b.pool.end_move(nullptr);
    CHECK(b.pool.counters.busy.count == doctest::Approx(5));
}
