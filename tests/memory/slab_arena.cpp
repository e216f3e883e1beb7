#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <tern/memory/arena.hpp>
#include <tern/memory/slab_arena.hpp>

using namespace tern::literals;

namespace {

// The system's pages, counted; `most` is how much it grants at once.
struct counted {
    std::atomic<long> obtained{0}, returned{0};
    std::atomic<std::uint64_t> held{0}, peak{0}, most{1 << 30};
};

struct counting_pages {
    counted& count;

    explicit counting_pages(counted& c) : count(c) {}
    tern::page_run obtain(std::uint64_t size, std::string_view what) noexcept {
        if (count.held + size > count.most) return {};
        ++count.obtained;
        const std::uint64_t now = count.held += size;
        std::uint64_t most = count.peak;
        while (now > most && !count.peak.compare_exchange_weak(most, now)) {}
        return tern::plain_pages{}.obtain(size, what);
    }
    void give_back(tern::page_run run, std::uint64_t size) noexcept {
        ++count.returned;
        count.held -= size;
        tern::plain_pages{}.give_back(run, size);
    }
};

struct near_miss { // give_back may throw
    tern::page_run obtain(std::uint64_t, std::string_view) { return {}; }
    void give_back(tern::page_run, std::uint64_t) {}
};
static_assert(tern::page_source<counting_pages> && tern::page_source<tern::plain_pages>);
static_assert(!tern::page_source<near_miss> && !tern::page_source<int>);

static_assert(tern::slab_size(0_B) == 4_KiB && tern::slab_size(1_B) == 4_KiB && tern::slab_size(4_KiB) == 4_KiB);
static_assert(tern::slab_size(4097_B) == 8_KiB && tern::slab_size(tern::unlimited) == tern::unlimited);

using pool = tern::slabs<counting_pages>;

struct fixture {
    counted count;
    tern::budget ram{"ram", 64_MiB};
    pool memory{ram, count};

    std::byte* take(tern::bytes n) { return memory.take(n, "x"); }
    void give_back(std::byte* data, tern::bytes n) { CHECK(memory.give_back(data, n)); }
};

} // namespace

