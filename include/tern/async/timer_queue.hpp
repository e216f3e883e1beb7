// The queue behind the clocks: timers by due time, first in first out among equals, each of which can be cancelled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <tern/async/trampoline.hpp>
#include <tern/base/units.hpp>

namespace tern {

/// One sleeping coroutine. A clock's lock guards everything but `handle`.
struct timer : work_item {
    enum class state : unsigned char { fresh, queued, fired, cancelled };

    seconds due{};
    state now = state::fresh;
    std::uint64_t sequence = 0;
    std::size_t slot = 0;
};

namespace detail {

/// A binary heap of timers that it does not own; each knows its slot. Not locked.
class timer_queue {
public:
    bool empty() const noexcept { return heap_.empty(); }
    timer& front() const noexcept { return *heap_.front(); }

    /// Queues a fresh timer; false for one that was cancelled already. Throws std::bad_alloc and leaves all as it was.
    bool add(timer& t) {
        if (t.now == timer::state::cancelled) return false;
        heap_.push_back(&t);
        t.now = timer::state::queued;
        t.sequence = next_sequence_++;
        place(heap_.size() - 1, &t);
        rise(t.slot);
        return true;
    }

    /// True when `t` was queued and no longer is. A fresh timer can no longer be queued afterwards.
    bool cancel(timer& t) noexcept {
        const bool queued = t.now == timer::state::queued;
        if (queued) remove(t.slot);
        if (queued || t.now == timer::state::fresh) t.now = timer::state::cancelled;
        return queued;
    }

    /// The earliest timer, when it is due by `time`, else null.
    timer* pop(seconds time) noexcept {
        if (heap_.empty() || heap_.front()->due > time) return nullptr;
        timer* t = heap_.front();
        remove(0);
        t->now = timer::state::fired;
        return t;
    }

private:
    static bool before(const timer& a, const timer& b) noexcept {
        return a.due < b.due || (a.due == b.due && a.sequence < b.sequence);
    }
    void place(std::size_t slot, timer* t) noexcept {
        heap_[slot] = t;
        t->slot = slot;
    }
    void rise(std::size_t slot) noexcept {
        timer* t = heap_[slot];
        for (; slot > 0 && before(*t, *heap_[(slot - 1) / 2]); slot = (slot - 1) / 2)
            place(slot, heap_[(slot - 1) / 2]);
        place(slot, t);
    }
    void sink(std::size_t slot) noexcept {
        timer* t = heap_[slot];
        for (std::size_t child = 2 * slot + 1; child < heap_.size(); child = 2 * slot + 1) {
            if (child + 1 < heap_.size() && before(*heap_[child + 1], *heap_[child])) ++child;
            if (!before(*heap_[child], *t)) break;
            place(slot, heap_[child]);
            slot = child;
        }
        place(slot, t);
    }
    void remove(std::size_t slot) noexcept {
        timer* last = heap_.back();
        heap_.pop_back();
        if (slot == heap_.size()) return;
        place(slot, last);
        rise(slot);
        sink(last->slot);
    }

    std::vector<timer*> heap_;
    std::uint64_t next_sequence_ = 0;
};

} // namespace detail
} // namespace tern
