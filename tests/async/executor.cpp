#include <tern/async/executor.hpp>

#include <doctest/doctest.h>

#include <tern/async/sync_wait.hpp>

#include "async/started.hpp"

namespace {

struct minimal {
    std::suspend_never schedule();
    void post(std::coroutine_handle<>);
};
struct schedule_gives_nothing {
    void schedule();
    void post(std::coroutine_handle<>);
};
struct schedule_gives_no_awaitable {
    int schedule();
    void post(std::coroutine_handle<>);
};
struct no_post {
    std::suspend_never schedule();
};
struct post_takes_no_handle {
    std::suspend_never schedule();
    void post(int);
};
struct post_gives_a_value {
    std::suspend_never schedule();
    int post(std::coroutine_handle<>);
};

static_assert(tern::executor<minimal>);
static_assert(tern::executor<tern::inline_executor>);
static_assert(!tern::executor<schedule_gives_nothing>);
static_assert(!tern::executor<schedule_gives_no_awaitable>);
static_assert(!tern::executor<no_post>);
static_assert(!tern::executor<post_takes_no_handle>);
static_assert(!tern::executor<post_gives_a_value>);
static_assert(!tern::executor<int>);

struct park {
    std::coroutine_handle<>& where;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) const noexcept { where = h; }
    void await_resume() const noexcept {}
};

} // namespace

TEST_CASE("async/executor: the inline executor goes on at once") {
    tern::inline_executor here;
    int steps = 0;
    const auto work = [](tern::inline_executor& e, int& n) -> tern::task<> {
        ++n;
        co_await e.schedule();
        ++n;
    };
    tern::sync_wait(work(here, steps));
    CHECK(steps == 2);
}

TEST_CASE("async/executor: the inline executor resumes a posted handle") {
    tern::inline_executor here;
    std::coroutine_handle<> where;
    const auto work = [](std::coroutine_handle<>& w) -> tern::task<> { co_await park{w}; };
    const started s(work(where));
    CHECK_FALSE(s.finished);
    here.post(where);
    CHECK(s.finished);
}
