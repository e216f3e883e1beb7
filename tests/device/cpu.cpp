#include <doctest/doctest.h>

#include <atomic>
#include <vector>

#include "support/counting_source.hpp"
#include <tern/async/run_loop.hpp>
#include <tern/device/cpu.hpp>
#include <tern/memory/heap_arena.hpp>

using namespace tern::literals;

namespace {

tern::task<bool> squares(tern::cpu_device& cpu, tern::run_loop& home) {
    std::vector<std::atomic<int>> seen(1000);
    std::atomic<bool> grain_kept{true};
    co_await tern::launch(cpu, home, 1000, 16, [&](std::size_t begin, std::size_t end) {
        if (cpu.workers() > 1 && end - begin > 16) grain_kept = false;
        for (std::size_t i = begin; i < end; ++i) ++seen[i];
    });
    bool once = grain_kept;
    for (const auto& n : seen) once = once && n == 1;
    co_return once;
}

tern::task<std::vector<std::byte>> there_and_back(tern::cpu_device& cpu, tern::run_loop& home, std::size_t n) {
    const auto data = tern::test::pattern_bytes(n);
    const tern::allocation to = cpu.memory().allocate({n}, "to");
    std::vector<std::byte> back(n);
    co_await tern::copy(cpu, home, tern::direction::to_device, to.data(), data.data(), {n});
    co_await tern::copy(cpu, home, tern::direction::to_host, back.data(), to.data(), {n});
    co_return back;
}

} // namespace

TEST_CASE("device/cpu: an operator is split over its workers") {
    tern::run_loop home;
    tern::heap_arena ram;
    for (const std::size_t workers : {1u, 3u}) {
        tern::cpu_device cpu{ram, workers};
        CHECK(cpu.workers() == workers);
        CHECK(home.run(squares(cpu, home)));
    }
    CHECK(tern::cpu_device{ram}.workers() == tern::usable_workers());
}

TEST_CASE("device/cpu: it computes in the host's memory") {
    tern::heap_arena ram;
    tern::cpu_device cpu{ram, 1};
    CHECK(cpu.name() == "cpu");
    CHECK(cpu.kernels() == tern::kernel_kind::host);
    CHECK(&cpu.memory() == &ram);
    CHECK(cpu.reads({tern::tier_of<tern::mapped>, 0, 0}));
    CHECK_FALSE(cpu.reads({tern::tier_of<tern::vram>, 0, 0}));
}

TEST_CASE("device/cpu: a copy is exact, an empty one too") {
    tern::run_loop home;
    tern::heap_arena ram;
    tern::cpu_device cpu{ram, 1};
    for (const std::size_t n : {0u, 1u, 4097u})
        CHECK(home.run(there_and_back(cpu, home, n)) == tern::test::pattern_bytes(n));
}
