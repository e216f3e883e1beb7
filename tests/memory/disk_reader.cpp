#include <doctest/doctest.h>

#include <tern/memory/disk_reader.hpp>

#include "memory/reading.hpp"

using namespace tern;
using namespace tern::test;

TEST_CASE("memory/disk_reader: the blocking reader gives the bytes, and counts") {
    blocking_reader reader;
    check_alignments(reader);
    check_ends(reader);
    check_sources_without_descriptor(reader);
    check_two_loops(reader);
    CHECK(reader.alignment() == 1);

    blocking_reader fresh;
    counting_source source(100);
    check_read(fresh, source, 3, 50, 0, false);
    const read_counters seen = fresh.counters();
    CHECK(seen.asked.count == 50);
    CHECK(seen.read.count == 50);
    CHECK(seen.requests == 1);
    CHECK(seen.fallbacks == 0);
}

namespace {

// Completes later, on another thread.
struct late_reader final : disk_reader {
    std::vector<std::jthread> threads{};
    bool fails = false;

    std::string_view name() const noexcept override { return "late"; }
    bool start(read_call& call) override {
        threads.emplace_back([this, &call] {
            if (fails)
                call.error = std::make_exception_ptr(io_error("late"));
            else
                *call.into = std::byte{7};
            call.home->post(call.done);
        });
        return false;
    }
    std::size_t alignment() const noexcept override { return 1; }
    read_counters counters() const override { return {}; }
    std::string status() const override { return "late"; }
    void forget(byte_source&) noexcept override {}
};

task<std::thread::id> read_late(disk_reader& reader, run_loop& loop, byte_source& from, std::byte* into) {
    read_call call{.from = &from, .into = into, .size = 1};
    co_await tern::read(reader, loop, call);
    co_return std::this_thread::get_id();
}

} // namespace

TEST_CASE("memory/disk_reader: a read that completes on another thread goes on at home, and throws there") {
    late_reader reader;
    counting_source source(1);
    run_loop loop;
    std::byte got{};
    CHECK(loop.run(read_late(reader, loop, source, &got)) == std::this_thread::get_id());
    CHECK(got == std::byte{7});
    reader.fails = true;
    CHECK_THROWS_AS(loop.run(read_late(reader, loop, source, &got)), io_error);
}
