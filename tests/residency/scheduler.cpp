#include <tern/memory/heap_arena.hpp>
#include <tern/memory/region_arena.hpp>
#include <tern/residency/scheduler.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <tern/async/loop_thread.hpp>
#include <tern/async/run_loop.hpp>
#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>
#include <tern/transfer/staged.hpp>

#include "support/counting_source.hpp"

using namespace tern::literals;
using tern::copy_state;
using tern::test::counting_source;

namespace {

constexpr std::size_t count = 8;
constexpr std::size_t size = 1000;
constexpr tern::move_function move = &tern::staged<256_B, 2>::move;

/// Eight slices of a file that stream to the host, and a scheduler over them.
struct bench {
    explicit bench(tern::run_loop* transfers = nullptr) : store(home, staging, {.transfers = transfers}) {
        for (std::size_t i = 0; i < count; ++i) {
            store.add("slice" + std::to_string(i), {.file = &file, .offset = i * size}, {size});
            store.assign(static_cast<tern::slice_id>(i), cpu, tern::retention::drop, false);
        }
    }

    std::vector<tern::scheduled_use> uses(std::size_t ahead) {
        std::vector<tern::scheduled_use> order;
        for (tern::slice_id i = 0; i < count; ++i) order.push_back({i, &cpu, move, ahead});
        return order;
    }
    bool there(std::size_t i) const {
        return store.state(static_cast<tern::slice_id>(i), cpu_where) == copy_state::resident;
    }
    std::vector<std::size_t> all_there() const {
        std::vector<std::size_t> found;
        for (std::size_t i = 0; i < count; ++i)
            if (there(i)) found.push_back(i);
        return found;
    }
    tern::task<bool> use(tern::slice_id i) {
        tern::lease held = store.try_borrow(i, cpu);
        if (!held) held = co_await store.borrow(i, cpu, move);
        co_return std::memcmp(held.data(), file.data.data() + i * size, size) == 0;
    }
    bool used(tern::slice_id i) { return home.run(use(i)); }
    void settle() { home.run(store.drain()); }

    tern::run_loop home;
    tern::heap_arena ram;
    tern::heap_arena staging;
    tern::cpu_device cpu{ram, 1};
    const tern::location cpu_where = ram.where();
    counting_source file{count * size};
    tern::residency_store store;
};

using list = std::vector<std::size_t>;

} // namespace

TEST_CASE("residency/scheduler: what comes next is brought as far as there is room, and each slice once a pass") {
    bench b;
    b.store.bound(b.cpu, {3 * size});
    tern::scheduler order(b.store);
    order.follow(b.uses(16));
    b.settle();
    CHECK(b.all_there() == list{0, 1, 2});
    for (int pass = 1; pass <= 3; ++pass) {
        for (tern::slice_id i = 0; i < count; ++i) {
            CHECK(b.used(i));
            b.settle();
            CHECK(!b.there(i)); // gone with its use, and three others are there
            CHECK(b.store.cached(b.cpu) == tern::bytes{3 * size});
        }
        CHECK(b.file.bytes_read == (pass * count + 3) * size);
    }
    CHECK(b.store.counters(b.cpu).misses == 0);
    CHECK(b.store.counters(b.cpu).hits == 3 * count);
    CHECK(b.store.counters(b.cpu).evictions == 0);
    CHECK(b.store.counters(b.cpu).ahead == tern::bytes{(3 * count + 3) * size});
    CHECK(b.ram.budget().peak() <= tern::bytes{4 * size});
}

