#include <tern/async/sync_wait.hpp>

#include <atomic>
#include <thread>

#include <doctest/doctest.h>

#include <tern/async/event.hpp>
#include <tern/async/thread_executor.hpp>

#include "async/started.hpp"

using tern::sync_wait;
using tern::task;

TEST_CASE("async/sync_wait: 100,000 times on a pool of two threads") {
    tern::thread_executor pool{2};
    const auto hop = [](tern::thread_executor& p, int n) -> task<int> {
        co_await p.schedule();
        co_return n;
    };
    long sum = 0;
    for (int i = 0; i < 100'000; ++i) sum += sync_wait(hop(pool, i));
    CHECK(sum == 99'999L * 100'000 / 2);
}

TEST_CASE("async/sync_wait: from several threads at once") {
    tern::thread_executor pool{2};
    std::atomic<int> sum{0};
    const auto hop = [](tern::thread_executor& p) -> task<int> {
        co_await p.schedule();
        co_return 1;
    };
    const auto many = [&] {
        for (int i = 0; i < 2'000; ++i) sum += sync_wait(hop(pool));
    };
    std::thread a(many), b(many);
    many();
    a.join();
    b.join();
    CHECK(sum == 6'000);
}

TEST_CASE("async/sync_wait: inside a coroutine it lets what was set ready go on first") {
    tern::async_event asked, answered;
    const auto answer = [](tern::async_event& wait, tern::async_event& then) -> task<> {
        co_await wait;
        then.set();
    };
    const auto wait_for = [](tern::async_event& e) -> task<int> {
        co_await e;
        co_return 3;
    };
    const auto outer = [&](tern::async_event& ask) -> task<int> {
        ask.set();                               // the answerer becomes ready, and runs after this suspends ...
        co_return sync_wait(wait_for(answered)); // ... which it never does: it blocks
    };
    const started answerer(answer(asked, answered));
    CHECK(sync_wait(outer(asked)) == 3);
    CHECK(answerer.finished);
}
