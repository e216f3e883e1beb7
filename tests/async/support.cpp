#include <tern/async/support.hpp>

#include <doctest/doctest.h>

namespace {

struct plain_awaiter {
    bool await_ready() const { return true; }
    void await_suspend(std::coroutine_handle<>) const {}
    void await_resume() const {}
};
struct no_resume {
    bool await_ready() const { return true; }
    void await_suspend(std::coroutine_handle<>) const {}
};
struct ready_is_void {
    void await_ready() const {}
    void await_suspend(std::coroutine_handle<>) const {}
    void await_resume() const {}
};
struct through_operator {
    plain_awaiter operator co_await() const { return {}; }
};
struct operator_gives_int {
    int operator co_await() const { return 0; }
};

static_assert(tern::awaiter<plain_awaiter>);
static_assert(!tern::awaiter<no_resume>);
static_assert(!tern::awaiter<ready_is_void>);
static_assert(!tern::awaiter<through_operator>);
static_assert(tern::awaitable<through_operator>);
static_assert(tern::awaitable<std::suspend_never>);
static_assert(!tern::awaitable<operator_gives_int>);
static_assert(!tern::awaitable<int>);

} // namespace

TEST_CASE("async/support: what is awaitable") {
    CHECK(tern::awaitable<plain_awaiter>);
    CHECK_FALSE(tern::awaitable<no_resume>);
}
