#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/memory/heap_arena.hpp>

using namespace tern::literals;

namespace {

// The system's pages, counted.
struct counting_pages {
    static inline long obtained = 0;
    static inline std::uint64_t held = 0;
    static inline std::uint64_t peak = 0;

    tern::page_run obtain(std::uint64_t size, std::string_view what) noexcept {
        ++obtained;
        held += size;
        peak = std::max(peak, held);
        return tern::plain_pages{}.obtain(size, what);
    }
    void give_back(tern::page_run run, std::uint64_t size) noexcept {
        held -= size;
        tern::plain_pages{}.give_back(run, size);
    }
};

} // namespace

TEST_CASE("memory/heap_arena: the heap is counted, and what the system cannot have is an error") {
    tern::heap_arena ram{1000_B};
    CHECK(ram.where() == tern::location{tern::tier_of<tern::pageable>, 0, 0});
    try {
        static_cast<void>(ram.allocate(1001_B, "token_embd.weight"));
        FAIL("1001 bytes went into 1000");
    } catch (const tern::budget_error& e) {
        CHECK(e.needed() == 1001u);
        CHECK(e.available() == 1000u);
        const std::string text = e.what();
        CHECK(text.find("pageable") != text.npos);
        CHECK(text.find("token_embd.weight") != text.npos);
    }
    tern::heap_arena boundless;
    for (const std::uint64_t back : {0u, 1u, 62u, 63u, 64u, 1000u}) {
        const tern::bytes n{std::numeric_limits<std::uint64_t>::max() - back};
        CHECK_THROWS_AS(static_cast<void>(boundless.allocate(n, "w")), tern::budget_error);
        CHECK(boundless.budget().used() == 0_B);
    }
    CHECK(boundless.allocate(0_B, "nothing").data() != nullptr);
}

