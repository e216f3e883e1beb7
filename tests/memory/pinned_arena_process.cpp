// What needs a process of its own: a limit on locked memory and privileges given up, and the end of a program.
#include <doctest/doctest.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tern/memory/heap_arena.hpp>
#include <tern/memory/pinned_arena.hpp>
#include <tern/memory/region_arena.hpp>

#include "support/sanitized.hpp"

using namespace tern::literals;

namespace {

void fill(const tern::allocation& a, int seed) {
    for (std::size_t i = 0; i < a.size().count; i += 4096) a.data()[i] = static_cast<std::byte>(seed + int(i / 4096));
}
bool holds(const tern::allocation& a, int seed) {
    for (std::size_t i = 0; i < a.size().count; i += 4096)
        if (a.data()[i] != static_cast<std::byte>(seed + int(i / 4096))) return false;
    return true;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

// What a child wrote to its standard output and error, and how it ended.
struct ended {
    int status = -1;
    std::string output;
};
template <class F> ended in_child(F f) {
    std::cout.flush();
    std::fflush(nullptr);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::dup2(ends[1], 1);
        ::dup2(ends[1], 2);
        ::close(ends[0]);
        ::close(ends[1]);
        f();
        std::_Exit(99); // f ends the process
    }
    ::close(ends[1]);
    ended e;
    std::array<char, 512> part;
    for (ssize_t got; (got = ::read(ends[0], part.data(), part.size())) > 0;)
        e.output.append(part.data(), static_cast<std::size_t>(got));
    ::close(ends[0]);
    ::waitpid(child, &e.status, 0);
    return e;
}

// Alive from before main until after it.
tern::heap_arena static_ram{64_MiB};
tern::pinned_arena static_pinned{{.limit = 16_MiB, .parent = &static_ram.budget()}};
tern::region_arena static_card{{tern::tier_of<tern::vram>, 0, 0}, 4_MiB};
tern::allocation static_small = static_ram.allocate(100_B, "small");
tern::allocation static_slab = static_ram.allocate(1_MiB, "slab");
tern::allocation static_locked = static_pinned.allocate(64_KiB, "locked");
tern::allocation static_weight = static_card.allocate(2_MiB, "weight");

} // namespace

TEST_CASE("memory/pinned_arena_process: with 64 KiB of lockable memory and no privilege the run goes on, warned once") {
    const ended e = in_child([] {
        rlimit limit{64 * 1024, 64 * 1024};
        if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) std::_Exit(3);
        __user_cap_header_struct caller{_LINUX_CAPABILITY_VERSION_3, 0};
        __user_cap_data_struct none[2]{};
        if (::syscall(SYS_capset, &caller, none) != 0) std::_Exit(4); // CAP_IPC_LOCK among them
        std::vector<std::string> warnings;
        tern::pinned_options options{.warn = [&](std::string_view text) { warnings.emplace_back(text); }};
#if defined(TERN_TEST_SANITIZED) // their runtimes make mlock a sham
        options.lock = [](void* data, std::size_t size) { return ::syscall(SYS_mlock, data, size) == 0 ? 0 : errno; };
#endif
        {
            tern::pinned_arena strict{{.strict = true, .lock = options.lock}};
            try {
                static_cast<void>(strict.allocate(8_MiB, "w"));
                std::_Exit(5);
            } catch (const tern::budget_error& error) {
                if (error.needed() != (8_MiB).count || error.available() != 65536u) std::_Exit(6);
            }
        }
        tern::pinned_arena pinned{options};
        const tern::allocation little = pinned.allocate(32_KiB, "little");
        if (!pinned.status().all_locked) std::_Exit(7);
        const tern::allocation a = pinned.allocate(8_MiB, "w");
        const tern::allocation b = pinned.allocate(8_MiB, "v");
        fill(a, 1), fill(b, 2);
        const tern::pinned_status s = pinned.status();
        if (!holds(a, 1) || !holds(b, 2)) std::_Exit(8);
        if (s.all_locked || s.locked != 32_KiB || s.obtained != 16_MiB + 32_KiB) std::_Exit(9);
        if (!contains(s.why, "(RLIMIT_MEMLOCK) is 65536 bytes, 32768 bytes are locked here")) std::_Exit(10);
        if (warnings.size() != 1) std::_Exit(11);
        std::puts(warnings[0].c_str());
        std::fflush(stdout);
        std::_Exit(0);
    });
    CHECK(WIFEXITED(e.status));
    CHECK(WEXITSTATUS(e.status) == 0);
    CHECK(contains(e.output, "cannot lock memory for w: Cannot allocate memory"));
    CHECK(contains(e.output, "ulimit -l"));
}

TEST_CASE("memory/pinned_arena_process: static arenas and allocations end silently") {
    CHECK(static_ram.budget().used() == static_small.size() + static_slab.size() + static_locked.size());
    const ended e = in_child([] {
        static_slab = static_ram.allocate(2_MiB, "another");
        static_weight = static_card.allocate(1_MiB, "another");
        std::exit(0);
    });
    CHECK(WIFEXITED(e.status));
    CHECK(WEXITSTATUS(e.status) == 0);
    CHECK(e.output == "");
}
