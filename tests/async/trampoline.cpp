#include <tern/async/trampoline.hpp>

#include <exception>
#include <vector>

#include <doctest/doctest.h>

namespace {

// A coroutine that nobody owns, written against the standard alone.
struct foreign {
    struct promise_type {
        foreign get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        std::suspend_never final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        void unhandled_exception() const noexcept { std::terminate(); }
    };
    std::coroutine_handle<> handle;
};

// Suspends, and hands on to another coroutine.
struct hand_to {
    std::coroutine_handle<> next;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<>) const noexcept { tern::detail::transfer_to(next); }
    void await_resume() const noexcept {}
};

// Suspends, and goes on after the others.
struct later : tern::work_item {
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) noexcept {
        handle = h;
        tern::detail::resume_later(*this);
    }
    void await_resume() const noexcept {}
};

foreign note(std::vector<int>& order, int n) {
    order.push_back(n);
    co_return;
}

foreign loop_of_suspensions(int n, int& count) {
    for (int i = 0; i < n; ++i) {
        co_await later{};
        ++count;
    }
}

} // namespace

TEST_CASE("async/trampoline: resume runs a coroutine to its end") {
    std::vector<int> order;
    tern::resume(note(order, 1).handle);
    CHECK(order == std::vector<int>{1});
}

TEST_CASE("async/trampoline: the successor runs after the coroutine that suspends, before what waits") {
    std::vector<int> order;
    const auto first = [](std::vector<int>& log, std::coroutine_handle<> waiting,
                          std::coroutine_handle<> next) -> foreign {
        tern::work_item item{waiting};
        tern::detail::resume_later(item);
        log.push_back(1);
        co_await hand_to{next};
    };
    const auto h = first(order, note(order, 3).handle, note(order, 2).handle).handle;
    tern::resume(h);
    CHECK(order == std::vector<int>{1, 2, 3});
    h.destroy();
}

TEST_CASE("async/trampoline: a callback that resumes inside a coroutine is run at once") {
    std::vector<int> order;
    const auto outer = [](std::vector<int>& log) -> foreign {
        tern::resume(note(log, 1).handle); // as a library's callback would
        log.push_back(2);
        co_return;
    };
    tern::resume(outer(order).handle);
    CHECK(order == std::vector<int>{1, 2});
    CHECK(tern::detail::current_loop == nullptr);
}

TEST_CASE("async/trampoline: two coroutines resumed by a foreign hand both keep their successor") {
    std::vector<int> order;
    const auto hand = [](std::coroutine_handle<> next) -> foreign { co_await hand_to{next}; };
    const auto a = hand(note(order, 1).handle).handle;
    const auto b = hand(note(order, 2).handle).handle;
    SUBCASE("outside a loop") {
        a.resume();
        b.resume();
    }
    SUBCASE("inside a loop, whose slot holds one") {
        const auto outer = [](std::coroutine_handle<> x, std::coroutine_handle<> y) -> foreign {
            x.resume();
            y.resume();
            co_return;
        };
        tern::resume(outer(a, b).handle);
    }
    CHECK(order.size() == 2);
    a.destroy();
    b.destroy();
}

TEST_CASE("async/trampoline: a million suspensions take turns") {
    int a = 0, b = 0;
    const auto both = [](int& x, int& y) -> foreign {
        tern::work_item second{loop_of_suspensions(500'000, y).handle};
        tern::detail::resume_later(second);
        for (int i = 0; i < 500'000; ++i) {
            co_await later{};
            ++x;
            if (x - y > 1 || y - x > 1) co_return;
        }
    };
    tern::resume(both(a, b).handle);
    CHECK(a == 500'000);
    CHECK(b == 500'000);
}

TEST_CASE("async/trampoline: what waits in the loop runs before a thread blocks") {
    std::vector<int> order;
    const auto outer = [](std::vector<int>& log, std::coroutine_handle<> waiting) -> foreign {
        tern::work_item item{waiting};
        tern::detail::resume_later(item);
        CHECK(log.empty());
        tern::detail::run_pending();
        log.push_back(2);
        co_return;
    };
    tern::resume(outer(order, note(order, 1).handle).handle);
    CHECK(order == std::vector<int>{1, 2});
}

TEST_CASE("async/trampoline: a work list keeps its order and forgets what it gave") {
    tern::work_item a, b, c;
    tern::work_list list, other;
    CHECK(list.pop() == nullptr);
    list.push(a);
    other.push(b);
    other.push(c);
    list.splice(other);
    CHECK(other.empty());
    CHECK(list.pop() == &a);
    CHECK(list.pop() == &b);
    list.push(a);
    CHECK(list.pop() == &c);
    CHECK(list.pop() == &a);
    CHECK(list.empty());
}
