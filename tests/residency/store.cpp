#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/failing_device.hpp"
#include "support/transfers.hpp"
#include <tern/async/event.hpp>
#include <tern/async/run_loop.hpp>
#include <tern/async/thread_executor.hpp>
#include <tern/async/when_all.hpp>
#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/residency/store.hpp>
#include <tern/transfer/blocking.hpp>
#include <tern/transfer/staged.hpp>

using namespace tern::literals;
using tern::test::counting_source;

namespace {

constexpr std::size_t slice_size = 40'000;
constexpr tern::move_function in_chunks = &tern::staged<8_KiB, 2>::move;

struct bench {
    tern::run_loop home;
    tern::heap_arena ram;
    tern::heap_arena staging;
    tern::cpu_device cpu{ram, 1};
    counting_source file{slice_size};
    tern::residency_store store{home, staging};
    tern::slice_id id = store.add("blk.0.ffn_up.weight", {.file = &file}, {slice_size});
};

bool right(const bench& b, const tern::lease& held) {
    return std::memcmp(held.data(), b.file.data.data(), slice_size) == 0;
}

tern::task<bool> use(bench& b, tern::device& on) {
    const tern::lease held = co_await b.store.borrow(b.id, on, in_chunks);
    co_return right(b, held);
}
tern::task<std::string> error_of(bench& b, tern::device& on) {
    try {
        const tern::lease held = co_await b.store.borrow(b.id, on, in_chunks);
    } catch (const tern::io_error& e) { co_return e.what(); }
    co_return "";
}
tern::task<tern::lease> borrow(bench& b, tern::device& on) { return b.store.borrow(b.id, on, in_chunks); }
tern::task<> place(bench& b, tern::device& on, std::stop_token stop = {}, tern::test::progress* seen = nullptr) {
    return b.store.place(b.id, on, in_chunks, std::move(stop), seen);
}

} // namespace

TEST_CASE("residency/store: what was added is known") {
    bench b;
    CHECK(b.store.slices() == 1);
    CHECK(b.store.name(b.id) == "blk.0.ffn_up.weight");
    CHECK(b.store.size(b.id) == tern::bytes{slice_size});
    CHECK(b.store.where(b.id).empty());
    CHECK(b.store.home_of(b.id) == nullptr);
    CHECK_FALSE(b.store.try_borrow(b.id, b.cpu));
}

TEST_CASE("residency/store: a temporary copy goes away with its last lease") {
    tern::emulated_device gpu{{.capacity = 64_KiB}};
    bench b;
    {
        tern::lease first = b.home.run(borrow(b, gpu));
        CHECK(right(b, first));
        CHECK(b.store.where(b.id) == std::vector<tern::location>{gpu.memory().where()});
        const tern::lease second = b.store.try_borrow(b.id, gpu);
        CHECK(second.data() == first.data());
        first = {};
        CHECK(right(b, second));
        CHECK(gpu.memory().budget().used() == tern::bytes{slice_size});
    }
    CHECK(gpu.memory().budget().used() == 0_B);
    CHECK(b.store.where(b.id).empty());
    CHECK(b.file.bytes_read == slice_size);
    CHECK(b.home.run(use(b, gpu)));
    CHECK(b.file.bytes_read == 2 * slice_size);
    CHECK(b.store.counters().arrivals == 2);
    CHECK(b.store.counters().moved == tern::bytes{2 * slice_size});
    CHECK(b.store.counters().hits == 1);
}

TEST_CASE("residency/store: a placed copy stays, and a second pass moves nothing") {
    tern::emulated_device gpu{{.capacity = 64_KiB}};
    bench b;
    b.home.run(place(b, gpu));
    CHECK(b.store.home_of(b.id) == &gpu);
    for (int pass = 0; pass < 3; ++pass) CHECK(b.home.run(use(b, gpu)));
    b.home.run(place(b, gpu));
    CHECK(gpu.traffic().to_device == tern::bytes{slice_size});
    CHECK(b.file.bytes_read == slice_size);
    CHECK(gpu.memory().budget().used() == tern::bytes{slice_size});
    b.store.evict(b.id, gpu);
    CHECK(gpu.memory().budget().used() == 0_B);
    b.store.evict(b.id, gpu); // nothing there any more
    CHECK(b.home.run(use(b, gpu)));
    CHECK(gpu.memory().budget().used() == 0_B);
}