namespace {

/// Passes over slices of very different sizes that stream to `on`, in a room of `room` bytes, in order; meanwhile up to
/// `beside` bytes of its memory are allocated, to stay.
void stream_many_sizes(tern::device& on, tern::bytes room, std::uint64_t beside = 0, std::uint32_t seed = 0) {
    constexpr std::uint64_t sizes[] = {9'000, 100, 5'000, 7'000, 300, 9'000, 2'000, 64, 8'000, 3'000, 6'000, 1'000};
    tern::run_loop home;
    tern::heap_arena staging;
    std::vector<tern::allocation> stays;
    const auto random = [&seed] { return (seed = seed * 1664525u + 1013904223u) >> 8; };
    std::uint64_t total = 0;
    for (const std::uint64_t n : sizes) total += n;
    counting_source file{static_cast<std::size_t>(total)};
    tern::residency_store store(home, staging, {});
    std::vector<tern::scheduled_use> uses;
    std::uint64_t offset = 0;
    for (const std::uint64_t n : sizes) {
        const tern::slice_id id = store.add("slice", {.file = &file, .offset = offset}, {n});
        store.assign(id, on, tern::retention::drop, false);
        uses.push_back({id, &on, move, 16});
        offset += n;
    }
    store.bound(on, room);
    tern::scheduler order(store);
    order.follow(uses);
    home.run(store.drain());
    const auto use = [&](tern::slice_id id) -> tern::task<> {
        tern::lease held = store.try_borrow(id, on);
        if (!held) held = co_await store.borrow(id, on, move);
    };
    for (int pass = 0; pass < 20; ++pass)
        for (const tern::scheduled_use& u : uses) {
            home.run(use(u.slice));
            const std::uint64_t n = std::min<std::uint64_t>(random() % 4'000, beside);
            beside -= n;
            if (n != 0) stays.push_back(on.memory().allocate({n}, "activations"));
            home.run(store.drain());
        }
    CHECK(store.counters(on).misses == 0);
    CHECK(store.counters(on).evictions == 0);
    CHECK(file.bytes_read <= 20 * total + room.count);
}

} // namespace

TEST_CASE("residency/scheduler: slices of many sizes come in order and once a pass, whatever stays beside them") {
    for (const std::uint64_t room : {18'500u, 20'000u, 23'456u, 30'000u}) {
        CAPTURE(room);
        tern::region_arena region{{tern::tier_of<tern::pageable>, 0, 0}, {room}};
        tern::cpu_device bare{region, 1};
        stream_many_sizes(bare, {room});
        tern::heap_arena ram{{room}};
        tern::cpu_device cpu{ram, 1};
        stream_many_sizes(cpu, {room});
        // What stays takes all that is left of a device's memory, and no hole between slices.
        constexpr std::uint64_t stays = 20'000;
        for (std::uint32_t seed = 1; seed <= 10; ++seed) {
            CAPTURE(seed);
            tern::emulated_device gpu{{.capacity = {room + 4096 + stays + 32 * 64}}};
            stream_many_sizes(gpu, {room}, stays, seed);
        }
    }
}

TEST_CASE("residency/scheduler: no more is brought ahead than each use says") {
    for (const std::size_t ahead : {0u, 1u, 2u, 5u}) {
        CAPTURE(ahead);
        bench b;
        tern::scheduler order(b.store);
        order.follow(b.uses(ahead));
        b.settle();
        CHECK(b.all_there().size() == ahead);
        for (tern::slice_id i = 0; i < 5; ++i) {
            CHECK(b.used(i));
            b.settle();
            CHECK(b.all_there().size() == ahead);
        }
        CHECK(b.file.bytes_read == (5 + ahead) * size);
    }
}

TEST_CASE("residency/scheduler: with room for all everything is brought once and never again") {
    bench b;
    for (tern::slice_id i = 0; i < count; ++i) b.store.assign(i, b.cpu, tern::retention::cache, false);
    tern::scheduler order(b.store);
    order.follow(b.uses(3));
    for (int pass = 0; pass < 2; ++pass)
        for (tern::slice_id i = 0; i < count; ++i) CHECK(b.used(i));
    b.settle();
    CHECK(b.file.bytes_read == count * size);
    CHECK(b.store.counters(b.cpu).arrivals == count);
}

TEST_CASE("residency/scheduler: a use out of order moves the position, and is right") {
    bench b;
    b.store.bound(b.cpu, {3 * size});
    tern::scheduler order(b.store);
    order.follow(b.uses(16));
    b.settle();
    CHECK(b.used(5)); // one of those ahead leaves for it
    b.settle();
    CHECK(b.store.counters(b.cpu).misses == 1);
    for (const tern::slice_id i : {6, 7, 0, 1, 2, 2, 7, 3}) CHECK(b.used(i));
    b.settle();
    CHECK(b.store.cached(b.cpu) <= tern::bytes{3 * size});
}

TEST_CASE("residency/scheduler: a new order replaces the old one, one twice in it counts first, none brings nothing") {
    bench b;
    tern::scheduler order(b.store);
    order.follow({{4, &b.cpu, move, 1}, {4, &b.cpu, move, 9}, {6, &b.cpu, move, 2}});
    b.settle();
    CHECK(b.all_there() == list{4, 6});
    order.follow({});
    CHECK(b.used(4));
    CHECK(b.used(1));
    b.settle();
    CHECK(b.all_there() == list{6});
    order.follow({{2, &b.cpu, move, 1}});
    b.settle();
    CHECK(b.all_there() == list{2, 6});
}

TEST_CASE("residency/scheduler: what is read in place is not moved, and what fails ahead is told to who borrows") {
    bench b;
    const tern::slice_id mapped = b.store.add("mapped", {.memory = b.file.data.data()}, {size});
    tern::scheduler order(b.store);
    order.follow({{mapped, &b.cpu, move, 4}});
    b.settle();
    CHECK(b.store.counters().arrivals == 0);
    b.file.fails_from = 0;
    order.follow(b.uses(2));
    b.settle();
    CHECK(b.all_there().empty());
    CHECK(b.ram.budget().used() == 0_B);
    CHECK_THROWS_AS(b.used(0), tern::io_error);
    b.file.fails_from = ~std::uint64_t{0};
    for (tern::slice_id i = 0; i < count; ++i) CHECK(b.used(i));
    b.settle();
}

TEST_CASE("residency/scheduler: with transfers on a thread of their own, over many passes, and it ends before them") {
    tern::loop_thread transfers;
    bench b(&transfers.loop());
    b.store.bound(b.cpu, {3 * size});
    {
        tern::scheduler order(b.store);
        order.follow(b.uses(16));
        for (int pass = 0; pass < 50; ++pass)
            for (tern::slice_id i = 0; i < count; ++i) CHECK(b.used(i));
        CHECK(b.store.cached(b.cpu) <= tern::bytes{3 * size});
    }
    CHECK(b.used(0));
    b.settle();
    for (tern::slice_id i = 0; i < count; ++i) b.store.evict(i, b.cpu);
    CHECK(b.ram.budget().used() == 0_B);
    CHECK(b.store.cached(b.cpu) == 0_B);
}
