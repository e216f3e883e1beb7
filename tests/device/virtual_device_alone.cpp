// Counts every allocation of the program, to show that copies and operators in virtual time make none in the steady
// state.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "support/counting_source.hpp"
#include <tern/async/run_loop.hpp>
#include <tern/async/virtual_clock.hpp>
#include <tern/async/when_all.hpp>
#include <tern/device/virtual_device.hpp>

namespace {
std::atomic<long> allocations{0};
} // namespace

// Not inlined, or the compiler sees malloc's pointer given to delete.
[[gnu::noinline]] void* operator new(std::size_t size) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    if (void* p = std::malloc(size ? size : 1)) return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

using namespace tern::literals;

namespace {

tern::task<> copy(tern::virtual_device& gpu, tern::run_loop& home, std::byte* to, const std::byte* from) {
    co_await tern::copy(gpu, home, tern::direction::to_device, to, from, 100_B);
}
tern::task<> compute(tern::virtual_device& gpu, tern::run_loop& home, int& runs) {
    co_await tern::launch(gpu, home, 1, 1, [&runs](std::size_t, std::size_t) { ++runs; });
}

} // namespace

TEST_CASE("device/virtual_device_alone: calls in the steady state allocate nothing" *
          doctest::skip(tern::frame_arena::pass_through)) {
    tern::virtual_clock time;
    tern::run_loop home{time};
    tern::virtual_device gpu{{.capacity = 1_KiB, .bandwidth = {1e5}, .launch = 2.0_ms}, time};
    const auto data = tern::test::pattern_bytes(200);
    const tern::allocation there = gpu.memory().allocate(200_B, "x");
    int runs = 0;
    const auto some = [&] {
        for (int i = 0; i < 50; ++i)
            home.run(tern::when_all(copy(gpu, home, there.data(), data.data()), compute(gpu, home, runs),
                                    copy(gpu, home, there.data() + 100, data.data() + 100)));
    };
    const long at_first = allocations.load();
    some();
    const long before = allocations.load();
    CHECK(before > at_first); // frames are made at first
    some();
    CHECK(allocations.load() == before);
    CHECK(runs == 100);
    CHECK(std::memcmp(there.data(), data.data(), 200) == 0);
    CHECK(time.now().count == doctest::Approx(0.2));
}
