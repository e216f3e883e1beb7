#include <tern/async/stop.hpp>

#include <thread>

#include <doctest/doctest.h>

#include <tern/async/sync_wait.hpp>
#include <tern/async/thread_executor.hpp>

#include "async/started.hpp"

using tern::sync_wait;
using tern::task;

namespace {

task<> until(std::stop_token token, int& resumed) {
    co_await tern::until_stopped(std::move(token));
    ++resumed;
}

} // namespace

TEST_CASE("async/stop: throw_if_stopped") {
    std::stop_source stop;
    CHECK_NOTHROW(tern::throw_if_stopped(stop.get_token()));
    CHECK_NOTHROW(tern::throw_if_stopped({}));
    stop.request_stop();
    CHECK_THROWS_AS(tern::throw_if_stopped(stop.get_token()), tern::stopped_error);
}

TEST_CASE("async/stop: until_stopped completes once, when stop is requested or when it was") {
    std::stop_source stop;
    int resumed = 0;
    const started waits(until(stop.get_token(), resumed));
    CHECK(resumed == 0);
    stop.request_stop();
    CHECK(resumed == 1);
    stop.request_stop();
    CHECK(resumed == 1);
    sync_wait(until(stop.get_token(), resumed));
    CHECK(resumed == 2);
}

TEST_CASE("async/stop: a token that cannot be stopped is refused") {
    int resumed = 0;
    CHECK_THROWS_AS(sync_wait(until({}, resumed)), tern::config_error);
}

TEST_CASE("async/stop: a waiting task may be destroyed") {
    std::stop_source stop;
    int resumed = 0;
    {
        const started waits(until(stop.get_token(), resumed));
        CHECK_FALSE(waits.finished);
    }
    stop.request_stop();
    CHECK(resumed == 0);
}

TEST_CASE("async/stop: a stop that comes while the wait begins is not lost") {
    tern::thread_executor pool{1};
    int resumed = 0;
    for (int i = 0; i < 3'000; ++i) {
        std::stop_source stop;
        const auto request = [](tern::thread_executor& p, std::stop_source s) -> task<> {
            co_await p.schedule();
            s.request_stop();
        };
        const started stopper(request(pool, stop));
        sync_wait(until(stop.get_token(), resumed));
        const auto drain = [](tern::thread_executor& p) -> task<> { co_await p.schedule(); };
        sync_wait(drain(pool)); // the stopper has ended
    }
    CHECK(resumed == 3'000);
}
