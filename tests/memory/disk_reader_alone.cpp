// Counts every allocation of the program, to show that reads make none once files are open.
#include <doctest/doctest.h>

#include <atomic>

#include <tern/memory/open_reader.hpp>

#include "memory/reading.hpp"
#include "support/allocations.hpp"

using namespace tern;
using namespace tern::test;

TEST_CASE("memory/disk_reader_alone: operator new is counted") { check_allocations_count(); }

TEST_CASE("memory/disk_reader_alone: reads allocate nothing" * doctest::skip(frame_arena::pass_through)) {
    pattern_file file(100'000);
    for (const char* kind : {"", "pread", "blocking"}) {
        const auto reader = open_reader({.depth = 3, .kind = kind});
        CAPTURE(reader->name());
        run_loop loop;
        std::atomic<std::size_t> right{0};
        std::size_t asked = 0;
        CHECK(fewest_allocations([&] {
                  loop.run(many_readers(*reader, loop, file.source, 8, 20, right));
                  asked += 8 * 20;
              }) == 0);
        CHECK(right == asked);
    }
}
