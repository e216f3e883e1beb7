#include <doctest/doctest.h>

#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <tern/memory/budget.hpp>

using namespace tern::literals;

namespace {

// Keeps what is given back, as an arena of slabs does.
class shelf final : tern::keeper {
public:
    explicit shelf(tern::budget& of) : keeper(of) { join(); }
    ~shelf() {
        {
            const auto held = lock();
            while (let_go()) {}
        }
        leave();
    }

    void take(std::uint64_t n) {
        const auto held = lock();
        keeper::take(n, "x", n);
    }
    void put(std::uint64_t n) {
        const auto held = lock();
        kept.push_back(n);
        keep(n, n);
    }
    void take_again() {
        const auto held = lock();
        reuse(kept.back(), kept.back());
        kept.pop_back();
    }

    std::deque<std::uint64_t> kept;

private:
    bool let_go() noexcept override {
        if (kept.empty()) return false;
        drop(kept.front());
        kept.pop_front();
        return true;
    }
};

} // namespace

TEST_CASE("memory/budget: used, peak and available are counted") {
    tern::budget ram{"ram", 100_B};
    CHECK(ram.name() == "ram");
    CHECK(ram.limit() == 100_B);
    ram.take(60_B, "a");
    ram.take(40_B, "b");
    CHECK(ram.used() == 100_B);
    CHECK(ram.available() == 0_B);
    ram.give_back(60_B);
    ram.take(10_B, "c");
    CHECK(ram.used() == 50_B);
    CHECK(ram.available() == 50_B);
    CHECK(ram.peak() == 100_B);
}

TEST_CASE("memory/budget: what does not fit is refused whole, with the numbers") {
    tern::budget ram{"ram", 100_B};
    ram.take(60_B, "a");
    try {
        ram.take(41_B, "blk.0.ffn_up.weight");
        FAIL("41 bytes went into 40");
    } catch (const tern::budget_error& e) {
        CHECK(e.needed() == 41u);
        CHECK(e.available() == 40u);
        const std::string text = e.what();
        CHECK(text.find("ram") != text.npos);
        CHECK(text.find("blk.0.ffn_up.weight") != text.npos);
        CHECK(text.find("41") != text.npos);
        CHECK(text.find("40") != text.npos);
    }
    CHECK(ram.used() == 60_B);
    CHECK(ram.peak() == 60_B);
    CHECK_THROWS_AS(ram.take({std::numeric_limits<std::uint64_t>::max()}, "all"), tern::budget_error);
    ram.take(40_B, "b");
    ram.take(0_B, "nothing");
    CHECK_THROWS_AS(ram.give_back(101_B), tern::shape_error);
}

TEST_CASE("memory/budget: an unlimited one does not wrap") {
    tern::budget ram{"ram"};
    ram.take({std::numeric_limits<std::uint64_t>::max()}, "all");
    CHECK(ram.available() == 0_B);
    CHECK_THROWS_AS(ram.take(1_B, "one more"), tern::budget_error);
}

TEST_CASE("memory/budget: threads never exceed it together") {
    tern::budget ram{"ram", 64_B};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 1000; ++i) {
                try {
                    ram.take(32_B, "x");
                } catch (const tern::budget_error&) { continue; }
                ram.give_back(32_B);
            }
        });
    for (auto& thread : threads) thread.join();
    CHECK(ram.used() == 0_B);
    CHECK(ram.peak() <= 64_B);
    CHECK(ram.peak() >= 32_B);
}

TEST_CASE("memory/budget: what is requested is counted beside what is obtained") {
    tern::budget ram{"ram", 100_B};
    ram.take(64_B, "a", 50_B);
    ram.take(10_B, "b");
    CHECK(ram.requested() == 60_B);
    CHECK(ram.used() == 74_B);
    CHECK_THROWS_AS(ram.give_back(64_B, 61_B), tern::shape_error);
    CHECK(ram.used() == 74_B);
    ram.give_back(64_B, 50_B);
    CHECK(ram.requested() == 10_B);
    CHECK(ram.used() == 10_B);
    CHECK(ram.reserved() == 10_B);
    CHECK(ram.peak() == 74_B);
}

