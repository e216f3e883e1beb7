#include <tern/device/host_memory.hpp>

#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include "support/counting_source.hpp"
#include <tern/async/run_loop.hpp>
#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/memory/pinned_arena.hpp>

using namespace tern::literals;

namespace {

tern::task<std::vector<int>> squares(tern::device& on, tern::run_loop& home, std::size_t n) {
    std::vector<int> out(n);
    co_await tern::launch(on, home, n, 1, [&out](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) out[i] = static_cast<int>(i * i);
    });
    co_return out;
}
tern::task<> copy_in(tern::device& on, tern::run_loop& home, std::byte* to, const std::vector<std::byte>& from) {
    co_await tern::copy(on, home, tern::direction::to_device, to, from.data(), {from.size()});
}

} // namespace

TEST_CASE("device/host_memory: it computes as its device does, in a memory of its own that hosts read") {
    tern::run_loop home;
    tern::heap_arena ram;
    tern::cpu_device cpu{ram, 2};
    tern::pinned_arena locked{{.limit = 64_KiB, .parent = &ram.budget(), .enabled = false}};
    tern::host_memory pinned(cpu, locked);
    CHECK(pinned.name() == "pinned");
    CHECK(pinned.workers() == cpu.workers());
    CHECK(pinned.kernels() == cpu.kernels());
    CHECK(&pinned.memory() == &locked);
    CHECK(pinned.memory().where() != cpu.memory().where());
    CHECK(home.run(squares(pinned, home, 100)) == home.run(squares(cpu, home, 100)));

    // Either host reads what lies with the other or in a mapping, an accelerator nothing of it.
    tern::emulated_device gpu{{.capacity = 64_KiB}};
    for (const tern::location& where :
         {locked.where(), ram.where(), tern::location{tern::tier_of<tern::mapped>, 0, 0}}) {
        CHECK(pinned.reads(where));
        CHECK(cpu.reads(where));
        CHECK_FALSE(gpu.reads(where));
    }
    CHECK_FALSE(pinned.reads(gpu.memory().where()));

    const auto data = tern::test::pattern_bytes(1000);
    const tern::allocation there = pinned.memory().allocate(1000_B, "there");
    home.run(copy_in(pinned, home, there.data(), data));
    CHECK(std::memcmp(there.data(), data.data(), data.size()) == 0);
    CHECK(ram.budget().used() >= 1000_B); // the parent counts it too
    CHECK_THROWS_AS(pinned.memory().allocate(65_KiB, "too much"), tern::budget_error);
}