TEST_CASE("memory/heap_arena: from 64 KiB on the heap's memory is slabs, kept for reuse") {
    tern::basic_heap_arena<counting_pages> ram{1_MiB};
    const tern::allocation small = ram.allocate(64_KiB - 1_B, "small");
    CHECK(counting_pages::obtained == 0);
    CHECK(ram.budget().used() == 64_KiB - 1_B);
    const std::byte* where = nullptr;
    {
        const tern::allocation a = ram.allocate(64_KiB, "a");
        const tern::allocation b = ram.allocate(100'001_B, "b");
        where = b.data();
        CHECK(b.size() == 100'001_B);
        CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % 4096 == 0);
        CHECK(counting_pages::obtained == 2);
        CHECK(ram.budget().requested() == 128_KiB - 1_B + 100'001_B);
        CHECK(ram.budget().used() == 128_KiB - 1_B + 100_KiB);
    }
    CHECK(ram.budget().used() == small.size());
    CHECK(ram.reserved() == ram.budget().peak());
    CHECK(ram.allocate(100'002_B, "c").data() == where);
    for (int i = 0; i < 100; ++i) static_cast<void>(ram.allocate(100_KiB, "d"));
    CHECK(counting_pages::obtained == 2);
    ram.trim();
    CHECK(ram.reserved() == small.size());
    CHECK(counting_pages::held == 0);
}

TEST_CASE(
    "memory/heap_arena: from 1 KiB to 64 KiB the heap's memory is blocks, counted to the byte and kept for reuse") {
    tern::heap_arena ram{1_MiB};
    const std::byte* where = nullptr;
    {
        const tern::allocation a = ram.allocate(25'600_B, "expert");
        where = a.data();
        CHECK(reinterpret_cast<std::uintptr_t>(where) % tern::arena::alignment == 0);
        CHECK(ram.budget().used() == 25'600_B);
        const tern::allocation little = ram.allocate(1_KiB - 1_B, "little");
        CHECK(ram.budget().used() == 25'600_B + 1_KiB - 1_B);
    }
    CHECK(ram.budget().used() == 0_B);
    CHECK(ram.reserved() == 25'600_B);
    {
        const tern::allocation less = ram.allocate(24'000_B, "a little less");
        CHECK(less.data() == where);
        CHECK(ram.budget().requested() == 24'000_B);
        CHECK(ram.budget().used() == 25'600_B);
        const tern::allocation much_less = ram.allocate(20'000_B, "too little for it");
        CHECK(ram.budget().used() == 45'600_B);
    }
    ram.trim();
    CHECK(ram.reserved() == 0_B);
}

TEST_CASE("memory/heap_arena: a thousand growing rounds reserve no more of the heap than was in use at once") {
    counting_pages::peak = 0;
    tern::basic_heap_arena<counting_pages> ram;
    for (std::uint64_t i = 0; i < 1000; ++i) {
        const tern::allocation block = ram.allocate(1_MiB + 4_KiB * i, "round");
        block.data()[0] = block.data()[block.size().count - 1] = std::byte{1};
        CHECK(ram.reserved() <= ram.budget().peak());
    }
    CHECK(ram.budget().used() == 0_B);
    CHECK(counting_pages::peak <= (10_MiB).count);
    CHECK(counting_pages::peak <= ram.budget().peak().count);
}

TEST_CASE("memory/heap_arena: the heap's limit is reached to the byte, and what is kept counts until it makes room") {
    tern::heap_arena ram{300'001_B};
    {
        const tern::allocation all = ram.allocate(300'001_B, "all"); // in whole pages it would not fit
        std::memset(all.data(), 1, 300'001);
        CHECK(ram.budget().used() == 300'001_B);
    }
    CHECK(ram.budget().used() == 0_B);
    { const tern::allocation slab = ram.allocate(200'000_B, "slab"); }
    CHECK(ram.reserved() == tern::slab_size(200'000_B));
    const tern::allocation first = ram.allocate(250'000_B, "first");
    CHECK(ram.reserved() <= 300'001_B);
    const tern::allocation second = ram.allocate(40_KiB, "second");
    try {
        static_cast<void>(ram.allocate(70'000_B, "third"));
        FAIL("more went into the heap than fits");
    } catch (const tern::budget_error& e) {
        CHECK(e.needed() == 70'000u);
        CHECK(e.available() == 300'001 - tern::slab_size(250'000_B).count - (40_KiB).count);
    }
}

TEST_CASE("memory/heap_arena: a heap under a parent counts there too") {
    tern::budget machine{"RAM", 10_MiB};
    {
        tern::heap_arena ram{8_MiB, &machine};
        tern::heap_arena other{8_MiB, &machine};
        const tern::allocation a = ram.allocate(6_MiB, "a");
        const tern::allocation b = ram.allocate(1000_B, "b");
        CHECK(machine.used() == 6_MiB + 1000_B);
        CHECK_THROWS_AS(static_cast<void>(other.allocate(5_MiB, "c")), tern::budget_error);
        CHECK(other.budget().used() == 0_B);
        CHECK(machine.used() == 6_MiB + 1000_B);
    }
    CHECK(machine.reserved() == 0_B);
}

TEST_CASE(
    "memory/heap_arena: a range carved from the heap counts there what is in use, and asks the system for nothing") {
    tern::basic_heap_arena<counting_pages> ram{4_MiB};
    const long before = counting_pages::obtained;
    const auto range = ram.carve(1_MiB);
    REQUIRE(range != nullptr);
    CHECK(range->where() == ram.where());
    CHECK(ram.budget().used() == 0_B);
    std::vector<tern::allocation> live;
    for (std::uint64_t i = 0; i < 12; ++i) live.push_back(range->allocate({70'000 + i}, "slice"));
    for (const tern::allocation& a : live) {
        CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % 4096 == 0);
        std::memset(a.data(), 1, a.size().count);
    }
    const tern::allocation small = range->allocate(100_B, "small");
    CHECK(ram.budget().used() == range->budget().used());
    CHECK(ram.budget().used() == 840'166_B);
    // Half of it is free, in pieces.
    for (std::size_t i = 0; i < live.size(); i += 2) live[i] = {};
    CHECK(range->budget().available() > 400'000_B);
    CHECK(range->in_one_piece(70'000_B));
    CHECK_FALSE(range->in_one_piece(400'000_B));
    CHECK_THROWS_AS(static_cast<void>(range->allocate(400'000_B, "wide")), tern::budget_error);
    CHECK(ram.budget().used() == 420'136_B);
    live.clear();
    CHECK(range->in_one_piece(400'000_B));
    CHECK(counting_pages::obtained == before);
    // The arena's own limit holds in the range too.
    const tern::allocation beside = ram.allocate(3'500_KiB, "beside");
    CHECK_THROWS_AS(static_cast<void>(range->allocate(800_KiB, "more")), tern::budget_error);
    CHECK(range->allocate(400_KiB, "less"));
    // What was written and is free again reads as zero once the system has it back.
    std::byte* data = nullptr;
    {
        const tern::allocation a = range->allocate(100_KiB, "a");
        data = a.data();
        std::memset(data, 7, a.size().count);
    }
    range->trim();
    const tern::allocation again = range->allocate(100_KiB, "again");
    CHECK(again.data() == data);
    CHECK(again.data()[5000] == std::byte{0});
    CHECK(small.data() != nullptr);

    CHECK(ram.carve(tern::unlimited)->budget().limit() == 4_MiB); // no more than its arena has
    tern::heap_arena boundless;
}

TEST_CASE("memory/heap_arena: blocks of all sizes take turns in a carved range and none is overwritten") {
    tern::heap_arena ram{2_MiB};
    const auto range = ram.carve(600'000_B);
    REQUIRE(range != nullptr);
    std::deque<std::pair<tern::allocation, unsigned char>> live;
    std::uint32_t seed = 7;
    const auto random = [&seed] { return (seed = seed * 1664525u + 1013904223u) >> 8; };
    int made = 0;
    for (int round = 0; round < 5000; ++round) {
        const tern::bytes n{random() % 4 == 0 ? 64 * 1024 + random() % 100'000 : random() % 20'000};
        while (!range->in_one_piece(n) || range->budget().available() < n) {
            REQUIRE_FALSE(live.empty());
            bool whole = true;
            for (std::size_t i = 0; i < live.front().first.size().count; ++i)
                whole = whole && live.front().first.data()[i] == static_cast<std::byte>(live.front().second);
            if (!whole) FAIL("a block was overwritten");
            live.pop_front();
        }
        const auto mark = static_cast<unsigned char>(round);
        live.emplace_back(range->allocate(n, "x"), mark);
        std::memset(live.back().first.data(), mark, n.count);
        if (n >= 64_KiB) CHECK(reinterpret_cast<std::uintptr_t>(live.back().first.data()) % 4096 == 0);
        ++made;
    }
    CHECK(made == 5000);
    live.clear();
    CHECK(range->budget().used() == 0_B);
    CHECK(ram.budget().used() == 0_B);
    CHECK(range->in_one_piece(599'000_B));
}
