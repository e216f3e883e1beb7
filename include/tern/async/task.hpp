// task<T>: a coroutine that starts when it is awaited.
#pragma once

#include <exception>
#include <new>
#include <type_traits>
#include <utility>

#include <tern/async/frame_arena.hpp>
#include <tern/async/trampoline.hpp>
#include <tern/base/error.hpp>

namespace tern {

template <class T = void> class task;

namespace detail {

/// Who is told that a task is done when no coroutine awaits it: when_all, scope, sync_wait. The function returns what
/// runs next or null; it may destroy the task.
struct completion {
    std::coroutine_handle<> (*done)(completion&) noexcept = nullptr;
};

/// The end of every task. Static, and nothing of the frame is touched after `done`, since that may destroy it.
struct task_final {
    bool await_ready() const noexcept { return false; }
    template <class Promise> void await_suspend(std::coroutine_handle<Promise> h) const noexcept {
        auto& promise = h.promise();
        std::coroutine_handle<> next = promise.continuation;
        if (completion* c = promise.on_done) next = c->done(*c);
        if (next) transfer_to(next);
    }
    void await_resume() const noexcept {}
};

struct task_promise_base {
    std::coroutine_handle<> continuation{};
    completion* on_done = nullptr;

    static void* operator new(std::size_t size) { return frame_arena::allocate(size); }
    static void operator delete(void* p, std::size_t size) noexcept { frame_arena::deallocate(p, size); }

    std::suspend_always initial_suspend() const noexcept { return {}; }
    task_final final_suspend() const noexcept { return {}; }
};

enum class task_state : unsigned char { running, value, failed };

template <class T> class task_promise : public task_promise_base {
public:
    task_promise() noexcept {}
    task_promise(const task_promise&) = delete;
    ~task_promise() {
        if (state_ == task_state::value) value_.~T();
        if (state_ == task_state::failed) error_.~exception_ptr();
    }

    task<T> get_return_object() noexcept;

    template <class U = T>
        requires std::constructible_from<T, U&&>
    void return_value(U&& value) {
        ::new (static_cast<void*>(__builtin_addressof(value_))) T(std::forward<U>(value));
        state_ = task_state::value;
    }
    void unhandled_exception() noexcept {
        ::new (static_cast<void*>(&error_)) std::exception_ptr(std::current_exception());
        state_ = task_state::failed;
    }

    std::exception_ptr error() const noexcept { return state_ == task_state::failed ? error_ : nullptr; }
    T take() {
        if (state_ == task_state::failed) std::rethrow_exception(error_);
        return std::move(value_);
    }

private:
    union {
        T value_;
        std::exception_ptr error_;
    };
    task_state state_ = task_state::running;
};

template <class T> class task_promise<T&> : public task_promise_base {
public:
    task<T&> get_return_object() noexcept;

    void return_value(T& value) noexcept { value_ = __builtin_addressof(value); }
    void return_value(const T&& value) = delete; // the referred object would end with the coroutine
    void unhandled_exception() noexcept { error_ = std::current_exception(); }

    std::exception_ptr error() const noexcept { return error_; }
    T& take() const {
        if (error_) std::rethrow_exception(error_);
        return *value_;
    }

private:
    T* value_ = nullptr;
    std::exception_ptr error_{};
};

template <> class task_promise<void> : public task_promise_base {
public:
    task<void> get_return_object() noexcept;

    void return_void() const noexcept {}
    void unhandled_exception() noexcept { error_ = std::current_exception(); }

    std::exception_ptr error() const noexcept { return error_; }
    void take() const {
        if (error_) std::rethrow_exception(error_);
    }

private:
    std::exception_ptr error_{};
};

struct task_access;

} // namespace detail

/// A coroutine that computes a T (a value, a reference or void) and starts when it is awaited. Move-only, awaited once:
/// `co_await f()` or `co_await std::move(t)`. Awaiting gives the result or rethrows the task's exception, of its own
/// type. A task that is null or was moved from throws tern::error. Destroying a task that has not started, or that
/// waits on an event, a mutex, a stop token or a clock, destroys its frame; one that is queued on an executor or about
/// to be resumed must be awaited instead. Frames come from `frame_arena`; nesting depth costs no stack, except when a
/// chain of suspended tasks is destroyed unfinished.
///
/// Coroutines take values, not captures: a lambda's captures live in the lambda, not in the frame, so a lambda that
/// captures must outlive the tasks that it gave. `scope::spawn(callable, args...)` keeps the callable alive.
///
///     tern::task<int> twice(tern::task<int> x) { co_return 2 * co_await std::move(x); }
template <class T> class [[nodiscard]] task {
    static_assert(!std::is_rvalue_reference_v<T>, "a task gives a value, an lvalue reference or void");

public:
    using promise_type = detail::task_promise<T>;
    using value_type = T;

    /// A null task.
    task() noexcept = default;
    task(task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
    task& operator=(task&& other) noexcept {
        task old(std::move(other));
        std::swap(handle_, old.handle_);
        return *this;
    }
    ~task() {
        if (handle_) handle_.destroy();
    }

    /// False for a task that is null, moved from or awaited.
    explicit operator bool() const noexcept { return static_cast<bool>(handle_); }

    class awaiter {
    public:
        explicit awaiter(task t) noexcept : task_(std::move(t)) {}
        bool await_ready() const noexcept { return false; }
        void await_suspend(std::coroutine_handle<> waiting) noexcept {
            task_.handle_.promise().continuation = waiting;
            detail::transfer_to(task_.handle_);
        }
        T await_resume() { return task_.handle_.promise().take(); }

    private:
        task task_;
    };

    /// Throws tern::error on a null task.
    awaiter operator co_await() && {
        require();
        return awaiter(std::move(*this));
    }

private:
    friend promise_type;
    friend detail::task_access;

    explicit task(std::coroutine_handle<promise_type> h) noexcept : handle_(h) {}
    void require() const {
        if (!handle_) throw error("empty task: it is null, was moved from or was awaited before");
    }

    std::coroutine_handle<promise_type> handle_{};
};

namespace detail {

template <class T> task<T> task_promise<T>::get_return_object() noexcept {
    return task<T>(std::coroutine_handle<task_promise>::from_promise(*this));
}
template <class T> task<T&> task_promise<T&>::get_return_object() noexcept {
    return task<T&>(std::coroutine_handle<task_promise>::from_promise(*this));
}
inline task<void> task_promise<void>::get_return_object() noexcept {
    return task<void>(std::coroutine_handle<task_promise>::from_promise(*this));
}

/// What those who drive a task without awaiting it need.
struct task_access {
    template <class T> static void require(const task<T>& t) { t.require(); }
    /// Sets who is told; the caller resumes the returned handle once.
    template <class T> static std::coroutine_handle<> prepare(task<T>& t, completion& c) noexcept {
        t.handle_.promise().on_done = &c;
        return t.handle_;
    }
    template <class T> static std::exception_ptr error(const task<T>& t) noexcept {
        return t.handle_.promise().error();
    }
    template <class T> static T take(task<T>& t) { return t.handle_.promise().take(); }
};

} // namespace detail
} // namespace tern
