// Tasks that are destroyed while they wait, observers that leave, and transfers that do as they please.
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "residency/schedule.hpp"
#include <tern/async/loop_thread.hpp>
#include <tern/async/when_all.hpp>
#include <tern/device/emulated.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/transfer/staged.hpp>

using namespace tern::literals;
using tern::copy_state;
using tern::slice_id;

namespace {

constexpr std::size_t slice_size = 1024;
constexpr tern::move_function in_one = &tern::staged<64_KiB, 1>::move;

/// Two slices in a file, and an accelerator to which each takes a millisecond.
struct bench {
    tern::virtual_clock time;
    tern::run_loop home{time};
    tern::heap_arena staging;
    tern::virtual_device gpu{{.capacity = 64_KiB, .bandwidth = {slice_size / 1e-3}}, time};
    tern::test::counting_source file{2 * slice_size};
    tern::residency_store store{home, staging};

    bench() {
        for (std::size_t i = 0; i < 2; ++i) {
            store.add("w" + std::to_string(i), {.file = &file, .offset = i * slice_size}, {slice_size});
            store.assign(static_cast<slice_id>(i), gpu, tern::retention::cache);
        }
    }
    copy_state state(slice_id id) { return store.state(id, gpu.memory().where()); }
};

/// A task that runs beside others and may be given up at any time.
struct detached {
    struct promise_type {
        detached get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_never initial_suspend() const noexcept { return {}; }
        std::suspend_always final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        void unhandled_exception() const noexcept { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;

    detached(std::coroutine_handle<promise_type> h) : handle(h) {}
    detached(detached&& other) noexcept : handle(std::exchange(other.handle, {})) {}
    ~detached() {
        if (handle) handle.destroy();
    }
};

detached wait_for(tern::residency_store& store, slice_id id, tern::device& on, tern::move_function move, int& got) {
    const tern::lease held = co_await store.borrow(id, on, move);
    if (held) ++got;
}

/// Some rounds of the loop; from the eighth on, when a copy that was begun has had its time.
tern::task<> pass(bench& b, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        if (i == 8) co_await b.time.sleep_for({1e-3});
        co_await b.home.schedule();
    }
}

struct counting_observer final : tern::residency_observer {
    int uses = 0;
    void used(slice_id) noexcept override { ++uses; }
    void room_freed() noexcept override {}
};

} // namespace

TEST_CASE("residency/broken: a task that waits for an arrival may be destroyed; the others get their leases") {
    bench b;
    int got = 0;
    {
        std::vector<detached> tasks;
        for (int i = 0; i < 3; ++i) tasks.push_back(wait_for(b.store, 0, b.gpu, in_one, got));
        CHECK(b.state(0) == copy_state::arriving);
        std::swap(tasks[1].handle, tasks[2].handle);
        tasks.pop_back(); // the one in the middle
        b.home.run(b.store.drain());
        b.home.run(pass(b, 2));
        CHECK(got == 2);
    }
    CHECK(b.state(0) == copy_state::resident);
    {
        const detached first = wait_for(b.store, 1, b.gpu, in_one, got); // alone, and given up
    }
    b.home.run(b.store.drain());
    CHECK(b.state(1) == copy_state::resident);
    CHECK(got == 2);
}

TEST_CASE("residency/broken: a task whose lease is on its way through the loop may be destroyed; the lease ends") {
    // Destroyed after every number of rounds: while it waits, when it has been posted, and when it has gone on.
    bool before = false;
    bool after = false;
    for (int rounds = 0; rounds < 20; ++rounds) {
        bench b;
        int got = 0;
        {
            const detached one = wait_for(b.store, 0, b.gpu, in_one, got);
            b.home.run(pass(b, rounds));
        }
        (got == 0 ? before : after) = true;
        b.home.run(b.store.drain());
        CHECK(b.state(0) == copy_state::resident);
        b.store.evict(0, b.gpu);
        CHECK(b.state(0) == copy_state::absent); // nobody has a lease on it
    }
    CHECK(before);
    CHECK(after);
}

TEST_CASE("residency/broken: an observer that was taken back while somebody waited is not told") {
    bench b;
    int got = 0;
    std::optional<counting_observer> first(std::in_place);
    b.store.tell(&*first);
    const detached one = wait_for(b.store, 0, b.gpu, in_one, got);
    b.store.tell(nullptr);
    CHECK(first->uses == 0);
    first.reset();
    counting_observer second;
    b.store.tell(&second);
    b.home.run(b.store.drain());
    b.home.run(pass(b, 2));
    CHECK(got == 1);
    CHECK(second.uses == 1);
    b.store.tell(nullptr);
}

namespace {

/// Throws before its coroutine exists, before it suspends, or after.
struct refuses {
    static tern::task<void> at_once(tern::transfer_request) { throw tern::io_error("at once"); }
    static tern::task<void> early(tern::transfer_request) {
        throw tern::io_error("early");
        co_return;
    }
    static tern::task<void> late(tern::transfer_request r) {
        co_await r.home->schedule();
        throw tern::budget_error("late");
    }
};
struct never_waits {
    static tern::task<void> move(tern::transfer_request r) {
        if (r.from.memory != nullptr)
            std::memcpy(r.to, r.from.memory, r.size.count);
        else
            tern::read_exact(*r.from.file, r.from.offset, {r.to, static_cast<std::size_t>(r.size.count)});
        co_return;
    }
};

/// Threads of its own, and three slices of 0, 1024 and 1024 bytes.
struct threaded {
    tern::run_loop home;
    tern::heap_arena ram;
    tern::heap_arena staging;
    tern::cpu_device cpu{ram, 1};
    tern::emulated_device gpu{{.capacity = 4_KiB}};
    tern::test::counting_source file{2 * slice_size};
    tern::loop_thread thread;
    std::optional<tern::residency_store> store;