TEST_CASE("residency/store: an evicted copy stays until its last lease is released") {
    tern::emulated_device gpu{{.capacity = 64_KiB}};
    bench b;
    b.home.run(place(b, gpu));
    tern::lease held = b.store.try_borrow(b.id, gpu);
    REQUIRE(held);
    b.store.evict(b.id, gpu);
    CHECK(right(b, held));
    CHECK(gpu.memory().budget().used() == tern::bytes{slice_size});
    held = {};
    CHECK(gpu.memory().budget().used() == 0_B);
}

TEST_CASE("residency/store: waiters for one arrival share one copy") {
    tern::emulated_device gpu{{.capacity = 64_KiB, .latency = 1.0_ms}};
    bench b;
    std::vector<tern::task<bool>> all;
    for (int i = 0; i < 5; ++i) all.push_back(use(b, gpu));
    for (const bool sound : b.home.run(tern::when_all(std::move(all)))) CHECK(sound);
    CHECK(b.file.bytes_read == slice_size);
    CHECK(b.store.counters().arrivals == 1);
    CHECK(gpu.traffic().to_device == tern::bytes{slice_size});
    CHECK(gpu.memory().budget().peak() == tern::bytes{slice_size});
    CHECK(gpu.memory().budget().used() == 0_B);
}

TEST_CASE("residency/store: a failed arrival reaches every waiter and the next try succeeds") {
    tern::test::failing_device gpu{64_KiB};
    bench b;
    gpu.fails_at = 3;
    std::vector<tern::task<std::string>> all;
    for (int i = 0; i < 3; ++i) all.push_back(error_of(b, gpu));
    for (const std::string& text : b.home.run(tern::when_all(std::move(all)))) CHECK(text == "the link is broken");
    CHECK(gpu.copies <= 5); // one arrival, given up within its ring: nobody tried again
    CHECK(b.store.counters().arrivals == 0);
    CHECK(b.store.where(b.id).empty());
    CHECK(gpu.memory().budget().used() == 0_B);
    CHECK(b.staging.budget().used() == 0_B);
    gpu.fails_at = -1;
    CHECK(b.home.run(use(b, gpu)));
    CHECK(b.store.counters().arrivals == 1);
}

TEST_CASE("residency/store: a placement that fails leaves nothing behind") {
    tern::test::failing_device gpu{64_KiB};
    bench b;
    gpu.fails_at = 0;
    CHECK_THROWS_AS(b.home.run(place(b, gpu)), tern::io_error);
    CHECK(b.store.home_of(b.id) == nullptr);
    CHECK(b.store.where(b.id).empty());
    CHECK(gpu.memory().budget().used() == 0_B);
    b.file.fails_from = 20'000;
    CHECK_THROWS_AS(b.home.run(place(b, gpu)), tern::io_error);
    CHECK(gpu.memory().budget().used() == 0_B);
    b.file.fails_from = ~std::uint64_t{0};
    b.home.run(place(b, gpu));
    CHECK(b.store.where(b.id).size() == 1);
}

TEST_CASE("residency/store: a budget that is one byte short places nothing and tells the numbers") {
    tern::emulated_device gpu{{.capacity = {slice_size - 1}}};
    tern::emulated_device enough{{.capacity = {slice_size}, .index = 1}};
    bench b;
    try {
        b.home.run(place(b, gpu));
        FAIL("it is one byte short");
    } catch (const tern::budget_error& e) {
        CHECK(e.needed() == slice_size);
        CHECK(e.available() == slice_size - 1);
        CHECK(std::string(e.what()).find("blk.0.ffn_up.weight") != std::string::npos);
        CHECK(std::string(e.what()).find("vram:0") != std::string::npos);
    }
    CHECK(b.file.reads == 0);
    CHECK(b.store.where(b.id).empty());
    CHECK(b.store.home_of(b.id) == nullptr);
    b.home.run(place(b, enough));
    CHECK(b.store.home_of(b.id) == &enough);
}

