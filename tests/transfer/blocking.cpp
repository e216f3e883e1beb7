#include <doctest/doctest.h>

#include <stop_token>

#include "support/failing_device.hpp"
#include "support/transfers.hpp"
#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/transfer/blocking.hpp>

using namespace tern::literals;
using tern::test::counting_source;
using tern::test::moved;

static_assert(tern::transfer_strategy<tern::blocking>);

TEST_CASE("transfer/blocking: exact bytes, in one copy, to host and to device") {
    CHECK(tern::blocking::name == "blocking");
    tern::run_loop home;
    tern::heap_arena ram;
    tern::cpu_device cpu{ram, 1};
    for (const std::size_t n : {0u, 1u, 4096u, 100'001u}) {
        for (const std::size_t longest : {std::size_t{4097}, std::size_t{1} << 30}) {
            counting_source source(n, longest);
            tern::heap_arena staging{{n}};
            tern::test::failing_device gpu{1_MiB};
            tern::test::progress seen;
            CHECK(moved(&tern::blocking::move, source, gpu, staging, home, &seen) == source.data);
            CHECK(gpu.copies <= 1);
            CHECK(seen.total == n);
            CHECK(staging.budget().peak() == tern::bytes{n});
            CHECK(staging.budget().used() == 0_B);
            CHECK(moved(&tern::blocking::move, source, cpu, staging, home) == source.data);
        }
    }
}

TEST_CASE("transfer/blocking: errors reach the awaiter and nothing stays allocated") {
    tern::run_loop home;
    tern::heap_arena staging;
    tern::test::failing_device gpu{1_MiB};
    gpu.fails_at = 0;
    counting_source source(10'000);
    CHECK_THROWS_AS(static_cast<void>(moved(&tern::blocking::move, source, gpu, staging, home)), tern::io_error);
    CHECK(moved(&tern::blocking::move, source, gpu, staging, home) == source.data);
    source.fails_from = 5000;
    CHECK_THROWS_AS(static_cast<void>(moved(&tern::blocking::move, source, gpu, staging, home)), tern::io_error);
    std::stop_source stop;
    stop.request_stop();
    source.reads = 0;
    CHECK_THROWS_AS(
        static_cast<void>(moved(&tern::blocking::move, source, gpu, staging, home, nullptr, stop.get_token())),
        tern::stopped_error);
    CHECK(source.reads == 0);
    CHECK(gpu.copies == 2);
    tern::heap_arena little{9'999_B};
    CHECK_THROWS_AS(static_cast<void>(moved(&tern::blocking::move, source, gpu, little, home)), tern::budget_error);
    CHECK(gpu.memory().budget().used() == 0_B);
    CHECK(staging.budget().used() == 0_B);
}
