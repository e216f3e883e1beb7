// The bookkeeping of copies: which there are, who leases them, who leaves. The part of the residency store under its
// lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include <tern/async/clock.hpp>
#include <tern/async/run_loop.hpp>
#include <tern/memory/disk_reader.hpp>
#include <tern/memory/mapped_file.hpp>
#include <tern/residency/pool.hpp>
#include <tern/residency/records.hpp>

namespace tern {

/// Counts of what the store did, over all locations.
struct residency_counters {
    std::uint64_t hits = 0;     ///< leases given at once
    std::uint64_t arrivals = 0; ///< copies brought somewhere
    bytes moved{};              ///< bytes of those copies
};

/// Told of leases and of room, outside the store's lock: the scheduler is one.
struct residency_observer {
    virtual ~residency_observer() = default;
    /// A lease on a slice was given.
    virtual void used(slice_id slice) noexcept = 0;
    /// A copy went away with its last lease.
    virtual void room_freed() noexcept = 0;
    /// A slice, and others with it, will be borrowed next: a router chose.
    virtual void expected(slice_id slice) noexcept { static_cast<void>(slice); }
};

/// What a store may be given beside its home loop and staging.
struct store_options {
    run_loop* transfers = nullptr; ///< where transfers run; null: in the home loop
    disk_reader* disk = nullptr;   ///< how files are read; null: on the thread where transfers run
    const clock* time = nullptr;   ///< for measured bandwidths; null: none
};

namespace detail {

/// All members but `give_back` are called with `mutex_` held.
template <class> class copies : public lender {
protected:
    copies(run_loop& transfers, const store_options& options) : transfers_(transfers), options_(options) {}
    /// Copies go back to the memories that they lie in.
    ~copies() override {
        for (slice& s : slices_)
            for (const auto& c : s.copies)
                if (c->there) drop(*c);
    }

    pool* find_pool(const location& where) const noexcept {
        for (const auto& p : pools_)
            if (p->where() == where) return p.get();
        return nullptr;
    }
    pool& pool_of(device& on) {
        if (pool* p = find_pool(on.memory().where())) return *p;
        return *pools_.emplace_back(std::make_unique<pool>(on, tick_));
    }

    lease hold(slice& s, copy_entry& c) {
        c.in->used(c, s.usage);
        return pin(c);
    }
    /// A lease that counts as no use.
    lease pin(copy_entry& c) {
        ++c.leases;
        return lease(*this, c.slice, c.entry, c.data);
    }
    void drop(copy_entry& c) noexcept {
        pool& p = *c.in;
        p.leave(c, slices_[c.slice].usage);
        c.there = c.leaving = false;
        if (--c.under->copies == 0) {
            p.give_back(c.under->counted);
            c.under->end();
            room_changed();
        }
        c.under = nullptr;
    }
    /// Drops what nobody leases, keeps or will need; true when it did.
    bool drop_unused(copy_entry& c) noexcept {
        if (!c.there || c.leases != 0) return false;
        const bool streamed = c.stay == retention::drop && !c.fresh && !c.awaited;
        if (!c.leaving && !streamed) return false;
        drop(c);
        return true;
    }
    /// Evicts.
    void let_go(copy_entry& c) noexcept {
        c.leaving = true;
        drop_unused(c);
    }
    /// From cached to placed: it no longer counts against the pool. One that came alone counts with whole pages.
    void keep(copy_entry& c) noexcept {
        c.leaving = false;
        c.stay = retention::keep;
        if (c.in == nullptr) return;
        c.in->retention_changed();
        if (!std::exchange(c.counts, false)) return;
        bytes& counted = c.under->counted;
        const bytes share = c.under->copies == 1 ? counted : slices_[c.slice].size;
        c.in->give_back(share);
        counted -= share;
    }
    /// The other way; it leaves where the pool has no room for it.
    void no_longer_keep(copy_entry& c, retention stay) noexcept {
        c.stay = stay;
        if (c.in != nullptr) c.in->retention_changed();
        if (stay == retention::drop) return let_go(c);
        if (c.in == nullptr || c.counts) return;
        bytes& counted = c.under->counted;
        const bytes share = c.under->copies == 1 ? c.under->room.size() - counted : slices_[c.slice].size;
        if (!c.in->has_room(share)) return let_go(c);
        c.in->take(share);
        counted += share;
        c.counts = true;
    }

    /// Those who wait for room look again.
    void room_changed() noexcept {
        ++changes_;
        while (work_item* item = wait_for_room_.pop()) transfers_.post(*item);
    }

    static bool reads_in_place(const slice& s, device& on) {
        return s.from.memory != nullptr && s.in_place && on.reads({tier_of<mapped>, 0, 0});
    }
    /// A copy in host memory, to bring others from.
    static copy_entry* on_host(const slice& s) noexcept {
        for (const auto& c : s.copies)
            if (c->there && c->where.tier.reached_by == reach::host) return c.get();
        return nullptr;
    }

    /// A copy in host memory that holds a whole run; its first slice may have one that came alone.
    copy_entry* source_of(const slice_run& run) const noexcept {
        copy_entry* const first = on_host(slices_[run.first]);
        for (std::uint32_t i = 1; first != nullptr && i < run.count; ++i) {
            const slice& s = slices_[run.first + i];
            const copy_entry* const c = on_host(s);
            if (c == nullptr || c->under != first->under || c->data != first->data + i * s.size.count) return nullptr;
        }
        return first;
    }

    /// Whether a slice has to be brought to be read on `on`. One that is there is known to be needed now; the system is
    /// told about one that is read in place.
    bool wanted(slice_id id, device& on, arrival_cause cause) {
        slice& s = slices_.at(id);
        if (copy_entry* c = s.find(on.memory().where())) {
            c->awaited = c->awaited || cause == arrival_cause::expected;
            return false;
        }
        if (s.readable(on) != nullptr) return false;
        if (!reads_in_place(s, on)) return true;
        will_need({s.from.memory, static_cast<std::size_t>(s.size.count)});
        return false;
    }

    /// Whether one transfer brings a run and the slice `next`: that follows it in the same backing. Only over a link:
    /// in RAM each has a room of its own, which the next one of its size takes over when it leaves.
    bool extends(const slice_run& run, slice_id next, device& on) const {
        if (on.memory().where().tier.reached_by == reach::host) return false;
        if (next != run.first + run.count || next >= slices_.size()) return false;
        const slice& a = slices_[next - 1];
        const slice& b = slices_[next];
        if (b.find(on.memory().where()) != nullptr || b.readable(on) != nullptr) return false;
        if (a.size != b.size || a.home != b.home || a.stay != b.stay || a.from.stored.count != 0) return false;
        const copy_entry* const one = on_host(a);
        const copy_entry* const other = on_host(b);
        if (one != nullptr && other != nullptr)
            return one->under == other->under && other->data == one->data + a.size.count;
        if (one != nullptr || other != nullptr || a.from.file != b.from.file) return false;
        return a.from.file != nullptr ? b.from.offset == a.from.offset + a.size.count
                                      : a.from.memory != nullptr && b.from.memory == a.from.memory + a.size.count;
    }

    bool roomy(bytes size, device& on) {
        pool& p = pool_of(on);
        return p.has_room(size) && size <= on.memory().budget().available() && p.has_hole(size);
    }

    /// Marks the slices of a run as arriving; gives the entry of the first. On failure nothing is marked.
    copy_entry* mark(const slice_run& run, device& on, arrival_cause cause, std::optional<retention> stay) {
        pool& p = pool_of(on);
        for (std::uint32_t i = 0; i < run.count; ++i) slices_[run.first + i].fresh(run.first + i);
        p.expect_more(run.count); // nothing fails from here on
        copy_entry* first = nullptr;
        for (std::uint32_t i = run.count; i-- > 0;) {
            slice& s = slices_[run.first + i];
            first = &s.fresh(run.first + i);
            first->where = p.where();
            first->arriving = true;
            first->leaving = false;
            first->awaited = false;
            first->cause = cause;
            first->stay = stay ? *stay : s.home == &on ? s.stay : retention::drop;
        }
        return first;
    }

    /// A copy is there, over `data`.
    void publish(slice& s, copy_entry& c, block& under, const std::byte* data) noexcept {
        c.arriving = false;
        c.there = true;
        c.fresh = true;
        c.awaited = c.awaited || c.cause == arrival_cause::expected;
        c.data = data;
        c.under = &under;
        c.counts = under.counted != bytes{};
        find_pool(c.where)->enter(c, s.usage);
        ++counters_.arrivals;
        counters_.moved.count += s.size.count;
    }
    /// An arrival failed or was given up.
    void unmark(copy_entry& c) noexcept {
        c.arriving = c.awaited = false;
        find_pool(c.where)->expect_fewer(1);
    }

    /// Whom to tell, or null; then `told` ends the call. Under the lock; the call itself is outside of it.
    residency_observer* observer() noexcept {
        if (observer_ != nullptr) calls_.fetch_add(1, std::memory_order_relaxed);
        return observer_;
    }
    void told() noexcept {
        if (calls_.fetch_sub(1, std::memory_order_release) == 1) calls_.notify_all();
    }
    void tell_used(slice_id id) noexcept {
        residency_observer* who = nullptr;
        {
            const std::lock_guard lock(mutex_);
            who = observer();
        }
        if (who == nullptr) return;
        who->used(id);
        told();
    }
    /// Until those who call an observer have ended. Not under the lock.
    void await_calls() const noexcept {
        while (const std::uint32_t n = calls_.load(std::memory_order_acquire)) calls_.wait(n);
    }

    run_loop& transfers_;
    store_options options_;
    mutable std::mutex mutex_;
    std::deque<slice> slices_; // references stay valid as it grows
    std::vector<std::unique_ptr<pool>> pools_;
    residency_counters counters_{};
    residency_observer* observer_ = nullptr;
    std::stop_token stop_{};
    std::uint64_t changes_ = 0; // of the room in any pool
    std::uint64_t tick_ = 0;
    work_list wait_for_room_{};

private:
    std::atomic<std::uint32_t> calls_{0}; // of observers, under way

    void give_back(slice_id id, std::uint32_t entry) noexcept override {
        residency_observer* who = nullptr;
        {
            const std::lock_guard lock(mutex_);
            copy_entry& c = *slices_[id].copies[entry];
            --c.leases;
            if (drop_unused(c)) who = observer();
        }
        if (who == nullptr) return;
        who->room_freed();
        told();
    }
};

} // namespace detail
} // namespace tern
