#include <doctest/doctest.h>

#include <stop_token>
#include <vector>

#include "support/failing_device.hpp"
#include "support/transfers.hpp"
#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/memory/region_arena.hpp>
#include <tern/transfer/staged.hpp>

using namespace tern::literals;
using tern::test::counting_source;
using tern::test::moved;
using tern::test::progress;

static_assert(tern::transfer_strategy<tern::staged<4_MiB, 2>>);

namespace {

constexpr tern::bytes chunk = 8_KiB;

// Sizes around the borders of a chunk, to host memory and to a device, whole and short reads.
template <std::size_t Depth> void exact_bytes() {
    tern::run_loop home;
    tern::heap_arena ram;
    tern::cpu_device cpu{ram, 1};
    tern::emulated_device gpu{{.capacity = 1_MiB}};
    constexpr std::size_t c = chunk.count;
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, c - 1, c, c + 1, 2 * c, 13 * c + 17}) {
        for (const std::size_t longest : {std::size_t{4097}, std::size_t{1} << 30}) {
            counting_source source(n, longest);
            tern::region_arena staging{{}, tern::bytes{Depth * c}};
            progress seen;
            const tern::move_function move = &tern::staged<chunk, Depth>::move;
            const bool to_device = moved(move, source, gpu, staging, home, &seen) == source.data;
            CHECK(to_device);
            CHECK(seen.total == n);
            CHECK(seen.calls == static_cast<int>((n + c - 1) / c));
            CHECK(source.bytes_read == n);
            CHECK(staging.budget().used() == 0_B);
            const bool to_host = moved(move, source, cpu, staging, home) == source.data;
            CHECK(to_host);
        }
    }
    CHECK(gpu.traffic().to_host == 0_B);
    CHECK(gpu.memory().budget().used() == 0_B);
}

tern::task<void> reading_from_memory(tern::transfer_request request) {
    co_await tern::staged<chunk, 2>::move(std::move(request));
}

} // namespace

TEST_CASE("transfer/staged: exact bytes at every size, depth and length of reads") {
    exact_bytes<1>();
    exact_bytes<2>();
    exact_bytes<3>();
}

