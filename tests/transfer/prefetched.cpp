#include <tern/memory/heap_arena.hpp>
#include <tern/transfer/prefetched.hpp>

#include <vector>

#include <doctest/doctest.h>

#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>
#include <tern/transfer/blocking.hpp>
#include <tern/transfer/in_place.hpp>

#include "support/transfers.hpp"

using namespace tern::literals;
using tern::test::counting_source;
using tern::test::moved;

static_assert(tern::transfer_strategy<tern::prefetched<1>> &&
              tern::transfer_strategy<tern::prefetched<3, tern::blocking>>);
static_assert(tern::ahead_of<tern::prefetched<7>>() == 7);
static_assert(tern::ahead_of<tern::prefetched<2, tern::blocking>>() == 2);
static_assert(tern::ahead_of<tern::prefetched<2, tern::prefetched<5>>>() == 2); // the outer one says
static_assert(tern::ahead_of<tern::blocking>() == 0 && tern::ahead_of<tern::in_place>() == 0);
static_assert(tern::arrives_as<tern::prefetched<3>>("q8_0") == "q8_0");
static_assert(tern::arrival_size<tern::prefetched<3>>("q8_0", 34_B) == 34_B);

TEST_CASE("transfer/prefetched: it moves exactly as its base does") {
    CHECK(tern::prefetched<4>::name == "prefetched");
    tern::run_loop home;
    tern::heap_arena ram;
    tern::cpu_device cpu{ram, 1};
    tern::emulated_device gpu{{.capacity = 16_MiB}};
    using base = tern::staged<8_KiB, 3>;
    using ahead = tern::prefetched<9, base>;
    for (const std::size_t n : {0u, 1u, 8191u, 8192u, 8193u, 100'000u}) {
        counting_source source(n);
        tern::test::progress plain, seen;
        tern::heap_arena first, second;
        CHECK(moved(&base::move, source, gpu, first, home, &plain) == source.data);
        CHECK(moved(&ahead::move, source, gpu, second, home, &seen) == source.data);
        CHECK(seen.calls == plain.calls);
        CHECK(second.budget().peak() == first.budget().peak());
        CHECK(moved(&ahead::move, source, cpu, second, home) == source.data);
    }
    counting_source large(3'000'001);
    tern::heap_arena staging;
    CHECK(moved(&tern::prefetched<16>::move, large, gpu, staging, home) == large.data);
    CHECK(staging.budget().peak() <= 8_MiB);
}
