// when_all: runs tasks concurrently and gives all results, or the first error once every task has ended.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <stop_token>
#include <tuple>
#include <vector>

#include <tern/async/task.hpp>

namespace tern {

/// Stands for the result of a task<void> beside others that have one.
struct no_value {
    friend constexpr bool operator==(no_value, no_value) = default;
};

namespace detail {

struct gathering;

/// One of the tasks that a when_all waits for.
struct branch : completion, work_item {
    gathering* all = nullptr;
    std::exception_ptr (*read_error)(const void*) noexcept = nullptr;
    void* source = nullptr;

    branch() noexcept : completion{&ended} {}
    template <class T> void bind(task<T>& t, gathering& owner) noexcept {
        all = &owner;
        source = &t;
        read_error = [](const void* p) noexcept { return task_access::error(*static_cast<const task<T>*>(p)); };
        handle = task_access::prepare(t, *this);
    }
    static std::coroutine_handle<> ended(completion& c) noexcept;
};

/// What the branches share. `running` counts the starter too, so that the parent is not resumed while it still starts.
struct gathering {
    std::stop_source* stop = nullptr;
    std::span<branch> branches{};
    std::coroutine_handle<> parent{};
    std::atomic<std::size_t> running{0};
    std::atomic<bool> failed{false};
    std::exception_ptr first_error{};

    std::coroutine_handle<> leave() noexcept {
        return running.fetch_sub(1, std::memory_order_acq_rel) == 1 ? parent : nullptr;
    }

    bool await_ready() const noexcept { return branches.empty(); }
    // Not inlined: after leave() another thread may resume the parent and end this object.
    [[gnu::noinline]] void await_suspend(std::coroutine_handle<> waiting) noexcept {
        parent = waiting;
        running.store(branches.size() + 1, std::memory_order_relaxed);
        work_list items;
        for (branch& b : branches) items.push(b);
        resume_later(items);
        if (const auto next = leave()) transfer_to(next);
    }
    void await_resume() const {
        if (first_error) std::rethrow_exception(first_error);
    }
};

inline std::coroutine_handle<> branch::ended(completion& c) noexcept {
    auto& self = static_cast<branch&>(c);
    gathering& all = *self.all;
    std::exception_ptr error = self.read_error(self.source);
    if (error && !all.failed.exchange(true, std::memory_order_relaxed)) {
        all.first_error = std::move(error);
        if (all.stop) all.stop->request_stop();
    }
    return all.leave();
}

template <class T> decltype(auto) take_or_no_value(task<T>& t) {
    if constexpr (std::is_void_v<T>)
        return (task_access::take(t), no_value{});
    else
        return task_access::take(t);
}

template <class T> using gathered = std::conditional_t<std::is_void_v<T>, no_value, T>;

template <class... T> task<std::tuple<gathered<T>...>> gather(std::stop_source* stop, task<T>... tasks) {
    (task_access::require(tasks), ...);
    branch branches[sizeof...(T)];
    gathering all{.stop = stop, .branches = branches};
    std::size_t i = 0;
    (branches[i++].bind(tasks, all), ...);
    co_await all;
    co_return std::tuple<gathered<T>...>(take_or_no_value(tasks)...);
}

template <class T, class Result> task<Result> gather(std::stop_source* stop, std::vector<task<T>> tasks) {
    for (const auto& t : tasks) task_access::require(t);
    std::vector<branch> branches(tasks.size());
    gathering all{.stop = stop, .branches = branches};
    for (std::size_t i = 0; i < tasks.size(); ++i) branches[i].bind(tasks[i], all);
    co_await all;
    if constexpr (!std::is_void_v<T>) {
        Result results;
        results.reserve(tasks.size());
        for (auto& t : tasks) results.push_back(task_access::take(t));
        co_return std::move(results);
    }
}

template <class T> struct vector_of {
    using type = std::vector<T>;
};
template <> struct vector_of<void> {
    using type = void;
};

} // namespace detail

/// Runs the tasks concurrently; each starts on this thread, in order, and runs up to its first suspension. Completes
/// when all have ended: with a tuple of the results (`no_value` for void), or with the error that came first in time,
/// of its own type. No task is left running, whatever happens. Throws tern::error, and starts none, if one is null.
///
///     auto [weights, tokens] = co_await tern::when_all(load(path), tokenize(text));
template <class... T>
    requires(sizeof...(T) > 0)
task<std::tuple<detail::gathered<T>...>> when_all(task<T>... tasks) {
    return detail::gather(nullptr, std::move(tasks)...);
}

/// The same, and the first error requests stop on `stop`, so that tasks which watch its token end early.
/// `stop` must outlive the returned task.
template <class... T>
    requires(sizeof...(T) > 0)
task<std::tuple<detail::gathered<T>...>> when_all(std::stop_source& stop, task<T>... tasks) {
    return detail::gather(&stop, std::move(tasks)...);
}

/// The same for any number of tasks of one type: a vector of the results in order, or void. No tasks complete at once.
template <class T> task<typename detail::vector_of<T>::type> when_all(std::vector<task<T>> tasks) {
    static_assert(!std::is_reference_v<T>, "a vector holds no references: let the tasks give pointers");
    return detail::gather<T, typename detail::vector_of<T>::type>(nullptr, std::move(tasks));
}

template <class T>
task<typename detail::vector_of<T>::type> when_all(std::stop_source& stop, std::vector<task<T>> tasks) {
    static_assert(!std::is_reference_v<T>, "a vector holds no references: let the tasks give pointers");
    return detail::gather<T, typename detail::vector_of<T>::type>(&stop, std::move(tasks));
}

} // namespace tern
