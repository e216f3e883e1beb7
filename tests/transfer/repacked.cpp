#include <tern/transfer/repacked.hpp>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <stop_token>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/async/run_loop.hpp>
#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>
#include <tern/format/formats.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/memory/pread_reader.hpp>
#include <tern/transfer/blocking.hpp>
#include <tern/transfer/prefetched.hpp>

#include "support/transfers.hpp"

using namespace tern::literals;
using tern::test::counting_source;

static_assert(tern::transfer_strategy<tern::repacked<tern::f32, tern::q8_0>>);
static_assert(tern::ahead_of<tern::repacked<tern::f32, tern::q8_0>>() == 0);
static_assert(tern::ahead_of<tern::repacked<tern::f32, tern::q8_0, tern::prefetched<5>>>() == 5);
static_assert(tern::arrives_as<tern::repacked<tern::bf16, tern::q8_0>>("bf16") == "q8_0");
static_assert(tern::arrives_as<tern::repacked<tern::bf16, tern::q8_0>>("f32") == "f32");
static_assert(tern::arrival_size<tern::repacked<tern::bf16, tern::q8_0>>("bf16", 128_B) == 68_B);
static_assert(tern::arrival_size<tern::repacked<tern::bf16, tern::q8_0>>("q4_k", 144_B) == 144_B);

namespace {

/// `n` numbers in `F`, encoded.
template <tern::format F> std::vector<std::byte> encoded(std::size_t n) {
    std::vector<std::byte> raw(n / F::block_size * sizeof(typename F::block));
    std::vector<float> values(F::block_size);
    unsigned seed = 9;
    for (std::size_t b = 0; b < n / F::block_size; ++b) {
        for (float& x : values) {
            seed = seed * 1664525u + 1013904223u;
            x = static_cast<float>(seed >> 8) / 8388608.0f - 1;
        }
        typename F::block block;
        F::encode(values.data(), block);
        std::memcpy(raw.data() + b * sizeof block, &block, sizeof block);
    }
    return raw;
}

/// All of it decoded, then all of it encoded: what a repacking must give, whatever its chunks.
template <tern::format From, tern::format To> std::vector<std::byte> converted(const std::vector<std::byte>& raw) {
    std::vector<float> values(raw.size() / sizeof(typename From::block) * From::block_size);
    for (std::size_t b = 0; b < raw.size() / sizeof(typename From::block); ++b) {
        typename From::block block;
        std::memcpy(&block, raw.data() + b * sizeof block, sizeof block);
        From::decode(block, values.data() + b * From::block_size);
    }
    std::vector<std::byte> out(values.size() / To::block_size * sizeof(typename To::block));
    for (std::size_t b = 0; b < values.size() / To::block_size; ++b) {
        typename To::block block;
        To::encode(values.data() + b * To::block_size, block);
        std::memcpy(out.data() + b * sizeof block, &block, sizeof block);
    }
    return out;
}

/// What lies on `on` after the stretch of `source` from `offset` came as another format; guard bytes left out, and
/// empty where those were touched.
std::vector<std::byte> repack(tern::move_function move, std::string_view format, counting_source& source,
                              std::uint64_t offset, tern::bytes arriving, tern::device& on, tern::arena& staging,
                              tern::test::progress& seen, tern::disk_reader* disk = nullptr,
                              std::stop_token stop = {}) {
    constexpr std::size_t guard = 64;
    tern::run_loop home;
    const auto n = static_cast<std::size_t>(arriving.count);
    const tern::allocation there = on.memory().allocate({n + 2 * guard}, "slice");
    std::memset(there.data(), 0xEE, n + 2 * guard);
    home.run(move({.from = {.file = &source,
                            .offset = offset,
                            .memory = nullptr,
                            .stored = {source.data.size() - offset},
                            .format = format},
                   .to = there.data() + guard,
                   .size = arriving,
                   .on = &on,
                   .staging = &staging,
                   .disk = disk,
                   .home = &home,
                   .stop = std::move(stop),
                   .listener = &seen,
                   .what = "w"}));
    for (std::size_t i = 0; i < guard; ++i)
        if (there.data()[i] != std::byte{0xEE} || there.data()[guard + n + i] != std::byte{0xEE}) return {};
    return {there.data() + guard, there.data() + guard + n};
}

template <tern::format From, tern::format To> void check(bool large = true) {
    CAPTURE(From::name);
    CAPTURE(To::name);
    using transfer = tern::repacked<From, To>;
    constexpr std::size_t unit = std::max<std::size_t>(From::block_size, To::block_size);
    const std::size_t unit_bytes = unit / From::block_size * sizeof(typename From::block);
    const std::size_t chunk = ((1 << 20) + unit_bytes - 1) / unit_bytes; // units
    tern::heap_arena ram;
    tern::cpu_device cpu{ram, 1};
    tern::emulated_device gpu{{.capacity = 32_MiB}};
    tern::pread_reader reader({.threads = 2});
    for (const std::size_t units : {std::size_t{1}, std::size_t{3}, chunk, chunk + 1}) {
        if (units > 3 && !large) break; // formats that take their time
        CAPTURE(units);
        counting_source source(0);
        source.data = encoded<From>(units * unit);
        source.data.insert(source.data.begin(), 13, std::byte{0x77}); // the slice begins somewhere in its file
        const std::vector<std::byte> raw(source.data.begin() + 13, source.data.end());
        const std::vector<std::byte> expected = converted<From, To>(raw);
        const tern::bytes arriving = tern::arrival_size<transfer>(From::name, {raw.size()});
        REQUIRE(arriving.count == expected.size());
        for (tern::device* on : {static_cast<tern::device*>(&cpu), static_cast<tern::device*>(&gpu)})
            for (tern::disk_reader* disk :
                 {static_cast<tern::disk_reader*>(nullptr), static_cast<tern::disk_reader*>(&reader)}) {
                if (units > 3 && (on == &gpu) != (disk != nullptr)) continue;
                tern::heap_arena staging;
                tern::test::progress seen;
                const bool same = repack(&transfer::template move<>, From::name, source, 13, arriving, *on, staging,
                                         seen, disk) == expected;
                CHECK(same);
                CHECK(seen.total == arriving.count); // what arrives is counted, not what is read
                CHECK(staging.budget().used() == 0_B);
                CHECK(staging.budget().peak() <= 6_MiB);
            }
        reader.forget(source);
    }
    CHECK(gpu.memory().budget().used() == 0_B);
}

} // namespace

