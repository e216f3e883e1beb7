#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>

#include <tern/memory/heap_arena.hpp>
#include <tern/memory/pinned_arena.hpp>

#include "support/sanitized.hpp"

using namespace tern::literals;

namespace {

// Locks nothing and says that it did, up to a limit on all of it together.
struct lock_up_to {
    std::uint64_t limit;
    std::uint64_t locked = 0;
    int calls = 0;

    auto function() {
        return [this](void*, std::size_t size) {
            ++calls;
            if (size > limit - locked) return ENOMEM;
            locked += size;
            return 0;
        };
    }
};

// Pages that are counted, of one arena at a time.
struct counting_pages : tern::locked_pages {
    static inline std::uint64_t held = 0;
    static inline std::uint64_t peak = 0;
    static inline int obtained = 0;

    using tern::locked_pages::locked_pages;
    tern::page_run obtain(std::uint64_t size, std::string_view what) {
        const tern::page_run run = tern::locked_pages::obtain(size, what);
        ++obtained;
        held += size;
        if (held > peak) peak = held;
        return run;
    }
    void give_back(tern::page_run run, std::uint64_t size) noexcept {
        held -= size;
        tern::locked_pages::give_back(run, size);
    }
};
static_assert(tern::page_source<counting_pages>);

void fill(const tern::allocation& a, int seed) {
    for (std::size_t i = 0; i < a.size().count; i += 4096) a.data()[i] = static_cast<std::byte>(seed + int(i / 4096));
}
bool holds(const tern::allocation& a, int seed) {
    for (std::size_t i = 0; i < a.size().count; i += 4096)
        if (a.data()[i] != static_cast<std::byte>(seed + int(i / 4096))) return false;
    return true;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

int no_lock(void*, std::size_t) { return 0; }

} // namespace

TEST_CASE("memory/pinned_arena: memory is locked, counted in whole pages, and counted by the parent") {
    tern::heap_arena ram{64_MiB};
    tern::pinned_arena pinned{{.limit = 32_MiB, .parent = &ram.budget(), .lock = no_lock}};
    CHECK(pinned.where() == tern::location{tern::tier_of<tern::pinned>, 0, 0});
    CHECK(tern::to_string(pinned.where()) == "pinned");
    CHECK(pinned.status().all_locked);
    {
        const tern::allocation a = pinned.allocate(5_MiB + 1_B, "a");
        const tern::allocation b = pinned.allocate(0_B, "b");
        CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % 4096 == 0);
        CHECK(b.data() != nullptr);
        fill(a, 3);
        CHECK(holds(a, 3));
        const tern::pinned_status s = pinned.status();
        CHECK(s.requested == 5_MiB + 1_B);
        CHECK(s.obtained == 5_MiB + 8_KiB);
        CHECK(s.locked == s.obtained);
        CHECK(s.peak == s.obtained);
        CHECK(s.all_locked);
        CHECK(s.why.empty());
        CHECK(ram.budget().used() == s.obtained);
    }
    CHECK(pinned.status().locked == 0_B);
    CHECK(pinned.status().peak == 5_MiB + 8_KiB);
    CHECK(pinned.budget().used() == 0_B);
    CHECK(ram.budget().used() == 0_B);
    CHECK(pinned.reserved() == 5_MiB + 8_KiB);
    const tern::allocation all = ram.allocate(64_MiB, "all"); // what is kept gives way
    CHECK(pinned.reserved() == 0_B);
    CHECK_THROWS_AS(static_cast<void>(pinned.allocate(1_B, "c")), tern::budget_error);
}

TEST_CASE("memory/pinned_arena: the system locks what it is asked to" * doctest::skip([] {
              rlimit limit{};
              ::getrlimit(RLIMIT_MEMLOCK, &limit);
              return limit.rlim_cur < 64 * 1024;
          }())) {
    tern::pinned_arena pinned;
    const tern::allocation a = pinned.allocate(32_KiB, "a");
    CHECK(pinned.status().locked == 32_KiB);
#if !defined(TERN_TEST_SANITIZED) // their runtimes make mlock a sham
    std::FILE* self = std::fopen("/proc/self/status", "r");
    REQUIRE(self != nullptr);
    char line[256];
    long locked = 0;
    while (std::fgets(line, sizeof line, self) != nullptr) std::sscanf(line, "VmLck: %ld kB", &locked);
    std::fclose(self);
    CHECK(locked >= 32);
#endif
}

