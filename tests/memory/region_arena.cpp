#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <tern/memory/mark_held.hpp>
#include <tern/memory/region_arena.hpp>

using namespace tern::literals;

namespace {

const tern::location card{tern::tier_of<tern::vram>, 2, 0};

bool aligned(const tern::allocation& a) { return reinterpret_cast<std::uintptr_t>(a.data()) % 64 == 0; }

} // namespace

TEST_CASE("memory/region_arena: a region's capacity is hard and its errors name what, needed and available") {
    tern::region_arena gpu{card, 1_MiB};
    CHECK(gpu.where() == card);
    const tern::allocation first = gpu.allocate(1000_KiB, "first");
    try {
        static_cast<void>(gpu.allocate(24577_B, "blk.7.attn_q.weight"));
        FAIL("24577 bytes went into 24576");
    } catch (const tern::budget_error& e) {
        CHECK(e.needed() == 24577u);
        CHECK(e.available() == 24576u);
        const std::string text = e.what();
        CHECK(text.find("vram:2") != text.npos);
        CHECK(text.find("blk.7.attn_q.weight") != text.npos);
    }
    const tern::allocation rest = gpu.allocate(24576_B, "rest");
    CHECK(gpu.largest_hole() == 0_B);
    CHECK(gpu.budget().used() == 1_MiB);
    CHECK_THROWS_AS(static_cast<void>(gpu.allocate(0_B, "nothing")), tern::budget_error);
    CHECK_THROWS_AS(static_cast<void>(gpu.allocate({std::numeric_limits<std::uint64_t>::max()}, "all")),
                    tern::budget_error);
    CHECK(gpu.budget().peak() == 1_MiB);
}

TEST_CASE("memory/region_arena: a region of an odd size is used to its last byte") {
    tern::region_arena gpu{card, 1000_B};
    {
        const tern::allocation all = gpu.allocate(1000_B, "all");
        std::memset(all.data(), 1, 1000);
        CHECK(gpu.budget().used() == 1000_B);
    }
    CHECK_THROWS_AS(static_cast<void>(gpu.allocate(1001_B, "more")), tern::budget_error);
    tern::allocation head = gpu.allocate(1_B, "head");
    tern::allocation tail = gpu.allocate(936_B, "tail");
    CHECK(aligned(head));
    CHECK(aligned(tail));
    CHECK(gpu.largest_hole() == 0_B);
    head = {};
    CHECK(gpu.largest_hole() == 64_B);
    tail = {};
    CHECK(gpu.largest_hole() == 1000_B);
    CHECK(gpu.budget().used() == 0_B);

    tern::region_arena none{card, 0_B};
    CHECK(none.largest_hole() == 0_B);
    CHECK_THROWS_AS(static_cast<void>(none.allocate(1_B, "x")), tern::budget_error);
    CHECK_THROWS_AS(tern::region_arena(card, {std::uint64_t{1} << 62}), tern::budget_error);
}

TEST_CASE("memory/region_arena: holes merge in whatever order they are freed") {
    int order[] = {0, 1, 2, 3};
    int orders = 0;
    do {
        tern::region_arena gpu{card, 256_B};
        tern::allocation parts[4];
        for (auto& part : parts) part = gpu.allocate(64_B, "part");
        CHECK(gpu.largest_hole() == 0_B);
        for (const int i : order) parts[i] = {};
        CHECK(gpu.largest_hole() == 256_B);
        CHECK(gpu.allocate(256_B, "all"));
        ++orders;
    } while (std::next_permutation(std::begin(order), std::end(order)));
    CHECK(orders == 24);
}

TEST_CASE("memory/region_arena: the smallest hole that holds a request is taken") {
    tern::region_arena gpu{card, 1024_B};
    tern::allocation big = gpu.allocate(256_B, "big");
    const tern::allocation wall = gpu.allocate(64_B, "wall");
    tern::allocation small = gpu.allocate(128_B, "small");
    const tern::allocation last = gpu.allocate(64_B, "last");
    const std::byte* where = small.data();
    big = {};
    small = {};
    CHECK(gpu.largest_hole() == 512_B);
    CHECK(gpu.allocate(100_B, "fits").data() == where);
    CHECK(gpu.budget().used() == 128_B);
}

