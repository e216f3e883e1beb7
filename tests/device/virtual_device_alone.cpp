// Counts every allocation of the program, to show that copies and operators in virtual time make none in the steady
// state.
#include <doctest/doctest.h>

#include <cstring>

#include "support/allocations.hpp"
#include "support/counting_source.hpp"
#include <tern/async/run_loop.hpp>
#include <tern/async/virtual_clock.hpp>
#include <tern/async/when_all.hpp>
#include <tern/device/virtual_device.hpp>

using namespace tern::literals;
using tern::test::allocations;

namespace {

tern::task<> copy(tern::virtual_device& gpu, tern::run_loop& home, std::byte* to, const std::byte* from) {
    co_await tern::copy(gpu, home, tern::direction::to_device, to, from, 100_B);
}
tern::task<> compute(tern::virtual_device& gpu, tern::run_loop& home, int& runs) {
    co_await tern::launch(gpu, home, 1, 1, [&runs](std::size_t, std::size_t) { ++runs; });
}

} // namespace

TEST_CASE("device/virtual_device_alone: operator new is counted") { tern::test::check_allocations_count(); }

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
