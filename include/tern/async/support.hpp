// The check that the compiler has coroutines, and what "awaitable" means in tern.
#pragma once

#include <tern/base/config.hpp>

#if !defined(__cpp_impl_coroutine)
#error "tern/async needs coroutines: compile with -std=c++20 and a compiler that has them (g++ 11, clang 16 or newer)"
#endif

#include <concepts>
#include <coroutine>
#include <utility>

namespace tern {

/// What `co_await` works on directly: the three members, with a handle that tells nothing of the promise.
template <class A>
concept awaiter = requires(A& a, std::coroutine_handle<> h) {
    { a.await_ready() } -> std::convertible_to<bool>;
    a.await_suspend(h);
    a.await_resume();
};

/// An awaiter, or a type whose member `operator co_await` gives one.
template <class A>
concept awaitable = awaiter<A> || requires(A&& a) {
    { std::forward<A>(a).operator co_await() } -> awaiter;
};

} // namespace tern
