#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <tern/memory/budget.hpp>

using namespace tern::literals;

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
