#include <tern/async/real_clock.hpp>

#include <ctime>
#include <limits>
#include <memory>
#include <thread>

#include <doctest/doctest.h>

#include <tern/async/sync_wait.hpp>
#include <tern/async/thread_executor.hpp>
#include <tern/async/when_all.hpp>

#include "async/started.hpp"

using tern::sync_wait;
using tern::task;
using namespace tern::literals;

namespace {

constexpr tern::seconds forever{std::numeric_limits<double>::infinity()};

task<> sleep(tern::clock& c, tern::seconds t, std::stop_token stop) { co_await c.sleep_for(t, std::move(stop)); }

} // namespace

TEST_CASE("async/real_clock: sleeps no shorter than asked, on its own thread") {
    tern::real_clock c;
    const auto work = [](tern::clock& time, std::thread::id caller) -> task<> {
        const auto start = time.now();
        co_await time.sleep_for(0.02_s);
        CHECK(time.now() >= start + 0.02_s);
        CHECK(std::this_thread::get_id() != caller);
    };
    sync_wait(work(c, std::this_thread::get_id()));
}

TEST_CASE("async/real_clock: waiting takes no processor time") {
    tern::real_clock c;
    const std::clock_t before = std::clock();
    sync_wait(sleep(c, 0.5_s, {}));
    CHECK(std::clock() - before < CLOCKS_PER_SEC / 4); // processor time: a spinning thread would use 0.5 s
}

TEST_CASE("async/real_clock: a stop ends a sleep, however long, from any thread") {
    tern::real_clock c;
    std::stop_source stop;
    const auto request = [](tern::clock& time, std::stop_source s) -> task<> {
        co_await time.sleep_for(0.01_s);
        s.request_stop();
    };
    CHECK_THROWS_AS(sync_wait(tern::when_all(sleep(c, forever, stop.get_token()), request(c, stop))),
                    tern::stopped_error);
    CHECK_THROWS_AS(sync_wait(sleep(c, 1e300_s, stop.get_token())), tern::stopped_error); // stopped already
}

TEST_CASE("async/real_clock: a stop and the time that come together resume once") {
    tern::real_clock c;
    tern::thread_executor pool{1};
    const auto race = [](tern::clock& time, std::stop_token token, int& n) -> task<> {
        try {
            co_await time.sleep_for(20.0_us, token);
        } catch (const tern::stopped_error&) {}
        ++n;
    };
    const auto request = [](tern::clock& time, tern::thread_executor& p, std::stop_source s) -> task<> {
        co_await p.schedule();
        const auto until = time.now() + 20.0_us;
        while (time.now() < until) {}
        s.request_stop();
    };
    int resumed = 0;
    for (int i = 0; i < 2'000; ++i) {
        std::stop_source stop;
        sync_wait(tern::when_all(request(c, pool, stop), race(c, stop.get_token(), resumed)));
    }
    CHECK(resumed == 2'000);
}

TEST_CASE("async/real_clock: one that was never used, and one whose sleeper is gone, end at once") {
    const tern::real_clock unused;
    CHECK(unused.now().count >= 0);
    tern::real_clock c;
    const auto s = std::make_unique<started>(sleep(c, forever, {}));
    CHECK_FALSE(s->finished);
}