TEST_CASE("memory/region_arena: a thousand growing rounds stay within ten MiB") {
    tern::region_arena gpu{card, 10_MiB};
    for (std::uint64_t i = 0; i < 1000; ++i) {
        const tern::allocation block = gpu.allocate(1_MiB + 4_KiB * i, "round");
        block.data()[0] = std::byte{1};
        block.data()[block.size().count - 1] = std::byte{1};
    }
    CHECK(gpu.budget().used() == 0_B);
    CHECK(gpu.budget().peak() <= 10_MiB);
    CHECK(gpu.largest_hole() == 10_MiB);
    // The same with the one before still alive, as when a new cache replaces an old one.
    tern::allocation before;
    for (std::uint64_t i = 0; i < 500; ++i) before = gpu.allocate(1_MiB + 4_KiB * i, "round");
    before = {};
    CHECK(gpu.budget().peak() <= 10_MiB);
    CHECK(gpu.largest_hole() == 10_MiB);
}

TEST_CASE("memory/region_arena: allocations never overlap and the capacity is never exceeded") {
    tern::region_arena gpu{card, 64_KiB};
    struct block {
        tern::allocation data;
        unsigned char mark;
    };
    std::deque<block> live;
    std::uint32_t seed = 1;
    const auto random = [&seed] { return (seed = seed * 1664525u + 1013904223u) >> 8; };
    int refused = 0;
    for (int round = 0; round < 20000; ++round) {
        if (random() % 3 != 0) {
            const auto mark = static_cast<unsigned char>(round);
            try {
                live.push_back({gpu.allocate({random() % 5000}, "x"), mark});
                std::memset(live.back().data.data(), mark, live.back().data.size().count);
            } catch (const tern::budget_error& e) {
                ++refused;
                CHECK(*e.needed() > *e.available());
                CHECK(*e.available() == gpu.largest_hole().count);
            }
        } else if (!live.empty()) {
            const std::size_t at = random() % live.size();
            bool whole = true;
            for (std::size_t i = 0; i < live[at].data.size().count; ++i)
                whole = whole && live[at].data.data()[i] == static_cast<std::byte>(live[at].mark);
            if (!whole) FAIL("an allocation was overwritten");
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
        }
    }
    CHECK(refused > 0);
    CHECK(gpu.budget().peak() <= 64_KiB);
    live.clear();
    CHECK(gpu.budget().used() == 0_B);
    CHECK(gpu.largest_hole() == 64_KiB);
}

#if defined(TERN_DETAIL_POISON)
TEST_CASE("memory/region_arena: AddressSanitizer knows which bytes of a region nobody holds") {
    tern::region_arena gpu{card, 1_MiB};
    std::byte* data = nullptr;
    {
        const tern::allocation a = gpu.allocate(1000_B, "a");
        data = a.data();
        CHECK(__asan_region_is_poisoned(data, 1000) == nullptr);
        CHECK(__asan_address_is_poisoned(data + 1000));
    }
    CHECK(__asan_address_is_poisoned(data));
    CHECK(__asan_address_is_poisoned(data + 999));
}
#endif

TEST_CASE("memory/region_arena: threads share a region") {
    tern::region_arena gpu{card, 1_MiB};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&gpu, t] {
            for (int i = 0; i < 500; ++i) {
                const tern::allocation a = gpu.allocate({100u + static_cast<unsigned>(i)}, "x");
                std::memset(a.data(), t, a.size().count);
            }
        });
    for (auto& thread : threads) thread.join();
    CHECK(gpu.budget().used() == 0_B);
    CHECK(gpu.largest_hole() == 1_MiB);
}

TEST_CASE("memory/region_arena: what is carved holds its bytes whatever is allocated beside it, and comes back") {
    tern::region_arena gpu{card, 1_MiB};
    const tern::allocation before = gpu.allocate(100_KiB, "placed");
    const auto part = gpu.carve(300_KiB);
    REQUIRE(part != nullptr);
    CHECK(part->where() == card);
    CHECK(gpu.budget().used() == 100_KiB); // only what is in use counts
    CHECK(gpu.largest_hole() == 620_KiB);  // less 4 KiB for rounding
    CHECK(part->in_one_piece(304_KiB));
    CHECK_FALSE(part->in_one_piece(304_KiB + 1_B));
    CHECK_THROWS_AS(static_cast<void>(gpu.allocate(620_KiB + 1_B, "wide")), tern::budget_error);
    {
        std::vector<tern::allocation> beside;
        while (gpu.in_one_piece(1000_B)) beside.push_back(gpu.allocate(1000_B, "activations"));
        const tern::allocation whole = part->allocate(300_KiB, "slice");
        CHECK(whole.data() > beside.back().data());
        CHECK(gpu.budget().used() == 400_KiB + tern::bytes{1024} * beside.size());
        CHECK(part->budget().used() == 300_KiB);
        CHECK_THROWS_AS(static_cast<void>(part->allocate(5_KiB, "more")), tern::budget_error);
    }
    part->retire();
    CHECK(gpu.largest_hole() == 924_KiB);
    CHECK_FALSE(part->in_one_piece(1_B));
    CHECK_THROWS_AS(static_cast<void>(part->allocate(1_B, "late")), tern::budget_error);
}

