// The residency store: which slices there are, in which locations copies of them lie, and who holds a lease on one.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/async/run_loop.hpp>
#include <tern/base/error.hpp>
#include <tern/memory/arena.hpp>
#include <tern/tensor/lease.hpp>
#include <tern/transfer/request.hpp>

namespace tern {

/// What a copy of a slice is doing.
enum class copy_state : unsigned char {
    absent,   ///< the entry is free
    arriving, ///< a transfer is under way; others who want it wait for the same one
    resident, ///< readable; leases may be held
};

/// Counts of what the store did.
struct residency_counters {
    std::uint64_t hits = 0;     ///< leases given at once
    std::uint64_t arrivals = 0; ///< copies brought somewhere
    bytes moved{};              ///< bytes of those copies
};

/// Keeps slices and lends them to devices. Every slice has a backing (a stretch of a file, or host memory) from which a
/// copy can be made at any time, so giving up a copy costs nothing.
///
/// `place` puts a copy somewhere to stay; `borrow` where none is readable makes one that goes away with its last lease.
/// Devices, arenas and backings must outlive the store, and the store its leases. Calls are safe from several threads;
/// coroutines go on in `home`.
template <class = void> class basic_residency_store final : public lender {
public:
    explicit basic_residency_store(run_loop& home, arena& staging) : home_(home), staging_(staging) {}

    /// A new slice. `memory` of the backing, where it has one, is readable by host devices in place (a mapping).
    slice_id add(std::string name, backing from, bytes size) {
        const std::lock_guard lock(mutex_);
        slices_.push_back({std::move(name), from, size, nullptr, {}});
        return static_cast<slice_id>(slices_.size() - 1);
    }

    std::size_t slices() const {
        const std::lock_guard lock(mutex_);
        return slices_.size();
    }
    /// Valid as long as the store.
    const std::string& name(slice_id id) const { return at(id).name; }
    bytes size(slice_id id) const { return at(id).size; }
    residency_counters counters() const {
        const std::lock_guard lock(mutex_);
        return counters_;
    }

    /// Where copies lie now. A backing in memory counts as `mapped`.
    std::vector<location> where(slice_id id) const {
        const std::lock_guard lock(mutex_);
        std::vector<location> found;
        const slice& s = slices_.at(id);
        for (const auto& c : s.copies)
            if (c->state == copy_state::resident) found.push_back(c->where);
        if (s.from.memory != nullptr) found.push_back({tier_of<mapped>, 0, 0});
        return found;
    }

    /// Puts a copy into `on`'s memory to stay there, and computes the slice on `on` from now on. Throws budget_error
    /// when it does not fit, and what the transfer throws; then nothing stays behind.
    task<void> place(slice_id id, device& on, move_function move, std::stop_token stop = {},
                     arrival_listener* listener = nullptr) {
        lease held = co_await bring(id, on, move, std::move(stop), listener);
        const std::lock_guard lock(mutex_);
        slice& s = slices_.at(id);
        if (copy* c = find(s, on)) c->keep = true;
        s.home = &on;
    }

    /// Computes the slice on `on` without a copy of its own: from its mapping, or streamed for each use.
    void assign(slice_id id, device& on) {
        const std::lock_guard lock(mutex_);
        slices_.at(id).home = &on;
    }

    /// Lets a placed copy go: at once, or with its last lease.
    void evict(slice_id id, device& from) {
        const std::lock_guard lock(mutex_);
        slice& s = slices_.at(id);
        if (copy* c = find(s, from)) {
            c->keep = false;
            drop_unused(*c);
        }
    }

    lease try_borrow(slice_id id, device& on) override {
        const std::lock_guard lock(mutex_);
        slice& s = slices_.at(id);
        for (std::uint32_t i = 0; i < s.copies.size(); ++i) {
            copy& c = *s.copies[i];
            if (c.state != copy_state::resident || !on.reads(c.where)) continue;
            ++c.leases;
            ++counters_.hits;
            return lease(*this, id, i, c.data.data());
        }
        if (s.from.memory != nullptr && on.reads({tier_of<mapped>, 0, 0})) {
            ++counters_.hits;
            return lease(s.from.memory);
        }
        return {};
    }

    task<lease> borrow(slice_id id, device& on, move_function move) override {
        return bring(id, on, move, {}, nullptr);
    }

    device* home_of(slice_id id) const override {
        const std::lock_guard lock(mutex_);
        return slices_.at(id).home;
    }

private:
    struct copy {
        location where{};
        copy_state state = copy_state::absent;
        bool keep = false;
        std::uint32_t leases = 0;
        allocation data{};
        work_list waiting{}; // of waiters, while arriving
    };
    struct slice {
        std::string name;
        backing from;
        bytes size;
        device* home;
        std::vector<std::unique_ptr<copy>> copies; // stable indices: leases refer to them
    };

    /// A coroutine that waits for an arrival which another one has begun. All of them get the same lease or the same
    /// error.
    struct waiter : work_item {
        lease result{};
        std::exception_ptr error{};
    };
    struct wait_for {
        basic_residency_store& store;
        copy& awaited;
        location where;
        waiter self{};

        bool await_ready() const noexcept { return false; }
        // Not inlined: compilers may otherwise keep parts of the awaiter in a frame that runs on elsewhere by then.
        [[gnu::noinline]] bool await_suspend(std::coroutine_handle<> waiting) {
            const std::lock_guard lock(store.mutex_);
            // It may have arrived or failed since, and the entry may serve another location by now.
            if (awaited.state != copy_state::arriving || awaited.where != where) return false;
            self.handle = waiting;
            awaited.waiting.push(self);
            return true;
        }
        /// Empty where there was nothing to wait for any more.
        lease await_resume() {
            if (self.error) std::rethrow_exception(self.error);
            return std::move(self.result);
        }
    };

    const slice& at(slice_id id) const {
        const std::lock_guard lock(mutex_);
        return slices_.at(id);
    }

    static copy* find(slice& s, device& on) {
        for (const auto& c : s.copies)
            if (c->state != copy_state::absent && c->where == on.memory().where()) return c.get();
        return nullptr;
    }

    /// The lease on a resident copy; the caller holds the lock.
    lease hold(slice_id id, slice& s, copy& c) {
        ++c.leases;
        for (std::uint32_t i = 0; i < s.copies.size(); ++i)
            if (s.copies[i].get() == &c) return lease(*this, id, i, c.data.data());
        return {};
    }

    /// An entry for a new copy, marked as arriving; the caller holds the lock.
    static copy& begin_arrival(slice& s, device& on) {
        copy* entry = nullptr;
        for (const auto& c : s.copies)
            if (c->state == copy_state::absent) entry = c.get();
        if (entry == nullptr) entry = s.copies.emplace_back(std::make_unique<copy>()).get();
        entry->where = on.memory().where();
        entry->state = copy_state::arriving;
        entry->keep = false;
        return *entry;
    }

    /// A lease on a copy on `on`: one that is there, one that is arriving, or one that this call brings.
    task<lease> bring(slice_id id, device& on, move_function move, std::stop_token stop, arrival_listener* listener) {
        for (;;) {
            copy* there = nullptr;
            {
                const std::lock_guard lock(mutex_);
                slice& s = slices_.at(id);
                there = find(s, on);
                if (there != nullptr && there->state == copy_state::resident) co_return hold(id, s, *there);
            }
            lease got;
            if (there == nullptr)
                got = co_await arrive(id, on, move, stop, listener);
            else
                got = co_await wait_for{*this, *there, on.memory().where()};
            if (got) co_return got;
        }
    }

    /// Makes the copy; gives an empty lease where another coroutine began one first. On failure the entry is free again
    /// and every waiter gets the error.
    task<lease> arrive(slice_id id, device& on, move_function move, std::stop_token stop, arrival_listener* listener) {
        const slice& s = at(id); // name, backing and size never change
        copy* entry = nullptr;
        {
            // Marked here, where nothing that can fail lies before the arrival's own error handling.
            const std::lock_guard lock(mutex_);
            slice& owner = slices_.at(id);
            if (find(owner, on) != nullptr) co_return lease{};
            entry = &begin_arrival(owner, on);
        }
        copy& fresh = *entry;
        std::exception_ptr failure;
        try {
            fresh.data = on.memory().allocate(s.size, s.name);
            // Named, since g++ 12 destroys members of an aggregate twice that is made within a co_await.
            transfer_request request{.from = s.from,
                                     .to = fresh.data.data(),
                                     .size = s.size,
                                     .on = &on,
                                     .staging = &staging_,
                                     .home = &home_,
                                     .stop = std::move(stop),
                                     .listener = listener,
                                     .what = s.name};
            co_await move(std::move(request));
        } catch (...) { failure = std::current_exception(); }
        work_list informed;
        lease held;
        {
            const std::lock_guard lock(mutex_);
            slice& owner = slices_.at(id);
            if (failure) {
                fresh.data = {};
                fresh.state = copy_state::absent;
            } else {
                fresh.state = copy_state::resident;
                ++counters_.arrivals;
                counters_.moved += s.size;
                held = hold(id, owner, fresh);
            }
            while (work_item* item = fresh.waiting.pop()) {
                auto& told = static_cast<waiter&>(*item);
                if (failure)
                    told.error = failure;
                else
                    told.result = hold(id, owner, fresh);
                informed.push(told);
            }
        }
        while (work_item* item = informed.pop()) home_.post(*item);
        if (failure) std::rethrow_exception(failure);
        co_return held;
    }

    /// The caller holds the lock.
    static void drop_unused(copy& c) {
        if (c.state != copy_state::resident || c.keep || c.leases != 0) return;
        c.data = {};
        c.state = copy_state::absent;
    }

    void give_back(slice_id id, std::uint32_t entry) noexcept override {
        const std::lock_guard lock(mutex_);
        copy& c = *slices_[id].copies[entry];
        --c.leases;
        drop_unused(c);
    }

    run_loop& home_;
    arena& staging_;
    mutable std::mutex mutex_;
    std::deque<slice> slices_; // references stay valid as it grows
    residency_counters counters_{};
};

/// The store. (A template underneath, so that a program compiles its coroutines only where it makes one.)
using residency_store = basic_residency_store<>;

} // namespace tern
