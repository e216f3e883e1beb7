#include <tern/async/task.hpp>

#include <pthread.h>

#include <memory>
#include <string>
#include <thread>
#include <type_traits>

#include <doctest/doctest.h>

#include <tern/async/sync_wait.hpp>
#include <tern/async/thread_executor.hpp>

#include "async/started.hpp"

using tern::sync_wait;
using tern::task;

namespace {

static_assert(!std::is_copy_constructible_v<task<int>>);
static_assert(!std::is_copy_assignable_v<task<int>>);
static_assert(std::is_nothrow_move_constructible_v<task<int>>);
static_assert(std::is_nothrow_move_assignable_v<task<>>);
static_assert(std::is_default_constructible_v<task<>>);
static_assert(tern::awaitable<task<int>>);   // as an rvalue: once
static_assert(!tern::awaitable<task<int>&>); // not as an lvalue
static_assert(!std::is_copy_constructible_v<task<int>::awaiter>);
// A reference cannot be given to an object that ends with the coroutine.
template <class P, class V>
concept may_return = requires(P& p, V&& v) { p.return_value(std::forward<V>(v)); };
static_assert(may_return<task<int&>::promise_type, int&>);
static_assert(!may_return<task<int&>::promise_type, int>);
static_assert(may_return<task<const int&>::promise_type, const int&>);
static_assert(!may_return<task<const int&>::promise_type, int>);
static_assert(!may_return<task<std::string>::promise_type, std::shared_ptr<int>>);

struct custom_error {
    int code;
};

struct counts_itself {
    static inline int alive = 0;
    counts_itself() { ++alive; }
    counts_itself(const counts_itself&) { ++alive; }
    ~counts_itself() { --alive; }
};

task<int> value(int n) { co_return n; }

task<long> sum_of_ready(int n) {
    long sum = 0;
    for (int i = 0; i < n; ++i) sum += co_await value(1);
    co_return sum;
}

task<int> nested(int depth) {
    if (depth == 0) co_return 0;
    co_return 1 + co_await nested(depth - 1);
}

task<> nested_throw(int depth) {
    if (depth == 0) throw custom_error{depth};
    co_await nested_throw(depth - 1);
}

// Runs `f` on a thread with a stack of 256 KiB.
template <class F> void on_small_stack(F f) {
    pthread_attr_t attributes;
    pthread_t thread;
    REQUIRE(pthread_attr_init(&attributes) == 0);
    REQUIRE(pthread_attr_setstacksize(&attributes, 256 * 1024) == 0);
    const auto run = [](void* p) -> void* { return (*static_cast<F*>(p))(), nullptr; };
    REQUIRE(pthread_create(&thread, &attributes, run, &f) == 0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
}

} // namespace

TEST_CASE("async/task: a task is lazy") {
    bool ran = false;
    const auto set = [](bool& flag) -> task<> {
        flag = true;
        co_return;
    };
    auto t = set(ran);
    CHECK_FALSE(ran);
    sync_wait(std::move(t));
    CHECK(ran);
}

TEST_CASE("async/task: values, references, void and move-only results") {
    CHECK(sync_wait(value(7)) == 7);

    int target = 1;
    const auto refer = [](int& x) -> task<int&> { co_return x; };
    const auto change = [&]() -> task<> { co_await refer(target) = 5; };
    sync_wait(change());
    CHECK(target == 5);
    CHECK(&sync_wait(refer(target)) == &target);
    const auto refer_const = [](const int& x) -> task<const int&> { co_return x; };
    CHECK(&sync_wait(refer_const(target)) == &target);

    const auto make = [](int n) -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(n); };
    const auto pass = [&](int n) -> task<std::unique_ptr<int>> {
        auto p = co_await make(n);
        ++*p;
        co_return p;
    };
    CHECK(*sync_wait(pass(3)) == 4);

    const auto convert = []() -> task<std::string> { co_return "text"; };
    CHECK(sync_wait(convert()) == "text");
    const auto braces = []() -> task<std::string> { co_return {}; };
    CHECK(sync_wait(braces()).empty());
}

TEST_CASE("async/task: a result without a default constructor ends exactly once") {
    const auto make = []() -> task<counts_itself> { co_return counts_itself(); };
    {
        const auto c = sync_wait(make());
        CHECK(counts_itself::alive == 1);
    }
    CHECK(counts_itself::alive == 0);
}

