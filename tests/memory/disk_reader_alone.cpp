// Counts every allocation of the program, to show that reads make none once files are open.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include <tern/memory/open_reader.hpp>

#include "memory/reading.hpp"

namespace {

std::atomic<long> allocations{0};

} // namespace

// Not inlined: the compiler would take malloc and delete, or new and free, for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    if (void* p = std::malloc(size ? size : 1)) return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

using namespace tern;
using namespace tern::test;

TEST_CASE("memory/disk_reader_alone: operator new is counted") {
    const long before = allocations.load();
    ::operator delete(::operator new(1)); // not an expression that a compiler may leave out
    CHECK(allocations.load() > before);
}

TEST_CASE("memory/disk_reader_alone: reads allocate nothing" * doctest::skip(frame_arena::pass_through)) {
    pattern_file file(100'000);
    for (const char* kind : {"", "pread", "blocking"}) {
        const auto reader = open_reader({.depth = 3, .kind = kind});
        CAPTURE(reader->name());
        run_loop loop;
        std::atomic<std::size_t> right{0};
        std::size_t asked = 0;
        long fewest = -1;
        for (int round = 0; round < 50 && fewest != 0; ++round) {
            const long before = allocations.load();
            loop.run(many_readers(*reader, loop, file.source, 8, 20, right));
            asked += 8 * 20;
            const long made = allocations.load() - before;
            if (fewest < 0 || made < fewest) fewest = made;
        }
        CHECK(fewest == 0);
        CHECK(right == asked);
    }
}