TEST_CASE("memory/pinned_arena: locked pages count what they hold locked") {
    int calls = 0;
    tern::locked_pages pages{{.lock = [&](void*, std::size_t) { return ++calls == 2 ? ENOMEM : 0; }}};
    const tern::page_run a = pages.obtain(8192, "a");
    CHECK(a.locked);
    CHECK(pages.why().empty());
    const tern::page_run b = pages.obtain(4096, "b");
    CHECK(b.data != nullptr);
    CHECK_FALSE(b.locked);
    CHECK(pages.locked() == 8_KiB);
    CHECK(contains(pages.why(), "for b: Cannot allocate memory"));
    pages.give_back(b, 4096);
    CHECK(pages.locked() == 8_KiB);
    pages.give_back(a, 8192);
    CHECK(pages.locked() == 0_B);
}

TEST_CASE("memory/pinned_arena: where locking fails above 64 MiB, memory serves unlocked and the numbers say so") {
    lock_up_to limit{(64_MiB).count};
    std::vector<std::string> warnings;
    tern::pinned_arena pinned{
        {.lock = limit.function(), .warn = [&](std::string_view text) { warnings.emplace_back(text); }}};
    std::deque<tern::allocation> parts;
    for (int i = 0; i < 24; ++i) {
        parts.push_back(pinned.allocate(4_MiB, "blk." + std::to_string(i)));
        fill(parts.back(), i);
    }
    for (int i = 0; i < 24; ++i) CHECK(holds(parts[static_cast<std::size_t>(i)], i));
    tern::pinned_status s = pinned.status();
    CHECK(s.requested == 96_MiB);
    CHECK(s.obtained == 96_MiB);
    CHECK(s.locked == 64_MiB);
    CHECK_FALSE(s.all_locked);
    CHECK(contains(s.why, "RLIMIT_MEMLOCK"));
    CHECK(contains(s.why, "67108864 bytes are locked here"));
    CHECK(contains(s.why, "blk.23"));
    REQUIRE(warnings.size() == 1);
    CHECK(contains(warnings[0], "blk.16"));
    CHECK(contains(warnings[0], "unlocked"));
    while (parts.size() > 16) parts.pop_back();
    s = pinned.status();
    CHECK(s.all_locked);
    CHECK(s.why.empty());
    CHECK(s.peak == 96_MiB);
}

TEST_CASE("memory/pinned_arena: strict refuses what cannot be locked, and works on") {
    lock_up_to limit{(64_MiB).count};
    int warnings = 0;
    tern::heap_arena ram;
    tern::pinned_arena pinned{
        {.parent = &ram.budget(), .strict = true, .lock = limit.function(), .warn = [&](std::string_view) {
             ++warnings;
         }}};
    const tern::allocation first = pinned.allocate(60_MiB, "first");
    try {
        static_cast<void>(pinned.allocate(8_MiB, "blk.9.ffn_up.weight"));
        FAIL("68 MiB were locked where 64 are");
    } catch (const tern::budget_error& e) {
        CHECK(e.needed() == (8_MiB).count);
        CHECK(e.available().has_value());
        CHECK(contains(e.what(), "blk.9.ffn_up.weight"));
        CHECK(contains(e.what(), "cannot lock"));
        CHECK(contains(e.what(), "available"));
    }
    CHECK(warnings == 0);
    CHECK(ram.budget().used() == 60_MiB);
    CHECK(ram.budget().reserved() == 60_MiB);
    const tern::allocation second = pinned.allocate(4_MiB, "second");
    CHECK(pinned.status().all_locked);
}

TEST_CASE("memory/pinned_arena: pinning 64 MiB takes 64 MiB and the declared staging") {
    tern::basic_pinned_arena<counting_pages> pinned{{.lock = no_lock}};
    constexpr tern::bytes staging = 8_MiB; // two chunks of 4 MiB
    for (int pass = 0; pass < 3; ++pass) {
        std::vector<tern::allocation> weights;
        for (int i = 0; i < 16; ++i) {
            const tern::allocation chunks[] = {pinned.allocate(4_MiB, "staging"), pinned.allocate(4_MiB, "staging")};
            fill(chunks[0], i);
            weights.push_back(pinned.allocate(4_MiB, "weight"));
            std::memcpy(weights.back().data(), chunks[0].data(), (4_MiB).count);
        }
        for (int i = 0; i < 16; ++i) CHECK(holds(weights[static_cast<std::size_t>(i)], i));
    }
    CHECK(counting_pages::peak <= (64_MiB + staging).count);
    CHECK(counting_pages::obtained == 18); // the later passes asked the system for nothing
    CHECK(pinned.status().peak == 64_MiB + staging);
    pinned.trim();
    CHECK(counting_pages::held == 0);
}