TEST_CASE("async/task: an exception keeps its type, also after a suspension on another thread") {
    tern::thread_executor pool{1};
    const auto fail = [](tern::thread_executor& p, int code) -> task<int> {
        co_await p.schedule();
        throw custom_error{code};
    };
    const auto outer = [&]() -> task<int> {
        try {
            co_await fail(pool, 41);
        } catch (const custom_error& e) { co_return e.code + 1; }
        co_return 0;
    };
    CHECK(sync_wait(outer()) == 42);
    CHECK_THROWS_AS(sync_wait(fail(pool, 1)), custom_error);
    CHECK_THROWS_AS(sync_wait(nested_throw(3)), custom_error);
}

TEST_CASE("async/task: a null task, one that was moved from and one that was awaited throw") {
    CHECK_FALSE(static_cast<bool>(task<int>()));
    CHECK_THROWS_WITH_AS(sync_wait(task<int>()), doctest::Contains("empty task"), tern::error);
    auto t = value(1);
    const auto moved = std::move(t);
    CHECK(static_cast<bool>(moved));
    CHECK_THROWS_AS(sync_wait(std::move(t)), tern::error);

    const auto await_it = [](task<int> inner) -> task<int> { co_return co_await std::move(inner); };
    CHECK_THROWS_WITH_AS(sync_wait(await_it({})), doctest::Contains("empty task"), tern::error);
    const auto twice = [](task<int> inner) -> task<int> {
        const int first = co_await std::move(inner);
        co_return first + co_await std::move(inner);
    };
    CHECK_THROWS_AS(sync_wait(twice(value(1))), tern::error);
    CHECK_THROWS_AS(sync_wait(task<>()), tern::error);
    CHECK_THROWS_AS(sync_wait(task<int&>()), tern::error);
}

TEST_CASE("async/task: destroying a task that has not started ends its arguments") {
    const auto take = [](counts_itself) -> task<> { co_return; };
    {
        const auto t = take({});
        CHECK(counts_itself::alive == 1);
    }
    CHECK(counts_itself::alive == 0);
    auto t = take({});
    t = take({});
    CHECK(counts_itself::alive == 1);
    t = {};
    CHECK(counts_itself::alive == 0);
}

TEST_CASE("async/task: destroying a task at each of its suspensions destroys all its frames") {
    struct stop_here {
        int& left;
        std::coroutine_handle<>& where;
        bool await_ready() const noexcept { return left-- > 0; }
        void await_suspend(std::coroutine_handle<> h) const noexcept { where = h; }
        void await_resume() const noexcept {}
    };
    const auto inner = [](int& left, std::coroutine_handle<>& where) -> task<counts_itself> {
        const counts_itself local;
        co_await stop_here{left, where};
        co_return counts_itself();
    };
    const auto outer = [&](int& left, std::coroutine_handle<>& where) -> task<> {
        const auto a = co_await inner(left, where);
        co_await stop_here{left, where};
        const auto b = co_await inner(left, where);
    };
    for (int point = 0; point < 4; ++point) {
        int left = point;
        std::coroutine_handle<> where;
        {
            const started s(outer(left, where));
            CHECK(s.finished == (point == 3));
            CHECK(counts_itself::alive == (point == 0 ? 1 : point == 1 ? 1 : point == 2 ? 2 : 0));
        }
        CHECK(counts_itself::alive == 0);
        left = point; // and going on instead completes it
        started s(outer(left, where));
        while (!s.finished) tern::resume(where);
        CHECK(counts_itself::alive == 0);
    }
}

TEST_CASE("async/task: a million ready awaits do not grow the stack") {
    long sum = 0;
    on_small_stack([&] { sum = sync_wait(sum_of_ready(1'000'000)); });
    CHECK(sum == 1'000'000);
}

TEST_CASE("async/task: a million nested tasks do not grow the stack") {
    int depth = 0;
    on_small_stack([&] { depth = sync_wait(nested(1'000'000)); });
    CHECK(depth == 1'000'000);
}

TEST_CASE("async/task: an exception crosses 100,000 nested tasks") {
    bool caught = false;
    on_small_stack([&] {
        try {
            sync_wait(nested_throw(100'000));
        } catch (const custom_error&) { caught = true; }
    });
    CHECK(caught);
}