TEST_CASE("memory/budget: a parent counts the same bytes, and both refuse or neither") {
    tern::budget ram{"ram", 100_B};
    tern::budget pinned{"pinned", 60_B, &ram};
    tern::budget part{"part", tern::unlimited, &pinned};
    part.take(50_B, "a", 40_B);
    for (const tern::budget* b : {&ram, &pinned, &part}) {
        CHECK(b->used() == 50_B);
        CHECK(b->requested() == 40_B);
        CHECK(b->peak() == 50_B);
    }
    CHECK(part.available() == 10_B);
    const auto refused_by = [&](const char* name, tern::bytes n, std::uint64_t available) {
        try {
            part.take(n, "b");
            FAIL("more was taken than fits");
        } catch (const tern::budget_error& e) {
            CHECK(std::string(e.what()).find(name) != std::string::npos);
            CHECK(e.needed() == n.count);
            CHECK(e.available() == available);
        }
    };
    refused_by("budget of pinned", 11_B, 10);
    ram.take(45_B, "c");
    CHECK(part.available() == 5_B);
    refused_by("budget of ram", 10_B, 5);
    CHECK(part.used() == 50_B);
    CHECK(pinned.used() == 50_B);
    CHECK(ram.used() == 95_B);
    part.give_back(50_B, 40_B);
    CHECK(part.used() == 0_B);
    CHECK(pinned.requested() == 0_B);
    CHECK(ram.used() == 45_B);
}

TEST_CASE("memory/budget: what is kept gives way to a request, the oldest first, and never exceeds the peak") {
    tern::budget ram{"ram", 100_B};
    shelf keeps{ram};
    for (const std::uint64_t n : {10, 20, 30}) keeps.take(n);
    for (const std::uint64_t n : {10, 20, 30}) keeps.put(n);
    CHECK(ram.used() == 0_B);
    CHECK(ram.requested() == 0_B);
    CHECK(ram.reserved() == 60_B);
    CHECK(ram.available() == 100_B);
    ram.take(5_B, "a"); // the peak was 60
    CHECK(keeps.kept == std::deque<std::uint64_t>{20, 30});
    CHECK(ram.reserved() == 55_B);
    ram.take(5_B, "b");
    CHECK(keeps.kept.size() == 2);
    CHECK(ram.reserved() == 60_B);
    keeps.take_again();
    CHECK(ram.used() == 40_B);
    CHECK(ram.reserved() == 60_B);
    ram.take(60_B, "c");
    CHECK(keeps.kept.empty());
    CHECK(ram.reserved() == 100_B);
    CHECK_THROWS_AS(ram.take(1_B, "d"), tern::budget_error);
    keeps.put(30);
    ram.give_back(70_B);
    CHECK(ram.reserved() == 30_B);
}

TEST_CASE("memory/budget: a parent's request takes what its children keep, and no one else's") {
    tern::budget ram{"ram", 100_B};
    tern::budget left{"left", tern::unlimited, &ram};
    tern::budget right{"right", 40_B, &ram};
    shelf of_right{right};
    shelf of_left{left}; // asked first
    of_left.take(60);
    of_right.take(20);
    of_right.take(20);
    of_left.put(60);
    of_right.put(20);
    of_right.put(20);
    CHECK(ram.reserved() == 100_B);
    right.take(30_B, "a"); // right's own limit and peak hold; left keeps what it has
    CHECK(of_left.kept.size() == 1);
    CHECK(of_right.kept.empty());
    right.give_back(30_B);
    ram.take(50_B, "b");
    CHECK(of_left.kept.empty());
    CHECK(ram.used() == 50_B);
    CHECK(left.reserved() == 0_B);
    ram.give_back(50_B);
}