TEST_CASE_FIXTURE(fixture, "memory/slab_arena: slabs are whole pages, and a freed one serves again") {
    std::byte* a = take(100'000_B);
    CHECK(reinterpret_cast<std::uintptr_t>(a) % 4096 == 0);
    std::memset(a, 1, 100'000);
    CHECK(ram.requested() == 100'000_B);
    CHECK(ram.used() == 100_KiB);
    give_back(a, 100'000_B);
    CHECK(ram.requested() == 0_B);
    CHECK(ram.used() == 0_B);
    CHECK(ram.reserved() == 100_KiB);
    CHECK(count.held == 100 * 1024);
    CHECK(take(80_KiB) == a); // a quarter more than that is 100 KiB
    CHECK(ram.requested() == 80_KiB);
    CHECK(ram.used() == 100_KiB);
    give_back(a, 80_KiB);
    std::byte* b = take(79_KiB); // rounded up to 80
    CHECK(b == a);
    give_back(b, 79_KiB);
    std::byte* c = take(76_KiB);
    CHECK(ram.used() == 76_KiB);
    CHECK(count.obtained == 2);
    CHECK(count.returned == 1); // both at once were never needed
    give_back(c, 76_KiB);
    CHECK_FALSE(memory.give_back(c + 1, 1_B));
    CHECK_FALSE(memory.give_back(nullptr, 1_B));
    memory.trim();
    CHECK(ram.reserved() == 0_B);
    CHECK(count.held == 0);
}

TEST_CASE_FIXTURE(fixture, "memory/slab_arena: the best fit is taken, and of equals the one freed last") {
    std::byte* wide = take(124_KiB);
    std::byte* first = take(104_KiB);
    std::byte* second = take(104_KiB);
    std::byte* small = take(96_KiB);
    give_back(second, 104_KiB);
    give_back(first, 104_KiB);
    give_back(wide, 124_KiB);
    give_back(small, 96_KiB);
    CHECK(take(100_KiB) == first);
    CHECK(take(100_KiB) == second);
    CHECK(take(100_KiB) == wide);
    CHECK(take(96_KiB) == small);
    CHECK(count.obtained == 4);
    for (std::byte* p : {first, second, wide}) give_back(p, 100_KiB);
    give_back(small, 96_KiB);
}

TEST_CASE_FIXTURE(fixture, "memory/slab_arena: the oldest goes first where a new slab needs the room") {
    std::byte* a = take(1_MiB);
    std::byte* b = take(2_MiB);
    std::byte* c = take(3_MiB);
    give_back(b, 2_MiB);
    give_back(a, 1_MiB);
    give_back(c, 3_MiB);
    CHECK(ram.reserved() == 6_MiB);
    std::byte* d = take(100_KiB); // above the peak by 100 KiB: the 2 MiB go
    CHECK(ram.reserved() == 4_MiB + 100_KiB);
    CHECK(count.returned == 1);
    CHECK(take(1_MiB) == a);
    CHECK(take(3_MiB) == c);
    std::byte* e = take(2_MiB);
    CHECK(count.obtained == 5);
    CHECK(ram.reserved() == ram.peak());
    give_back(a, 1_MiB), give_back(c, 3_MiB), give_back(d, 100_KiB), give_back(e, 2_MiB);
}

TEST_CASE("memory/slab_arena: a thousand growing rounds stay within ten MiB and the peak in use") {
    counted count;
    tern::budget ram{"ram"};
    {
        pool memory{ram, count};
        for (std::uint64_t i = 0; i < 1000; ++i) {
            const tern::bytes n = 1_MiB + 4_KiB * i;
            std::byte* data = memory.take(n, "round");
            data[0] = data[n.count - 1] = std::byte{1};
            CHECK(ram.reserved() <= ram.peak());
            REQUIRE(memory.give_back(data, n));
            CHECK(ram.reserved() <= ram.peak());
        }
        CHECK(ram.peak() == 1_MiB + 4_KiB * 999);
        CHECK(count.peak <= ram.peak().count);
        CHECK(count.peak <= (10_MiB).count);
        // Shrinking again: what is kept serves until it is more than a quarter too large.
        const long before = count.obtained;
        for (std::uint64_t i = 1000; i-- > 0;) {
            const tern::bytes n = 1_MiB + 4_KiB * i;
            REQUIRE(memory.give_back(memory.take(n, "round"), n));
        }
        CHECK(count.obtained - before <= 8);
        CHECK(count.peak <= ram.peak().count);
    }
    CHECK(count.held == 0);
    CHECK(count.obtained == count.returned);
    CHECK(ram.reserved() == 0_B);
}

TEST_CASE_FIXTURE(fixture, "memory/slab_arena: the steady state asks the system for nothing") {
    const auto round = [&] {
        std::byte* held[3];
        for (std::byte*& p : held) p = take(4_MiB);
        std::byte* other = take(700'000_B);
        for (std::byte* p : held) give_back(p, 4_MiB);
        give_back(other, 700'000_B);
    };
    round();
    const long before = count.obtained;
    for (int i = 0; i < 100; ++i) round();
    CHECK(count.obtained == before);
    CHECK(count.returned == 0);
}

TEST_CASE("memory/slab_arena: the limit holds for what is in use and kept, and the error has the numbers") {
    counted count;
    tern::budget ram{"the RAM", 1_MiB};
    pool memory{ram, count};
    std::byte* a = memory.take(600_KiB, "a");
    REQUIRE(memory.give_back(a, 600_KiB));
    std::byte* b = memory.take(1_MiB, "b"); // what is kept makes room
    CHECK(count.peak == (1_MiB).count);
    try {
        static_cast<void>(memory.take(5000_B, "blk.0.ffn_up.weight"));
        FAIL("more was taken than fits");
    } catch (const tern::budget_error& e) {
        CHECK(e.needed() == 8192u);
        CHECK(e.available() == 0u);
        const std::string text = e.what();
        CHECK(text.find("the RAM") != text.npos);
        CHECK(text.find("blk.0.ffn_up.weight") != text.npos);
    }
    CHECK_THROWS_AS(static_cast<void>(memory.take(tern::unlimited, "all")), tern::budget_error);
    REQUIRE(memory.give_back(b, 1_MiB));
    CHECK(ram.used() == 0_B);
}

TEST_CASE_FIXTURE(fixture, "memory/slab_arena: where the system has no memory, what is kept goes first") {
    std::byte* a = take(1_MiB);
    std::byte* b = take(2_MiB);
    give_back(a, 1_MiB);
    give_back(b, 2_MiB);
    count.most = (2_MiB + 100_KiB).count;
    std::byte* c = take(500_KiB); // the budget wants the first of them back, the system both
    CHECK(count.held == (500_KiB).count);
    CHECK(ram.reserved() == 500_KiB);
    CHECK_THROWS_WITH_AS(static_cast<void>(take(1700_KiB)), "the system has no memory for x (needed 1740800 bytes)",
                         tern::budget_error);
    CHECK(ram.used() == 500_KiB);
    CHECK(ram.requested() == 500_KiB);
    std::byte* d = take(1600_KiB);
    CHECK(ram.reserved() == 2100_KiB);
    give_back(c, 500_KiB), give_back(d, 1600_KiB);
}

TEST_CASE("memory/slab_arena: two arenas of one parent give way to each other") {
    counted left_count, right_count;
    tern::budget ram{"ram", 10_MiB};
    tern::budget left{"left", tern::unlimited, &ram};
    tern::budget right{"right", tern::unlimited, &ram};
    pool from_left{left, left_count};
    pool from_right{right, right_count};
    std::byte* a = from_left.take(8_MiB, "a");
    REQUIRE(from_left.give_back(a, 8_MiB));
    std::byte* b = from_right.take(5_MiB, "b");
    CHECK(left_count.held == 0);
    CHECK(ram.reserved() == 5_MiB);
    CHECK_THROWS_AS(static_cast<void>(from_left.take(6_MiB, "c")), tern::budget_error);
    REQUIRE(from_right.give_back(b, 5_MiB));
    std::byte* c = from_left.take(6_MiB, "c");
    CHECK(right_count.held == 0);
    REQUIRE(from_left.give_back(c, 6_MiB));
}

TEST_CASE("memory/slab_arena: threads share slabs under one parent, and no two get the same") {
    counted count[2];
    tern::budget ram{"ram", 4_MiB};
    tern::budget budgets[2]{tern::budget{"one", 3_MiB, &ram}, tern::budget{"two", 3_MiB, &ram}};
    {
        pool pools[2]{pool{budgets[0], count[0]}, pool{budgets[1], count[1]}};
        std::atomic<bool> overwritten{false};
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < 4; ++t)
            threads.emplace_back([&, t] {
                for (unsigned i = 0; i < 300; ++i) {
                    const tern::bytes n = 64_KiB * (1 + (i * 7 + t * 3) % 12);
                    pool& from = pools[(i + t) % 2];
                    std::byte* data;
                    try {
                        data = from.take(n, "x");
                    } catch (const tern::budget_error&) { continue; }
                    const auto mark = static_cast<std::byte>(t * 64 + i % 64);
                    data[0] = data[n.count / 2] = data[n.count - 1] = mark;
                    std::this_thread::yield();
                    if (data[0] != mark || data[n.count / 2] != mark || data[n.count - 1] != mark) overwritten = true;
                    if (!from.give_back(data, n)) overwritten = true;
                }
            });
        for (auto& thread : threads) thread.join();
        CHECK_FALSE(overwritten);
        CHECK(ram.used() == 0_B);
        CHECK(ram.requested() == 0_B);
        CHECK(ram.reserved().count == count[0].held + count[1].held);
        CHECK(ram.reserved() <= ram.peak());
        CHECK(ram.peak() <= 4_MiB);
    }
    CHECK(ram.reserved() == 0_B);
    CHECK(count[0].held + count[1].held == 0);
}

#if defined(TERN_DETAIL_POISON)
TEST_CASE_FIXTURE(fixture, "memory/slab_arena: AddressSanitizer knows which bytes nobody holds") {
    std::byte* a = take(100'000_B);
    CHECK(__asan_region_is_poisoned(a, 100'000) == nullptr);
    CHECK(__asan_address_is_poisoned(a + 100'000));
    give_back(a, 100'000_B);
    CHECK(__asan_address_is_poisoned(a));
    CHECK(__asan_address_is_poisoned(a + 99'999));
    CHECK(take(90'000_B) == a);
    CHECK(__asan_region_is_poisoned(a, 90'000) == nullptr);
    CHECK(__asan_address_is_poisoned(a + 90'000));
    give_back(a, 90'000_B);
    memory.trim();
    CHECK(__asan_region_is_poisoned(a, 100 * 1024) == nullptr);
}
#endif