TEST_CASE("residency/store: a stop during an arrival frees all within a chunk") {
    tern::emulated_device gpu{{.capacity = 64_KiB}};
    bench b;
    std::stop_source stop;
    tern::test::progress seen;
    seen.context = &stop;
    seen.then = [](tern::test::progress& p) { static_cast<std::stop_source*>(p.context)->request_stop(); };
    CHECK_THROWS_AS(b.home.run(place(b, gpu, stop.get_token(), &seen)), tern::stopped_error);
    // One chunk had arrived; the ring holds two, and one more may have been read by then.
    CHECK(b.file.bytes_read <= 3u * 8192);
    CHECK(seen.total == b.file.bytes_read);
    CHECK(b.store.where(b.id).empty());
    CHECK(gpu.memory().budget().used() == 0_B);
    CHECK(b.staging.budget().used() == 0_B);
    b.home.run(place(b, gpu));
    CHECK(b.store.where(b.id).size() == 1);
}

TEST_CASE("residency/store: one copy is leased on the CPU while another arrives in vram") {
    tern::emulated_device gpu{{.capacity = 64_KiB}};
    bench b;
    b.home.run(place(b, b.cpu));
    struct look {
        bench* b;
        tern::emulated_device* gpu;
        int lent = 0;
        int early = 0;
    } around{&b, &gpu};
    tern::test::progress seen;
    seen.context = &around;
    seen.then = [](tern::test::progress& p) {
        auto& l = *static_cast<look*>(p.context);
        const tern::lease here = l.b->store.try_borrow(l.b->id, l.b->cpu);
        l.lent += here && right(*l.b, here);
        l.early += static_cast<bool>(l.b->store.try_borrow(l.b->id, *l.gpu));
    };
    b.home.run(place(b, gpu, {}, &seen));
    CHECK(seen.calls == 5);
    CHECK(around.lent == 5);
    CHECK(around.early == 0); // not before it is whole
    const tern::lease on_cpu = b.store.try_borrow(b.id, b.cpu);
    const tern::lease on_gpu = b.store.try_borrow(b.id, gpu);
    CHECK(right(b, on_cpu));
    CHECK(right(b, on_gpu));
    CHECK(on_cpu.data() != on_gpu.data());
    CHECK(b.store.where(b.id).size() == 2);
    CHECK(b.store.home_of(b.id) == &gpu);
}

TEST_CASE("residency/store: a backing in memory is lent in place to host devices alone") {
    tern::emulated_device gpu{{.capacity = 64_KiB}};
    bench b;
    const tern::slice_id id = b.store.add("mapped", {.memory = b.file.data.data()}, {slice_size});
    b.store.assign(id, b.cpu);
    CHECK(b.store.home_of(id) == &b.cpu);
    const tern::lease held = b.store.try_borrow(id, b.cpu);
    CHECK(held.data() == b.file.data.data());
    CHECK(b.store.where(id) == std::vector<tern::location>{{tern::tier_of<tern::mapped>, 0, 0}});
    CHECK_FALSE(b.store.try_borrow(id, gpu));
    CHECK(b.ram.budget().used() == 0_B);
    CHECK(b.store.counters().hits == 1);
}

TEST_CASE("residency/store: copies on several devices are told apart") {
    tern::emulated_device first{{.capacity = 64_KiB, .index = 0}};
    tern::emulated_device second{{.capacity = 64_KiB, .index = 1}};
    bench b;
    b.home.run(place(b, first));
    CHECK_FALSE(b.store.try_borrow(b.id, second));
    b.home.run(place(b, second));
    b.store.evict(b.id, first);
    CHECK_FALSE(b.store.try_borrow(b.id, first));
    CHECK(b.store.try_borrow(b.id, second));
    CHECK(first.memory().budget().used() == 0_B);
    // The free entry is used again, for another place.
    b.home.run(place(b, b.cpu));
    CHECK(right(b, b.store.try_borrow(b.id, b.cpu)));
    CHECK(right(b, b.store.try_borrow(b.id, second)));
}

// What threads may do: coroutines may start to borrow on any thread and go on in the store's one home loop; leases are
// taken at once and released, and copies evicted, from any thread.
namespace {

tern::task<bool> use_from(tern::thread_executor& pool, bench& b, tern::device& on) {
    bool sound = true;
    for (int i = 0; i < 20; ++i) {
        co_await pool.schedule();
        const tern::lease held = co_await b.store.borrow(b.id, on, in_chunks);
        sound = sound && right(b, held);
    }
    co_return sound;
}

} // namespace

