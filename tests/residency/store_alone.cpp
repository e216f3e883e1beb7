// Counts every allocation of the program, to show that leases, launches and copies make none in the steady state; and
// makes them fail, to show that an arrival which fails so leaves the store clean.
#include <doctest/doctest.h>

#include <cstring>

#include "support/allocations.hpp"
#include "support/counting_source.hpp"
#include <tern/async/run_loop.hpp>
#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/memory/region_arena.hpp>
#include <tern/residency/store.hpp>
#include <tern/transfer/staged.hpp>

using namespace tern::literals;
using tern::test::allocations_left;

namespace {

constexpr tern::move_function in_chunks = &tern::staged<1_KiB, 2>::move;

tern::task<> use(tern::residency_store& store, tern::slice_id id, tern::device& on, tern::run_loop& home,
                 std::byte* out) {
    const tern::lease held = co_await store.borrow(id, on, in_chunks);
    co_await tern::launch(on, home, 8, 1, [](std::size_t, std::size_t) {});
    if (!on.reads({tern::tier_of<tern::pageable>, 0, 0}))
        co_await tern::copy(on, home, tern::direction::to_host, out, held.data(), 64_B);
}

template <class F> long steady_allocations(F f) {
    return tern::test::fewest_allocations([&] {
        for (int i = 0; i < 20; ++i) f();
    });
}

} // namespace

TEST_CASE("residency/store_alone: operator new is counted") { tern::test::check_allocations_count(); }

TEST_CASE("residency/store_alone: leases, launches and copies in the steady state allocate nothing" *
          doctest::skip(tern::frame_arena::pass_through)) {
    tern::run_loop home;
    tern::heap_arena ram;
    tern::region_arena staging{{}, 16_KiB};
    tern::cpu_device cpu{ram, 2};
    tern::emulated_device gpu{{.capacity = 64_KiB}};
    tern::test::counting_source file(10'000);
    tern::residency_store store{home, staging};
    const tern::slice_id placed = store.add("placed", {.file = &file}, 10'000_B);
    const tern::slice_id streamed = store.add("streamed", {.file = &file}, 10'000_B);
    home.run(store.place(placed, gpu, in_chunks));
    home.run(store.place(placed, cpu, in_chunks));
    std::byte out[64];
    CHECK(steady_allocations([&] { static_cast<void>(store.try_borrow(placed, gpu)); }) == 0);
    CHECK(steady_allocations([&] { home.run(use(store, placed, gpu, home, out)); }) == 0);
    CHECK(steady_allocations([&] { home.run(use(store, placed, cpu, home, out)); }) == 0);
    // Brought over the link anew for each use.
    CHECK(steady_allocations([&] { home.run(use(store, streamed, gpu, home, out)); }) == 0);
    CHECK(std::memcmp(out, file.data.data(), 64) == 0);
}

TEST_CASE("residency/store_alone: an arrival that fails for want of memory at any point leaves the store clean") {
    tern::run_loop home;
    tern::region_arena staging{{}, 16_KiB};
    tern::emulated_device gpu{{.capacity = 64_KiB}};
    tern::test::counting_source file(10'000);
    std::byte out[64]{};
    // Before the first failure the coroutines above the arrival are made; later ones are inside it.
    int failures = 0;
    bool succeeded = false;
    for (long n = 0; n < 200 && !succeeded; ++n) {
        tern::residency_store store{home, staging};
        const tern::slice_id id = store.add("w", {.file = &file}, 10'000_B);
        try {
            allocations_left = n;
            home.run(use(store, id, gpu, home, out));
            allocations_left = -1;
            succeeded = true;
        } catch (const std::bad_alloc&) {
            allocations_left = -1;
            ++failures;
        }
        CHECK(gpu.memory().budget().used() == 0_B);
        CHECK(staging.budget().used() == 0_B);
        home.run(use(store, id, gpu, home, out)); // not stuck in an arrival that never ends
        CHECK(store.counters().arrivals == (succeeded ? 2 : 1));
    }
    CHECK(succeeded);
    CHECK(failures >= 1);
    CHECK(std::memcmp(out, file.data.data(), 64) == 0);
}