TEST_CASE("memory/pinned_arena: a switch set to 0 is off") {
    lock_up_to never{0};
    int warnings = 0;
    tern::pinned_arena pinned{
        {.strict = true, .enabled = tern::parse_switch("0"), .lock = never.function(), .warn = [&](std::string_view) {
             ++warnings;
         }}};
    const tern::allocation a = pinned.allocate(8_MiB, "a");
    fill(a, 1);
    CHECK(holds(a, 1));
    CHECK(never.calls == 0);
    CHECK(warnings == 0);
    const tern::pinned_status s = pinned.status();
    CHECK(s.why == "off");
    CHECK_FALSE(s.all_locked);
    CHECK(s.locked == 0_B);
    CHECK(s.obtained == 8_MiB);

    for (const char* text : {"1", "on", "yes", "true"}) CHECK(tern::parse_switch(text));
    for (const char* text : {"0", "off", "no", "false"}) CHECK_FALSE(tern::parse_switch(text));
    CHECK_THROWS_WITH_AS(static_cast<void>(tern::parse_switch("maybe")),
                         "\"maybe\" is no switch: write 1 or 0, on or off", tern::config_error);
    CHECK_THROWS_AS(static_cast<void>(tern::parse_switch("")), tern::config_error);
}

TEST_CASE("memory/pinned_arena: a full tier names itself, what for, needed and available") {
    tern::budget ram{"RAM", 10_MiB};
    tern::pinned_arena pinned{{.limit = 8_MiB, .parent = &ram, .lock = no_lock}};
    const tern::allocation first = pinned.allocate(6_MiB, "first");
    const auto refused = [&](const char* whose, std::uint64_t available) {
        try {
            static_cast<void>(pinned.allocate(3_MiB, "token_embd.weight"));
            FAIL("more was pinned than fits");
        } catch (const tern::budget_error& e) {
            CHECK(contains(e.what(), whose));
            CHECK(contains(e.what(), "token_embd.weight"));
            CHECK(e.needed() == (3_MiB).count);
            CHECK(e.available() == available);
        }
    };
    refused("pinned memory", (2_MiB).count);
    ram.take(3_MiB, "other");
    CHECK(pinned.budget().available() == 1_MiB);
    refused("pinned memory", (2_MiB).count);
    {
        tern::pinned_arena another{{.parent = &ram, .lock = no_lock}};
        CHECK_THROWS_WITH_AS(
            static_cast<void>(another.allocate(2_MiB, "w")),
            "the budget of RAM is too small for w: raise it or place less there (needed 2097152 bytes, "
            "available 1048576 bytes)",
            tern::budget_error);
    }
    CHECK(pinned.status().obtained == 6_MiB);
    ram.give_back(3_MiB);
}

TEST_CASE("memory/pinned_arena: a lock or a warning that throws leaves nothing behind") {
    tern::heap_arena ram;
    for (const bool in_lock : {true, false}) {
        bool armed = true;
        void* failed_at = nullptr;
        const auto lock = [&](void* data, std::size_t) {
            if (!armed) return 0;
            failed_at = data;
            if (in_lock) throw tern::config_error("no");
            return EPERM;
        };
        const auto warn = [](std::string_view text) {
            CHECK(contains(std::string(text), "not permitted"));
            throw tern::config_error("no");
        };
        tern::pinned_arena pinned{{.parent = &ram.budget(), .lock = lock, .warn = warn}};
        CHECK_THROWS_AS(static_cast<void>(pinned.allocate(1_MiB, "a")), tern::config_error);
        REQUIRE(failed_at != nullptr);
        CHECK(::msync(failed_at, 4096, MS_ASYNC) != 0); // no longer mapped
        CHECK(ram.budget().reserved() == 0_B);
        CHECK(ram.budget().requested() == 0_B);
        armed = false;
        const tern::allocation a = pinned.allocate(1_MiB, "a");
        CHECK(pinned.status().all_locked);
    }
}

TEST_CASE("memory/pinned_arena: threads pin together, and one warning is given") {
    std::atomic<int> warnings{0};
    std::atomic<std::uint64_t> locks{0};
    tern::pinned_arena pinned{{.limit = 64_MiB,
                               .lock = [&](void*, std::size_t) { return locks++ % 2 == 0 ? 0 : EAGAIN; },
                               .warn = [&](std::string_view) { ++warnings; }}};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (unsigned i = 0; i < 100; ++i) {
                const tern::allocation a = pinned.allocate(64_KiB * (1 + (i + t) % 9), "x");
                fill(a, static_cast<int>(t));
                static_cast<void>(pinned.status());
            }
        });
    for (auto& thread : threads) thread.join();
    CHECK(warnings == 1);
    const tern::pinned_status s = pinned.status();
    CHECK(s.requested == 0_B);
    CHECK(s.obtained == 0_B);
    CHECK(s.locked == 0_B);
    CHECK(pinned.reserved() <= s.peak);
}
