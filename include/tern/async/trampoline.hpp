// How coroutines are resumed. Every resumption runs under a loop on the thread's stack: a coroutine that suspends hands
// its successor to the loop and returns, so that neither a million ready awaits nor a million nested tasks grow the
// stack. Compilers turn symmetric transfer into a jump only when they optimise; this does not depend on it.
#pragma once

#include <tern/async/support.hpp>

namespace tern {

/// A coroutine in an intrusive queue. It belongs to whoever waits, so that queueing allocates nothing.
struct work_item {
    std::coroutine_handle<> handle{};
    work_item* next = nullptr;
};

/// A first-in first-out list of work items; it does not own them.
class work_list {
public:
    bool empty() const noexcept { return head_ == nullptr; }

    void push(work_item& item) noexcept {
        item.next = nullptr;
        (tail_ ? tail_->next : head_) = &item;
        tail_ = &item;
    }

    /// The oldest item, or null.
    work_item* pop() noexcept {
        work_item* item = head_;
        if (item && (head_ = item->next) == nullptr) tail_ = nullptr;
        return item;
    }

    /// Takes an item out; false where it is not in here. As slow as the list is long.
    bool remove(work_item& item) noexcept {
        work_item* before = nullptr;
        for (work_item* i = head_; i != nullptr; before = i, i = i->next) {
            if (i != &item) continue;
            (before != nullptr ? before->next : head_) = item.next;
            if (tail_ == &item) tail_ = before;
            return true;
        }
        return false;
    }

    /// Appends all of `other`, which becomes empty.
    void splice(work_list& other) noexcept {
        if (other.empty()) return;
        (tail_ ? tail_->next : head_) = other.head_;
        tail_ = other.tail_;
        other = {};
    }

private:
    work_item* head_ = nullptr;
    work_item* tail_ = nullptr;
};

namespace detail {

/// One running loop. `next` is the successor of the coroutine that suspends now, `ready` what runs after it.
struct resume_loop {
    std::coroutine_handle<> next{};
    work_list ready{};
    resume_loop* outer = nullptr;
    unsigned depth = 0;
};

// Only functions that are not inlined touch it: compilers keep a thread's address of it in the frame of a coroutine,
// which may go on in another thread.
inline constinit thread_local resume_loop* current_loop = nullptr;

/// Runs `loop` until nothing is left. An exception that leaves a coroutine (no coroutine of tern lets one out) ends the
/// program: the rest of the loop could not be run any more.
[[gnu::noinline]] inline void drive(resume_loop& loop) noexcept {
    loop.outer = current_loop;
    loop.depth = loop.outer ? loop.outer->depth + 1 : 0;
    current_loop = &loop;
    for (;;) {
        while (loop.next) std::exchange(loop.next, {}).resume();
        work_item* item = loop.ready.pop();
        if (!item) break;
        loop.next = item->handle;
    }
    current_loop = loop.outer;
}

} // namespace detail

/// Resumes `h` and all that follows from it on this thread, until everything is done or suspended elsewhere. For
/// callbacks and executors; correct, with a loop of its own, when this thread already runs coroutines.
///
///     void on_complete(void* p) { tern::resume(std::coroutine_handle<>::from_address(p)); }
inline void resume(std::coroutine_handle<> h) noexcept {
    detail::resume_loop loop{.next = h};
    detail::drive(loop);
}

namespace detail {

/// For await_suspend, as its last act: `h` runs when the coroutine that suspends has returned to the loop.
/// Where a foreign hand resumed that coroutine, so that there is no loop or its slot is taken, `h` runs at once.
[[gnu::noinline]] inline void transfer_to(std::coroutine_handle<> h) noexcept {
    resume_loop* loop = current_loop;
    if (loop && !loop->next)
        loop->next = h;
    else
        resume(h);
}

/// All of `items` run after the coroutine that runs now suspends; at once where none runs on this thread.
[[gnu::noinline]] inline void resume_later(work_list items) noexcept {
    if (resume_loop* loop = current_loop) {
        loop->ready.splice(items);
    } else {
        resume_loop fresh{.ready = items};
        drive(fresh);
    }
}

inline void resume_later(work_item& item) noexcept {
    work_list one;
    one.push(item);
    resume_later(one);
}

/// Runs `item` up to its first suspension now, so that it overlaps with what the caller does next. Starts within
/// starts nest on the stack, so the deep ones run later.
[[gnu::noinline]] inline void resume_soon(work_item& item) noexcept {
    constexpr unsigned deepest = 16;
    if (current_loop && current_loop->depth >= deepest)
        resume_later(item);
    else
        resume(item.handle);
}

/// Runs what waits in the loops of this thread. Called before the thread blocks, since it may wait for just that.
[[gnu::noinline]] inline void run_pending() noexcept {
    resume_loop mine;
    for (resume_loop* loop = current_loop; loop; loop = loop->outer) {
        if (loop->next) { resume(std::exchange(loop->next, {})); }
        mine.ready.splice(loop->ready);
    }
    if (!mine.ready.empty()) drive(mine);
}

} // namespace detail
} // namespace tern