TEST_CASE("memory/region_arena: of a part that ends, what is still in use comes back as it is freed") {
    tern::region_arena gpu{card, 64_KiB};
    std::vector<tern::allocation> live;
    {
        auto part = gpu.carve(32_KiB);
        REQUIRE(part != nullptr);
        for (int i = 0; i < 8; ++i) live.push_back(part->allocate(4_KiB, "slice"));
        live[2] = {};
        part->retire();
        part->retire(); // once is enough
        CHECK(gpu.largest_hole() == 28_KiB);
        CHECK(gpu.budget().used() == 28_KiB);
        live[0] = {};
        live[1] = {}; // beside the free one
        CHECK(gpu.largest_hole() == 40_KiB);
        live.clear();
        CHECK(gpu.largest_hole() == 64_KiB);
        CHECK(gpu.budget().used() == 0_B);
    }
    {
        const auto part = gpu.carve(32_KiB); // ends without a word
    }
    CHECK(gpu.largest_hole() == 64_KiB);
}

TEST_CASE("memory/region_arena: a part may be all that is free, is never more, and begins at a unit") {
    tern::region_arena gpu{card, 10'000_B};
    CHECK(gpu.carve(10'001_B) == nullptr);
    CHECK(gpu.carve(tern::unlimited) == nullptr);
    CHECK(gpu.carve(0_B) == nullptr);
    {
        const auto part = gpu.carve(9'900_B); // without bytes for rounding
        REQUIRE(part != nullptr);
        const tern::allocation a = part->allocate(9'900_B, "a");
        CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % tern::arena::alignment == 0);
    }
    CHECK(gpu.largest_hole() == 10'000_B);
    const tern::allocation half = gpu.allocate(5'000_B, "half");
    CHECK(gpu.carve(5'000_B) == nullptr); // 4992 are left
    CHECK(gpu.carve(4'900_B) != nullptr);
}

TEST_CASE("memory/region_arena: slices of all sizes take turns in a part beside what is allocated and freed") {
    tern::region_arena gpu{card, 1_MiB};
    std::uint32_t seed = 11;
    const auto random = [&seed] { return (seed = seed * 1664525u + 1013904223u) >> 8; };
    std::deque<std::pair<tern::allocation, unsigned char>> live;
    std::vector<tern::allocation> beside(16);
    const auto drop_first = [&] {
        const auto& [a, mark] = live.front();
        bool whole = true;
        for (std::size_t i = 0; i < a.size().count; ++i) whole = whole && a.data()[i] == static_cast<std::byte>(mark);
        if (!whole) FAIL("a slice was overwritten");
        live.pop_front();
    };
    for (int round = 0; round < 40; ++round) {
        auto part = gpu.carve(400_KiB);
        REQUIRE(part != nullptr);
        for (int i = 0; i < 100; ++i) {
            const tern::bytes n{1 + random() % 180'000};
            while (!part->in_one_piece(n)) {
                REQUIRE_FALSE(live.empty());
                drop_first();
            }
            const auto mark = static_cast<unsigned char>(i);
            live.emplace_back(part->allocate(n, "slice"), mark);
            std::memset(live.back().first.data(), mark, n.count);
            tern::allocation& other = beside[random() % beside.size()];
            other = {};
            other = gpu.allocate({1 + random() % 30'000}, "beside");
            std::memset(other.data(), 255, other.size().count);
        }
        CHECK(gpu.budget().used() <= 1_MiB);
        part->retire();
        while (!live.empty()) drop_first();
        for (tern::allocation& a : beside) a = {};
        CHECK(gpu.budget().used() == 0_B);
        CHECK(gpu.largest_hole() == 1_MiB);
    }
}
