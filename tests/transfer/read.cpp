#include <doctest/doctest.h>

#include <stop_token>
#include <string>
#include <vector>

#include "support/transfers.hpp"
#include <tern/transfer/read.hpp>

using namespace tern::literals;
using tern::test::counting_source;

namespace {

// Reads on this thread: nothing suspends.
tern::task<> reading(const tern::transfer_request& request, std::uint64_t begin, std::byte* into, std::size_t size) {
    co_await tern::read_backing(request, begin, into, size);
}
void read(const tern::transfer_request& request, std::uint64_t begin, std::byte* into, std::size_t size) {
    tern::run_loop home;
    home.run(reading(request, begin, into, size));
}

} // namespace

TEST_CASE("transfer/read: bytes come from the file over short reads, or from memory") {
    counting_source source(20'000, 4097);
    std::vector<std::byte> into(10'000);
    tern::transfer_request request{.from = {.file = &source, .offset = 100}, .size = 15'000_B};
    read(request, 50, into.data(), into.size());
    CHECK(into == std::vector<std::byte>(source.data.begin() + 150, source.data.begin() + 10'150));
    CHECK(source.reads == 3);

    request.from = {.memory = source.data.data() + 7};
    read(request, 50, into.data(), into.size());
    CHECK(into == std::vector<std::byte>(source.data.begin() + 57, source.data.begin() + 10'057));
    CHECK(source.reads == 3);
}

TEST_CASE("transfer/read: a stop, a missing backing and a broken file are errors") {
    counting_source source(1000);
    std::vector<std::byte> into(100);
    tern::transfer_request nothing{.what = "w"};
    read(nothing, 0, nullptr, 0); // no bytes need no backing
    try {
        read(nothing, 0, into.data(), 100);
        FAIL("there is nothing to read");
    } catch (const tern::config_error& e) { CHECK(e.tensor() == "w"); }

    std::stop_source stop;
    stop.request_stop();
    const tern::transfer_request stopped{.from = {.file = &source}, .stop = stop.get_token(), .what = "blk.1"};
    try {
        read(stopped, 0, into.data(), 100);
        FAIL("it was stopped");
    } catch (const tern::stopped_error& e) { CHECK(std::string(e.what()).find("blk.1") != std::string::npos); }
    CHECK(source.reads == 0);

    const tern::transfer_request past{.from = {.file = &source, .offset = 950}};
    CHECK_THROWS_AS(read(past, 0, into.data(), 100), tern::io_error);
}

TEST_CASE("transfer/read: a listener is told, where there is one") {
    tern::test::progress seen;
    tern::arrived({.listener = &seen}, 10);
    tern::arrived({}, 10);
    CHECK(seen.total == 10);
    CHECK(seen.calls == 1);
}

TEST_CASE("transfer/read: chunks are cut at pages of the file, and cover the stretch exactly") {
    for (const std::uint64_t offset : {0u, 1u, 4095u, 4096u, 5000u})
        for (const std::uint64_t size : {0u, 1u, 4096u, 8191u, 8192u, 8193u, 50'000u})
            for (const std::uint64_t alignment : {1u, 4096u, 3000u}) {
                const tern::detail::chunk_grid grid(offset, size, 8192, alignment);
                CHECK(grid.alignment() == (alignment == 4096 ? 4096 : 1)); // 8192 is no multiple of 3000
                std::uint64_t at = 0;
                for (std::uint64_t i = 0; i < grid.count(); ++i) {
                    CHECK(grid.begin(i) == at);
                    CHECK(grid.end(i) > at);
                    if (i > 0) CHECK((offset + at) % grid.alignment() == 0);
                    // With the pages around it a chunk fits into its room.
                    const std::uint64_t first = (offset + at) / grid.alignment() * grid.alignment();
                    at = grid.end(i);
                    const std::uint64_t pages = (offset + at - first + grid.alignment() - 1) / grid.alignment();
                    CHECK(pages * grid.alignment() <= grid.room());
                }
                CHECK(at == size);
            }
}