TEST_CASE("residency/store: two threads borrow at once") {
    tern::thread_executor pool{2};
    tern::emulated_device gpu{{.capacity = 64_KiB}};
    bench b;
    std::vector<tern::task<bool>> all;
    for (int i = 0; i < 4; ++i) all.push_back(use_from(pool, b, gpu));
    for (const bool sound : b.home.run(tern::when_all(std::move(all)))) CHECK(sound);
    CHECK(gpu.memory().budget().used() == 0_B);
    CHECK(gpu.memory().budget().peak() == tern::bytes{slice_size}); // never two copies in one place
    CHECK(b.file.bytes_read == b.store.counters().arrivals * slice_size);
    CHECK(b.store.counters().arrivals >= 1);
}

TEST_CASE("residency/store: leases are taken and released while copies come and go") {
    tern::emulated_device gpu{{.capacity = 64_KiB}};
    bench b;
    std::atomic<bool> ended{false};
    std::atomic<bool> sound{true};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t)
        threads.emplace_back([&] {
            while (!ended) {
                if (const tern::lease held = b.store.try_borrow(b.id, gpu)) sound = sound && right(b, held);
                static_cast<void>(b.store.where(b.id));
                static_cast<void>(b.store.counters());
                std::this_thread::yield();
            }
        });
    for (int i = 0; i < 50; ++i) {
        b.home.run(place(b, gpu));
        b.store.evict(b.id, gpu);
    }
    ended = true;
    for (auto& thread : threads) thread.join();
    CHECK(sound);
    CHECK(gpu.memory().budget().used() == 0_B);
    CHECK(b.store.counters().arrivals >= 1);
}

TEST_CASE("residency/store: copies go back to their memories when the store ends") {
    tern::run_loop home;
    tern::heap_arena ram;
    tern::cpu_device cpu(ram, 1);
    tern::emulated_device gpu{{.capacity = 128_KiB}};
    counting_source file(2 * slice_size);
    {
        tern::residency_store store(home, ram);
        const tern::slice_id placed = store.add("placed", {.file = &file}, {slice_size});
        const tern::slice_id cached = store.add("cached", {.file = &file, .offset = slice_size}, {slice_size});
        home.run(store.place(placed, cpu, in_chunks));
        home.run(store.place(placed, gpu, in_chunks));
        store.assign(cached, gpu, tern::retention::cache);
        static_cast<void>(home.run(store.borrow(cached, gpu, in_chunks)));
        CHECK(ram.budget().used() >= tern::bytes{slice_size});
        CHECK(gpu.memory().budget().used() >= tern::bytes{2 * slice_size});
    }
    CHECK(ram.budget().used() == tern::bytes{});
    CHECK(gpu.memory().budget().used() == tern::bytes{});
}

TEST_CASE("residency/store: the slot table shows the copies of one memory, and stays while its epoch does") {
    tern::emulated_device gpu{{.capacity = 256_KiB}};
    bench b;
    tern::slice_id first = 0;
    for (std::size_t e = 0; e < 4; ++e) {
        const tern::slice_id id = b.store.add("experts", {.memory = b.file.data.data() + e * 1000}, {1000});
        if (e == 0) first = id;
    }
    const std::byte* slots[4];
    const auto epoch = [&] { return b.store.slots(first, gpu, slots); };
    const auto put = [&](std::size_t e) {
        b.home.run(b.store.place(first + static_cast<tern::slice_id>(e), gpu, in_chunks));
    };
    const std::uint64_t empty = epoch();
    for (const std::byte* s : slots) CHECK(s == nullptr); // the mapping is not in this memory
    put(1);
    put(3);
    const std::uint64_t two = epoch();
    CHECK(two != empty);
    CHECK(slots[0] == nullptr);
    CHECK(slots[2] == nullptr);
    CHECK(std::memcmp(slots[1], b.file.data.data() + 1000, 1000) == 0);
    CHECK(std::memcmp(slots[3], b.file.data.data() + 3000, 1000) == 0);
    const std::byte* const before[] = {slots[1], slots[3]};
    for (int i = 0; i < 5; ++i) {
        const tern::lease held = b.store.try_borrow(first + 1, gpu); // uses change nothing
        CHECK(held.data() == before[0]);
        b.home.run(place(b, b.cpu)); // nor does what happens elsewhere
        b.store.evict(b.id, b.cpu);
        CHECK(epoch() == two);
    }
    tern::lease held = b.store.try_borrow(first + 1, gpu);
    b.store.evict(first + 1, gpu);
    CHECK(epoch() == two); // it is still there
    CHECK(slots[1] == before[0]);
    held = {};
    CHECK(epoch() != two);
    CHECK(slots[1] == nullptr);
    CHECK(slots[3] == before[1]);
    put(0);
    CHECK(epoch() > two);
    CHECK(slots[0] != nullptr);
    CHECK(slots[3] == before[1]);                       // stable addresses
    CHECK_THROWS(b.store.slots(first + 1, gpu, slots)); // beyond the last slice
}

