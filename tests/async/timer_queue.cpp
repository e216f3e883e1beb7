#include <tern/async/timer_queue.hpp>

#include <algorithm>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

using tern::seconds;
using tern::timer;

namespace {

constexpr seconds end_of_time{std::numeric_limits<double>::max()};

std::vector<timer> timers_due(const std::vector<double>& due) {
    std::vector<timer> all(due.size());
    for (std::size_t i = 0; i < due.size(); ++i) all[i].due = {due[i]};
    return all;
}

} // namespace

TEST_CASE("async/timer_queue: by time, and first in first out among equals") {
    auto t = timers_due({3, 1, 2, 1, 3, 1});
    tern::detail::timer_queue queue;
    for (timer& one : t) CHECK(queue.add(one));
    CHECK(&queue.front() == &t[1]);
    for (const std::size_t expected : {1u, 3u, 5u, 2u, 0u, 4u}) CHECK(queue.pop(end_of_time) == &t[expected]);
    CHECK(queue.empty());
    CHECK(queue.pop(end_of_time) == nullptr);
}

TEST_CASE("async/timer_queue: gives only what is due") {
    auto t = timers_due({2});
    tern::detail::timer_queue queue;
    queue.add(t[0]);
    CHECK(queue.pop({1.9}) == nullptr);
    CHECK(queue.pop({2}) == &t[0]);
    CHECK(t[0].now == timer::state::fired);
}

TEST_CASE("async/timer_queue: cancelling before, in and after the queue") {
    auto t = timers_due({1, 2, 3});
    tern::detail::timer_queue queue;
    CHECK_FALSE(queue.cancel(t[0])); // fresh: it can no longer be queued
    CHECK_FALSE(queue.add(t[0]));
    queue.add(t[1]);
    queue.add(t[2]);
    CHECK(queue.cancel(t[1]));
    CHECK_FALSE(queue.cancel(t[1]));
    CHECK(queue.pop(end_of_time) == &t[2]);
    CHECK_FALSE(queue.cancel(t[2]));
    CHECK(t[2].now == timer::state::fired);
}

TEST_CASE("async/timer_queue: a thousand timers, a third of them cancelled anywhere in the heap") {
    std::vector<double> due;
    unsigned random = 1;
    for (int i = 0; i < 1000; ++i) {
        random = random * 1664525u + 1013904223u;
        due.push_back(static_cast<double>(random >> 24)); // many equals
    }
    auto t = timers_due(due);
    tern::detail::timer_queue queue;
    for (timer& one : t) queue.add(one);
    std::vector<timer*> expected;
    for (std::size_t i = 0; i < t.size(); ++i) {
        if (i % 3 == 1)
            CHECK(queue.cancel(t[i]));
        else
            expected.push_back(&t[i]);
    }
    std::stable_sort(expected.begin(), expected.end(), [](timer* a, timer* b) { return a->due < b->due; });
    bool same = true;
    for (timer* one : expected) same = same && queue.pop(end_of_time) == one;
    CHECK(same);
    CHECK(queue.empty());
}