TEST_CASE("transfer/repacked: each slice is what decoding and encoding all of it gives, at every size") {
    check<tern::f32, tern::q8_0>();
    check<tern::q8_0, tern::f32>();
    check<tern::bf16, tern::f16>();
    check<tern::f32, tern::bf16>(false);
    check<tern::f16, tern::f32>(false);
    check<tern::q8_0, tern::q4_0>(false);
}

TEST_CASE("transfer/repacked: formats of unlike block sizes, and other formats pass through") {
    check<tern::q8_0, tern::q6_k>(false);
    check<tern::q4_k, tern::q8_0>(false);
    tern::heap_arena ram;
    tern::cpu_device cpu{ram, 1};
    counting_source source(10'001);
    for (const std::string_view format : {"", "q4_0"}) { // as they arrive, and another one
        tern::test::progress seen;
        const auto got =
            repack(&tern::repacked<tern::f32, tern::q8_0>::move<>, format, source, 0, {10'001}, cpu, ram, seen);
        CHECK(got == source.data);
    }
}

TEST_CASE("transfer/repacked: a slice that is no whole number of blocks is refused") {
    using packing = tern::repacked<tern::f32, tern::q8_0>;
    CHECK(packing::arrival_size("f32", 128_B) == 34_B);
    CHECK_THROWS_AS(packing::arrival_size("f32", 127_B), tern::shape_error);
    CHECK_THROWS_AS(packing::arrival_size("f32", 132_B), tern::shape_error); // 33 numbers
    CHECK(packing::arrival_size("f16", 127_B) == 127_B);
    CHECK(packing::arrival_size("f32", 0_B) == 0_B);
}

TEST_CASE("transfer/repacked: a stop takes effect within one chunk, and errors of the file are passed on") {
    using packing = tern::repacked<tern::f32, tern::f16>;
    tern::heap_arena ram, staging;
    tern::cpu_device cpu{ram, 1};
    counting_source source(0);
    source.data = encoded<tern::f32>(2'000'000);
    const tern::bytes arriving = packing::arrival_size("f32", {source.data.size()});
    std::stop_source stop;
    tern::test::progress seen;
    seen.context = &stop;
    seen.then = [](tern::test::progress& p) { static_cast<std::stop_source*>(p.context)->request_stop(); };
    CHECK_THROWS_AS(repack(&packing::move<>, "f32", source, 0, arriving, cpu, staging, seen, nullptr, stop.get_token()),
                    tern::stopped_error);
    CHECK(seen.calls == 1);
    CHECK(source.bytes_read <= 2u << 20);
    source.fails_from = 3'000'000;
    tern::test::progress again;
    CHECK_THROWS_AS(repack(&packing::move<>, "f32", source, 0, arriving, cpu, staging, again), tern::io_error);
    CHECK(again.calls == 2);
    CHECK(ram.budget().used() == 0_B);
    CHECK(staging.budget().used() == 0_B);
    tern::heap_arena little{100'000_B};
    CHECK_THROWS_AS(repack(&packing::move<>, "f32", source, 0, arriving, cpu, little, again), tern::budget_error);
}
