// Replaces operator new, to show that slabs in the steady state allocate nothing, that to free never does, and that an
// allocation which fails at any point leaves everything as it was.
#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/memory/heap_arena.hpp>
#include <tern/memory/pinned_arena.hpp>

#include "support/allocations.hpp"

using namespace tern::literals;
using tern::test::allocations;
using tern::test::allocations_left;

namespace {

// The system's pages, counted; every second run is one that cannot be locked.
struct counting_pages : tern::locked_pages {
    static inline long obtained = 0;
    static inline long returned = 0;

    explicit counting_pages(tern::pinned_options options = {}) : tern::locked_pages(std::move(options)) {}
    tern::page_run obtain(std::uint64_t size, std::string_view what) {
        const tern::page_run run = tern::locked_pages::obtain(size, what);
        ++obtained;
        return run;
    }
    void give_back(tern::page_run run, std::uint64_t size) noexcept {
        ++returned;
        tern::locked_pages::give_back(run, size);
    }
};

int lock_every_second(void*, std::size_t) {
    static int calls = 0;
    return ++calls % 2 == 0 ? 0 : ENOMEM;
}

using pinned_arena = tern::basic_pinned_arena<counting_pages>;
using heap_arena = tern::basic_heap_arena<counting_pages>;

void one_round(tern::arena& memory) {
    const tern::allocation a = memory.allocate(4_MiB, "a");
    tern::allocation b = memory.allocate(4_MiB, "b");
    const tern::allocation c = memory.allocate(100_KiB, "c");
    b = {};
    b = memory.allocate(4_MiB - 1_B, "d");
    a.data()[0] = b.data()[0] = c.data()[0] = std::byte{1};
}

void check_steady(tern::arena& memory) {
    one_round(memory);
    one_round(memory);
    const long obtained = counting_pages::obtained;
    const long before = allocations;
    for (int i = 0; i < 50; ++i) one_round(memory);
    const long made = allocations - before;
    CHECK(made == 0);
    CHECK(counting_pages::obtained == obtained);
    CHECK(memory.budget().used() == 0_B);
}

} // namespace

TEST_CASE("memory/slab_arena_alone: operator new is counted") { tern::test::check_allocations_count(); }

TEST_CASE("memory/slab_arena_alone: the steady state allocates nothing and asks the system for nothing") {
    heap_arena ram;
    pinned_arena pinned{{.parent = &ram.budget(), .lock = lock_every_second}};
    check_steady(ram);
    check_steady(pinned);
}

TEST_CASE("memory/slab_arena_alone: slabs are taken back and let go when operator new fails") {
    pinned_arena pinned{{.lock = lock_every_second}};
    std::vector<tern::allocation> live;
    for (int i = 0; i < 300; ++i) live.push_back(pinned.allocate(64_KiB, "x"));
    allocations_left = 0;
    for (std::size_t i = 0; i < live.size(); i += 2) live[i] = {};
    for (std::size_t i = 1; i < live.size(); i += 2) live[i] = {};
    const bool kept = pinned.reserved() == 64_KiB * 300;
    pinned.trim();
    allocations_left = -1;
    CHECK(kept);
    CHECK(pinned.reserved() == 0_B);
}

TEST_CASE("memory/slab_arena_alone: an allocation that fails for want of memory at any point leaves nothing behind") {
    int failures = 0;
    bool succeeded = false;
    for (long n = 0; n < 200 && !succeeded; ++n) {
        const long outstanding = counting_pages::obtained - counting_pages::returned;
        {
            tern::budget ram{"ram"};
            int warnings = 0;
            heap_arena heap{9_MiB, &ram};
            pinned_arena pinned{
                {.limit = 9_MiB, .parent = &ram, .lock = lock_every_second, .warn = [&](std::string_view) {
                     ++warnings;
                 }}};
            allocations_left = n;
            try {
                one_round(heap);
                one_round(pinned);
                try { // to make its error may fail too
                    static_cast<void>(pinned.allocate(10_MiB, "too large for the arena, with a name of some length"));
                } catch (const tern::budget_error&) {}
                succeeded = true;
            } catch (const std::bad_alloc&) { ++failures; }
            allocations_left = -1;
            CHECK(ram.used() == 0_B);
            CHECK(ram.requested() == 0_B);
            CHECK(ram.reserved() == heap.reserved() + pinned.reserved());
            CHECK(warnings <= 1);
            one_round(heap); // the next ones work
            one_round(pinned);
            CHECK(ram.used() == 0_B);
        }
        CHECK(counting_pages::obtained - counting_pages::returned == outstanding);
    }
    CHECK(succeeded);
    CHECK(failures >= 5);
}
