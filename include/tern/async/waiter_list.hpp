// The queue behind async_event and async_mutex: waiters in order, each of which can leave it.
#pragma once

#include <tern/async/trampoline.hpp>

namespace tern::detail {

/// A link of a circular list. Alone, it points to itself. It unlinks itself only under the lock of its list.
struct wait_link {
    wait_link* before = this;
    wait_link* after = this;

    wait_link() = default;
    wait_link(const wait_link&) = delete;
    wait_link& operator=(const wait_link&) = delete;

    bool linked() const noexcept { return after != this; }
    void unlink() noexcept {
        before->after = after;
        after->before = before;
        before = after = this;
    }
};

/// A suspended coroutine in a wait list.
struct waiter : wait_link, work_item {};

/// First in, first out; not locked.
class wait_list {
public:
    void push(waiter& w) noexcept {
        w.before = ends_.before;
        w.after = &ends_;
        ends_.before->after = &w;
        ends_.before = &w;
    }
    waiter* pop() noexcept {
        if (!ends_.linked()) return nullptr;
        auto* first = static_cast<waiter*>(ends_.after);
        first->unlink();
        return first;
    }

private:
    wait_link ends_;
};

} // namespace tern::detail
