#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tern/async/loop_thread.hpp>
#include <tern/async/run_loop.hpp>
#include <tern/async/when_all.hpp>

#include "support/sanitized.hpp"

namespace {

using tern::task;

task<std::thread::id> visit(tern::run_loop& there) {
    co_await there.schedule();
    co_return std::this_thread::get_id();
}
task<int> back_and_forth(tern::run_loop& home, tern::run_loop& there, int times) {
    const std::thread::id here = std::this_thread::get_id();
    int right = 0;
    for (int i = 0; i < times; ++i) {
        co_await there.schedule();
        right += std::this_thread::get_id() != here;
        co_await home.schedule();
        right += std::this_thread::get_id() == here;
    }
    co_return right;
}
task<> throw_there(tern::run_loop& there) {
    co_await there.schedule();
    throw std::out_of_range("there");
}

} // namespace

TEST_CASE("async/loop_thread: coroutines go on in its one thread") {
    tern::run_loop home;
    tern::loop_thread other;
    const auto [a, b] = home.run(tern::when_all(visit(other.loop()), visit(other.loop())));
    CHECK(a != std::this_thread::get_id());
    CHECK(a == b);
    tern::loop_thread third;
    CHECK(home.run(visit(third.loop())) != a);
}

TEST_CASE("async/loop_thread: many coroutines go there and come home, and so do their errors") {
    tern::run_loop home;
    tern::loop_thread other;
    std::vector<task<int>> all;
    for (int i = 0; i < 20; ++i) all.push_back(back_and_forth(home, other.loop(), 50));
    for (const int right : home.run(tern::when_all(std::move(all)))) CHECK(right == 100);
    CHECK_THROWS_AS(home.run(throw_there(other.loop())), std::out_of_range);
}

TEST_CASE("async/loop_thread: it ends at once, unused or just used") {
    tern::run_loop home;
    for (int i = 0; i < 200; ++i) {
        auto other = std::make_unique<tern::loop_thread>();
        if (i % 2 == 0 && home.run(visit(other->loop())) == std::this_thread::get_id()) FAIL("it did not leave");
        other.reset();
    }
}

#if !defined(TERN_TEST_SANITIZED) // their runtimes end the process where a thread cannot start
TEST_CASE("async/loop_thread: a thread that the system does not give is an error that says so") {
    const pid_t child = ::fork();
    if (child == 0) { // with an address space in which 4095 stacks have no room
        const rlimit limit{std::size_t{1} << 30, std::size_t{1} << 30};
        ::setrlimit(RLIMIT_AS, &limit);
        std::vector<std::unique_ptr<tern::loop_thread>> threads;
        try {
            while (threads.size() < 4095) threads.push_back(std::make_unique<tern::loop_thread>());
        } catch (const tern::budget_error& e) {
            ::_exit(std::string(e.what()).find("no thread for a loop") == std::string::npos ? 2 : 0);
        } catch (...) { ::_exit(3); }
        ::_exit(1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}
#endif
