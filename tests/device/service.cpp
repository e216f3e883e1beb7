#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <tern/async/run_loop.hpp>
#include <tern/async/when_all.hpp>
#include <tern/device/service.hpp>

namespace {

struct call {
    int number = 0;
    tern::run_loop* home = nullptr;
    tern::run_loop::node done{};
    std::exception_ptr error{};
    call* next = nullptr;
};

struct log_calls {
    std::vector<int>* served;
    std::vector<std::thread::id>* threads;
    void operator()(call& c) const {
        if (c.number < 0) throw std::invalid_argument("a negative number");
        served->push_back(c.number);
        threads->push_back(std::this_thread::get_id());
    }
};

using service = tern::service<call, log_calls>;

struct served {
    service& by;
    call what;

    bool await_ready() const noexcept { return false; }
    [[gnu::noinline]] void await_suspend(std::coroutine_handle<> waiter) {
        what.done.handle = waiter;
        by.submit(what);
    }
    int await_resume() const {
        if (what.error) std::rethrow_exception(what.error);
        return what.number;
    }
};

tern::task<int> ask(service& by, tern::run_loop& home, int number) {
    co_return co_await served{by, {.number = number, .home = &home}};
}

} // namespace

TEST_CASE("device/service: calls are served in their order on one thread of its own") {
    tern::run_loop home;
    std::vector<int> log;
    std::vector<std::thread::id> threads;
    {
        service by{{&log, &threads}};
        std::vector<tern::task<int>> asked;
        for (int i = 0; i < 100; ++i) asked.push_back(ask(by, home, i));
        const std::vector<int> got = home.run(tern::when_all(std::move(asked)));
        REQUIRE(got.size() == 100);
        for (int i = 0; i < 100; ++i) CHECK(got[static_cast<std::size_t>(i)] == i);
    }
    REQUIRE(log.size() == 100);
    for (int i = 0; i < 100; ++i) CHECK(log[static_cast<std::size_t>(i)] == i);
    for (const auto& id : threads) {
        CHECK(id == threads.front());
        CHECK(id != std::this_thread::get_id());
    }
}

TEST_CASE("device/service: an exception is kept for its own call, of its own type") {
    tern::run_loop home;
    std::vector<int> log;
    std::vector<std::thread::id> threads;
    service by{{&log, &threads}};
    CHECK_THROWS_AS(home.run(ask(by, home, -1)), std::invalid_argument);
    CHECK(home.run(ask(by, home, 5)) == 5);
    CHECK(log == std::vector<int>{5});
}

TEST_CASE("device/service: its end finishes what was submitted") {
    tern::run_loop home;
    std::vector<int> log;
    std::vector<std::thread::id> threads;
    std::vector<call> calls(50);
    {
        service by{{&log, &threads}};
        for (int i = 0; i < 50; ++i) {
            calls[static_cast<std::size_t>(i)] = {.number = i, .home = &home};
            by.submit(calls[static_cast<std::size_t>(i)]);
        }
    }
    CHECK(log.size() == 50);
    service idle{{&log, &threads}}; // one without calls ends too
}
