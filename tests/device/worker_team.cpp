#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tern/device/worker_team.hpp>

#include "support/sanitized.hpp"

TEST_CASE("device/worker_team: every item is given out exactly once") {
    for (const std::size_t workers : {1u, 2u, 3u, 8u}) {
        tern::worker_team team{workers};
        CHECK(team.workers() == workers);
        for (const std::size_t items : {0u, 1u, 2u, 15u, 16u, 17u, 1000u}) {
            for (const std::size_t grain : {0u, 1u, 3u, 16u, 5000u}) {
                std::vector<std::atomic<int>> seen(items);
                std::atomic<bool> sound{true};
                team.run(items, grain, [&](std::size_t begin, std::size_t end) {
                    if (begin >= end || end > items) sound = false;
                    if (workers > 1 && grain > 0 && items > grain && end - begin > grain) sound = false;
                    for (std::size_t i = begin; i < end; ++i) ++seen[i];
                });
                bool once = true;
                for (const auto& n : seen) once = once && n == 1;
                CHECK(once);
                CHECK(sound);
            }
        }
    }
}

TEST_CASE("device/worker_team: other threads take part") {
    tern::worker_team team{3};
    std::atomic<int> inside{0};
    std::atomic<bool> met{false};
    // Two pieces of one operator that each wait for the other: with the caller alone this would not end.
    team.run(2, 1, [&](std::size_t, std::size_t) {
        if (++inside == 2) met = true;
        while (!met) std::this_thread::yield();
    });
    CHECK(met);
}

TEST_CASE("device/worker_team: an exception reaches the caller and the team goes on") {
    for (const std::size_t workers : {1u, 4u}) {
        tern::worker_team team{workers};
        for (int round = 0; round < 200; ++round) {
            std::string caught;
            try {
                team.run(64, 1, [&](std::size_t begin, std::size_t end) {
                    if (begin <= 20 && 20 < end) throw std::runtime_error("piece 20");
                });
            } catch (const std::runtime_error& e) { caught = e.what(); }
            if (caught != "piece 20") FAIL("the exception was lost");
            std::atomic<int> done{0};
            team.run(64, 1, [&](std::size_t begin, std::size_t end) { done += static_cast<int>(end - begin); });
            if (done != 64) FAIL("the team did not go on");
        }
    }
}

TEST_CASE("device/worker_team: every piece may throw and one exception comes out") {
    tern::worker_team team{4};
    for (int round = 0; round < 100; ++round)
        CHECK_THROWS_AS(team.run(64, 1, [](std::size_t, std::size_t) { throw std::logic_error("x"); }),
                        std::logic_error);
}

TEST_CASE("device/worker_team: pieces not begun are left out after an exception") {
    tern::worker_team team{2};
    std::atomic<int> ran{0};
    CHECK_THROWS(team.run(1'000'000, 1, [&](std::size_t, std::size_t) {
        ++ran;
        throw std::runtime_error("x");
    }));
    CHECK(ran <= 2);
}

TEST_CASE("device/worker_team: several threads share it, one operator at a time") {
    tern::worker_team team{3};
    std::atomic<int> inside[3] = {};
    std::atomic<bool> mixed{false};
    std::vector<std::thread> threads;
    std::size_t sums[3] = {};
    for (std::size_t t = 0; t < 3; ++t)
        threads.emplace_back([&, t] {
            for (int round = 0; round < 200; ++round) {
                std::size_t values[16] = {}; // not atomic: the end of run orders what the workers wrote
                team.run(16, 1, [&](std::size_t begin, std::size_t) {
                    ++inside[t];
                    if (inside[(t + 1) % 3] + inside[(t + 2) % 3] != 0) mixed = true;
                    values[begin] = begin;
                    --inside[t];
                });
                for (const std::size_t v : values) sums[t] += v;
            }
        });
    for (auto& thread : threads) thread.join();
    CHECK_FALSE(mixed);
    for (const std::size_t sum : sums) CHECK(sum == 200u * 120u);
}

TEST_CASE("device/worker_team: ten thousand small operators") {
    tern::worker_team team{2};
    std::size_t total = 0;
    for (int i = 0; i < 10'000; ++i) {
        std::atomic<std::size_t> done{0};
        team.run(4, 1, [&](std::size_t begin, std::size_t end) { done += end - begin; });
        total += done;
    }
    CHECK(total == 40'000);
}

TEST_CASE("device/worker_team: its size is checked, and unused teams end") {
    CHECK_THROWS_AS(tern::worker_team{0}, tern::config_error);
    CHECK_THROWS_AS(tern::worker_team{5000}, tern::config_error);
    for (int i = 0; i < 20; ++i) tern::worker_team unused{4};
}

#if !defined(TERN_TEST_SANITIZED) // their runtimes end the process where a thread cannot start
TEST_CASE("device/worker_team: threads that the system does not give are an error that says so") {
    const pid_t child = ::fork();
    if (child == 0) { // with an address space in which 4095 stacks have no room
        const rlimit limit{std::size_t{1} << 30, std::size_t{1} << 30};
        ::setrlimit(RLIMIT_AS, &limit);
        int code = 1;
        try {
            tern::worker_team team{4096};
        } catch (const tern::budget_error& e) {
            code = std::string(e.what()).find(" of 4096 workers: ask for fewer threads") == std::string::npos ? 2 : 0;
        } catch (...) { code = 3; }
        ::_exit(code);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}
#endif