TEST_CASE("transfer/staged: a slice in the middle of a file, and one in memory") {
    tern::run_loop home;
    tern::heap_arena ram;
    tern::emulated_device gpu{{.capacity = 1_MiB}};
    counting_source source(50'000);
    const auto tail = moved(&tern::staged<chunk, 2>::move, source, gpu, ram, home, nullptr, {}, 1234);
    CHECK(tail == std::vector<std::byte>(source.data.begin() + 1234, source.data.end()));

    const tern::allocation there = gpu.memory().allocate(20'000_B, "x");
    home.run(reading_from_memory({.from = {.memory = source.data.data() + 77},
                                  .to = there.data(),
                                  .size = 20'000_B,
                                  .on = &gpu,
                                  .staging = &ram,
                                  .home = &home}));
    CHECK(std::memcmp(there.data(), source.data.data() + 77, 20'000) == 0);
}

TEST_CASE("transfer/staged: staging is depth times chunk at most, and less for a small slice") {
    tern::run_loop home;
    tern::heap_arena staging;
    tern::emulated_device gpu{{.capacity = 1_MiB}};
    counting_source small(100);
    CHECK(moved(&tern::staged<chunk, 3>::move, small, gpu, staging, home) == small.data);
    CHECK(staging.budget().peak() == 100_B);
    counting_source large(500'000);
    CHECK(moved(&tern::staged<chunk, 3>::move, large, gpu, staging, home) == large.data);
    CHECK(staging.budget().peak() == 24_KiB);
    CHECK(staging.budget().used() == 0_B);
    // To host memory no staging is needed.
    tern::heap_arena ram;
    tern::cpu_device cpu{ram, 1};
    tern::heap_arena none{0_B};
    CHECK(moved(&tern::staged<chunk, 3>::move, large, cpu, none, home) == large.data);
    // Too little of it is an error with numbers, before anything is read.
    tern::heap_arena little{16_KiB};
    large.reads = 0;
    try {
        static_cast<void>(moved(&tern::staged<chunk, 3>::move, large, gpu, little, home));
        FAIL("it needs 24 KiB of staging");
    } catch (const tern::budget_error& e) {
        CHECK(e.needed() == 24u * 1024);
        CHECK(e.available() == 16u * 1024);
    }
    CHECK(large.reads == 0);
}

TEST_CASE("transfer/staged: progress is monotonic, a chunk at a time, and ends at the total") {
    tern::run_loop home;
    tern::heap_arena staging;
    tern::emulated_device gpu{{.capacity = 1_MiB}};
    counting_source source(100'000);
    std::vector<std::uint64_t> steps;
    progress seen;
    seen.context = &steps;
    seen.then = [](progress& p) { static_cast<std::vector<std::uint64_t>*>(p.context)->push_back(p.total); };
    CHECK(moved(&tern::staged<chunk, 2>::move, source, gpu, staging, home, &seen) == source.data);
    REQUIRE(steps.size() == 13);
    for (std::size_t i = 0; i + 1 < steps.size(); ++i) CHECK(steps[i] == (i + 1) * chunk.count);
    CHECK(steps.back() == 100'000);
}

TEST_CASE("transfer/staged: a read that fails in the middle reaches the awaiter and frees all") {
    tern::run_loop home;
    tern::heap_arena staging;
    tern::heap_arena ram;
    tern::cpu_device cpu{ram, 1};
    tern::emulated_device gpu{{.capacity = 1_MiB}};
    for (tern::device* on : {static_cast<tern::device*>(&gpu), static_cast<tern::device*>(&cpu)}) {
        counting_source source(100'000);
        source.fails_from = 50'000;
        try {
            static_cast<void>(moved(&tern::staged<chunk, 2>::move, source, *on, staging, home));
            FAIL("the disk was broken");
        } catch (const tern::io_error& e) { CHECK(e.path() == "broken.bin"); }
        CHECK(source.bytes_read == 6 * chunk.count);
        CHECK(on->memory().budget().used() == 0_B);
        CHECK(staging.budget().used() == 0_B);
    }
}

TEST_CASE("transfer/staged: a file that ends early is an error") {
    tern::run_loop home;
    tern::heap_arena staging;
    tern::emulated_device gpu{{.capacity = 1_MiB}};
    counting_source source(10'000);
    const tern::allocation there = gpu.memory().allocate(20'000_B, "x");
    CHECK_THROWS_AS(home.run(tern::staged<chunk, 2>::move({.from = {.file = &source},
                                                           .to = there.data(),
                                                           .size = 20'000_B,
                                                           .on = &gpu,
                                                           .staging = &staging,
                                                           .home = &home})),
                    tern::io_error);
    CHECK(staging.budget().used() == 0_B);
}

TEST_CASE("transfer/staged: a copy that fails reaches the awaiter, and little is read after it") {
    tern::run_loop home;
    tern::heap_arena staging;
    for (const int broken : {0, 3, 12}) {
        tern::test::failing_device gpu{1_MiB};
        gpu.fails_at = broken;
        counting_source source(100'000);
        CHECK_THROWS_AS(static_cast<void>(moved(&tern::staged<chunk, 2>::move, source, gpu, staging, home)),
                        tern::io_error);
        CHECK(gpu.memory().budget().used() == 0_B);
        CHECK(staging.budget().used() == 0_B);
        CHECK(gpu.copies <= broken + 2);
    }
}

TEST_CASE("transfer/staged: a stop takes effect within one chunk") {
    tern::run_loop home;
    tern::heap_arena staging;
    tern::heap_arena ram;
    tern::cpu_device cpu{ram, 1};
    tern::emulated_device gpu{{.capacity = 1_MiB}};
    for (tern::device* on : {static_cast<tern::device*>(&gpu), static_cast<tern::device*>(&cpu)}) {
        // Stopped while chunk 4 is read: that one is finished, no other begins.
        std::stop_source stop;
        counting_source source(200'000);
        source.context = &stop;
        source.on_read = [](counting_source& s, std::uint64_t offset) {
            if (offset == 4 * chunk.count) static_cast<std::stop_source*>(s.context)->request_stop();
        };
        progress seen;
        CHECK_THROWS_AS(static_cast<void>(
                            moved(&tern::staged<chunk, 2>::move, source, *on, staging, home, &seen, stop.get_token())),
                        tern::stopped_error);
        CHECK(source.bytes_read == 5 * chunk.count);
        CHECK(seen.total == 5 * chunk.count);
        CHECK(on->memory().budget().used() == 0_B);
        CHECK(staging.budget().used() == 0_B);
    }
    std::stop_source stop;
    stop.request_stop();
    counting_source source(200'000);
    CHECK_THROWS_AS(
        static_cast<void>(moved(&tern::staged<chunk, 2>::move, source, gpu, staging, home, nullptr, stop.get_token())),
        tern::stopped_error);
    CHECK(source.reads == 0);
}
