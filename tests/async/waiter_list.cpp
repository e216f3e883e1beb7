#include <tern/async/waiter_list.hpp>

#include <doctest/doctest.h>

TEST_CASE("async/waiter_list: first in, first out; any may leave") {
    tern::detail::waiter a, b, c;
    tern::detail::wait_list list;
    CHECK(list.pop() == nullptr);
    list.push(a);
    list.push(b);
    list.push(c);
    CHECK(b.linked());
    b.unlink();
    CHECK_FALSE(b.linked());
    CHECK(list.pop() == &a);
    CHECK_FALSE(a.linked());
    list.push(a);
    CHECK(list.pop() == &c);
    CHECK(list.pop() == &a);
    CHECK(list.pop() == nullptr);
}