namespace {

/// Eight blobs of one file; uses each in turn and gives the largest number that were there at once.
std::size_t pass_over(tern::residency_store& store, tern::run_loop& home, tern::slice_id first, tern::device& on) {
    std::size_t most = 0;
    for (tern::slice_id i = 0; i < 8; ++i) {
        const tern::lease held = home.run(store.borrow(first + i, on, in_chunks));
        std::size_t there = 0;
        for (tern::slice_id j = 0; j < 8; ++j) there += !store.where(first + j).empty();
        most = there > most ? there : most;
    }
    return most;
}

} // namespace

TEST_CASE("residency/store: with room for all a second pass reads nothing; dropped after use little is there at once") {
    for (const tern::retention stay : {tern::retention::cache, tern::retention::drop, tern::retention::keep}) {
        tern::emulated_device gpu{{.capacity = 64_KiB}};
        bench b;
        for (tern::slice_id i = 0; i < 8; ++i) {
            const tern::slice_id id = b.store.add("blob", {.file = &b.file, .offset = i * 5000u}, {5000});
            b.store.assign(id, gpu, stay);
        }
        const std::size_t most = pass_over(b.store, b.home, b.id + 1, gpu);
        CHECK(b.file.bytes_read == 40'000);
        CHECK(most == (stay == tern::retention::drop ? 1 : 8)); // an eighth, or all
        pass_over(b.store, b.home, b.id + 1, gpu);
        CHECK(b.file.bytes_read == (stay == tern::retention::drop ? 80'000 : 40'000));
        CHECK(b.store.counters(gpu).hits == (stay == tern::retention::drop ? 0 : 8));
        CHECK(b.store.counters(gpu).misses == (stay == tern::retention::drop ? 16 : 8));
        CHECK(b.store.cached(gpu) == tern::bytes{stay == tern::retention::cache ? 40'000u : 0u});
    }
}

TEST_CASE("residency/store: a cache smaller than what goes round lets copies leave, and each lease is right") {
    tern::emulated_device gpu{{.capacity = 64_KiB}};
    bench b;
    for (tern::slice_id i = 0; i < 8; ++i)
        b.store.assign(b.store.add("blob", {.file = &b.file, .offset = i * 5000u}, {5000}), gpu,
                       tern::retention::cache);
    b.store.bound(gpu, {12'000}); // two of eight
    for (int pass = 0; pass < 3; ++pass)
        for (tern::slice_id i = 0; i < 8; ++i) {
            const tern::lease held = b.home.run(b.store.borrow(b.id + 1 + i, gpu, in_chunks));
            CHECK(std::memcmp(held.data(), b.file.data.data() + i * 5000u, 5000) == 0);
            CHECK(b.store.cached(gpu) <= 12'000_B);
        }
    CHECK(b.store.counters(gpu).evictions == 24 - 2);
    const tern::lease one = b.home.run(b.store.borrow(b.id + 1, gpu, in_chunks));
    const tern::lease two = b.home.run(b.store.borrow(b.id + 2, gpu, in_chunks));
    try { // leases pin
        static_cast<void>(b.home.run(b.store.borrow(b.id + 3, gpu, in_chunks)));
        FAIL("both are leased");
    } catch (const tern::budget_error& e) {
        CHECK(e.needed() == 5000u);
        CHECK(e.available() == 2000u);
        CHECK(std::string(e.what()).find("blob") != std::string::npos);
    }
    b.store.bound(gpu, {15'000});
    CHECK(b.home.run(b.store.borrow(b.id + 3, gpu, in_chunks)));
}