    explicit threaded(bool beside = true) {
        store.emplace(home, staging, tern::store_options{.transfers = beside ? &thread.loop() : nullptr});
        for (const std::size_t size : {std::size_t{0}, slice_size, slice_size})
            store->add("w", {.file = &file, .offset = store->slices() / 2 * slice_size}, {size});
    }
    tern::task<bool> right(slice_id id, tern::device& on, tern::move_function move) {
        const tern::lease held = co_await store->borrow(id, on, move);
        const std::size_t size = store->size(id).count;
        co_return size == 0 || std::memcmp(held.data(), file.data.data() + id / 2 * slice_size, size) == 0;
    }
};

} // namespace

TEST_CASE("residency/broken: transfers that throw, wherever they do, leave no copy and no room taken") {
    threaded t(false);
    for (tern::device* const on : {static_cast<tern::device*>(&t.gpu), static_cast<tern::device*>(&t.cpu)})
        for (const slice_id id : {0u, 1u, 2u}) {
            CHECK_THROWS_AS(t.home.run(t.right(id, *on, &refuses::at_once)), tern::io_error);
            CHECK_THROWS_AS(t.home.run(t.right(id, *on, &refuses::early)), tern::io_error);
            CHECK_THROWS_AS(t.home.run(t.right(id, *on, &refuses::late)), tern::budget_error);
            t.home.run(t.store->drain());
            CHECK(t.store->state(id, on->memory().where()) == copy_state::absent);
            CHECK(on->memory().budget().used() == 0_B);
            CHECK(t.home.run(t.right(id, *on, &never_waits::move)));
            CHECK(t.home.run(t.right(id, *on, in_one)));
        }
}

TEST_CASE("residency/broken: stores end, observers leave and tasks are destroyed while another thread moves copies") {
    for (int round = 0; round < 60; ++round) {
        threaded t;
        for (const slice_id id : {0u, 1u, 2u}) t.store->assign(id, t.gpu);
        // The copies in RAM are what the others come from: leases on them end on the transfers' thread.
        std::optional<tern::lease> source(t.home.run(t.store->borrow(2, t.cpu, in_one)));
        std::optional<tern::scheduler> order(*t.store);
        order->follow({{0, &t.gpu, in_one, 3}, {1, &t.gpu, in_one, 3}, {2, &t.gpu, in_one, 3}});
        int got = 0;
        {
            std::vector<detached> tasks;
            for (const slice_id id : {2u, 1u, 0u, 2u}) tasks.push_back(wait_for(*t.store, id, t.gpu, in_one, got));
            source.reset();
            for (int i = 0; i < round % 6; ++i) std::this_thread::yield();
            if (round % 3 == 0) CHECK(t.home.run(t.right(1, t.gpu, in_one)));
        }
        order.reset();
        t.store->expect(std::vector<slice_id>{1, 2}, t.gpu, in_one);
        t.store.reset();
        CHECK(t.gpu.memory().budget().used() == 0_B);
        CHECK(t.ram.budget().used() == 0_B);
        CHECK(t.staging.budget().used() == 0_B);
    }
}
