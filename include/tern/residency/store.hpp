// The residency store: which slices there are, in which locations copies of them lie, and who holds a lease on one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tern/residency/arrivals.hpp>

namespace tern {

/// Keeps slices and lends them to devices. Every slice has a backing (a stretch of a file, or host memory) from which a
/// copy can be made at any time, so giving up a copy costs nothing. A copy is brought from another in host memory where
/// there is one.
///
/// `place` brings a copy to stay; `borrow` brings one where none is readable, and its slice's retention says what
/// becomes of it. Copies of a location that are cached or streamed share its pool: when its limit or its memory is
/// full, those that nobody leases leave in the order of an eviction policy. Leases pin.
///
/// Devices, arenas, loops and backings must outlive the store, and the store its leases. Calls are safe from several
/// threads; coroutines go on in `home`, and the store ends on that loop's thread.
template <class Void = void> class basic_residency_store final : public detail::arrivals<Void> {
    using base = detail::arrivals<Void>;
    using base::await_calls, base::begin_all, base::bring, base::counters_, base::find_pool, base::hold, base::keep,
        base::let_go, base::mutex_, base::no_longer_keep, base::observer, base::observer_, base::pool_of, base::slices_,
        base::stop_, base::told;

public:
    basic_residency_store(run_loop& home, arena& staging, const store_options& options = {})
        : base(home, staging, options) {}
    ~basic_residency_store() override { this->end(); }

    /// A new slice of `size` bytes. `memory` of the backing, where it has one, is readable by host devices in place (a
    /// mapping), unless the bytes arrive in another format.
    slice_id add(std::string name, backing from, bytes size) override {
        const std::lock_guard lock(mutex_);
        slices_.push_back({std::move(name), from, size});
        detail::slice& s = slices_.back();
        s.in_place = from.format.empty();
        s.usage.slice = static_cast<std::uint32_t>(slices_.size() - 1);
        s.usage.bytes = size.count;
        return s.usage.slice;
    }

    std::size_t slices() const {
        const std::lock_guard lock(mutex_);
        return slices_.size();
    }
    /// Valid as long as the store.
    const std::string& name(slice_id id) const {
        const std::lock_guard lock(mutex_);
        return slices_.at(id).name;
    }
    bytes size(slice_id id) const {
        const std::lock_guard lock(mutex_);
        return slices_.at(id).size;
    }
    residency_counters counters() const {
        const std::lock_guard lock(mutex_);
        return counters_;
    }
    /// Of the copies in `on`'s memory.
    pool_counters counters(device& on) const {
        const std::lock_guard lock(mutex_);
        const detail::pool* p = find_pool(on.memory().where());
        return p != nullptr ? p->counters : pool_counters{};
    }

    /// Where copies lie now. A backing in memory counts as `mapped`.
    std::vector<location> where(slice_id id) const {
        const std::lock_guard lock(mutex_);
        std::vector<location> found;
        const detail::slice& s = slices_.at(id);
        for (const auto& c : s.copies)
            if (c->there) found.push_back(c->where);
        if (s.from.memory != nullptr && s.in_place) found.push_back({tier_of<mapped>, 0, 0});
        return found;
    }
    /// What the copy at a location is doing.
    copy_state state(slice_id id, const location& where) const {
        const std::lock_guard lock(mutex_);
        const detail::copy_entry* c = slices_.at(id).find(where);
        return c != nullptr ? c->state() : copy_state::absent;
    }

    /// Addresses of the copies of slices [first, first + out.size()) that lie in `on`'s memory, null where there is
    /// none: the slot table of a packed tensor. Stable while the returned epoch is; it changes with each arrival and
    /// departure there.
    std::uint64_t slots(slice_id first, device& on, std::span<const std::byte*> out) const {
        const std::lock_guard lock(mutex_);
        const location where = on.memory().where();
        for (std::size_t i = 0; i < out.size(); ++i) {
            const detail::copy_entry* c = slices_.at(first + i).find(where);
            out[i] = c != nullptr && c->there ? c->data : nullptr;
        }
        const detail::pool* p = find_pool(where);
        return p != nullptr ? p->epoch() : 0;
    }

    /// Brings a copy of `count` neighbouring slices into `on`'s memory to stay there, and computes them on `on` from
    /// now on. Throws budget_error when they do not fit, and what the transfer throws; then nothing stays behind.
    task<void> place(slice_id id, device& on, move_function move, std::stop_token stop = {},
                     arrival_listener* listener = nullptr) {
        const lease held = co_await bring(id, on, move, retention::keep, std::move(stop), listener);
        const std::lock_guard lock(mutex_);
        detail::slice& s = slices_.at(id);
        if (detail::copy_entry* c = s.find(on.memory().where())) keep(*c);
        s.home = &on;
        s.stay = retention::keep;
    }

    /// Computes the slice on `on` from now on without placing a copy: from its mapping, or from one that is brought for
    /// a use and retained as `stay` says.
    void assign(slice_id id, device& on, retention stay = retention::drop, bool in_place = true) {
        const std::lock_guard lock(mutex_);
        detail::slice& s = slices_.at(id);
        s.home = &on;
        s.stay = stay;
        s.in_place = in_place && s.from.format.empty();
        if (detail::copy_entry* c = s.find(on.memory().where())) {
            if (stay == retention::keep)
                keep(*c);
            else
                no_longer_keep(*c, stay);
        }
    }

    /// Lets a copy go: at once, or with its last lease. Where the slice is computed does not change; if the copy was
    /// placed, later ones are streamed.
    void evict(slice_id id, device& from) {
        const std::lock_guard lock(mutex_);
        detail::slice& s = slices_.at(id);
        if (s.home == &from && s.stay == retention::keep) s.stay = retention::drop;
        if (detail::copy_entry* c = s.find(from.memory().where())) let_go(*c);
    }

    /// How many bytes cached and streamed copies may take in `on`'s memory together, beside those that were placed, and
    /// which of them leave first; null: the least recently used.
    void bound(device& on, bytes limit, std::shared_ptr<const eviction_policy> policy = nullptr) {
        const std::lock_guard lock(mutex_);
        pool_of(on).bound(limit);
        pool_of(on).judge_by(std::move(policy));
    }
    /// Bytes that they take now.
    bytes cached(device& on) const {
        const std::lock_guard lock(mutex_);
        const detail::pool* p = find_pool(on.memory().where());
        return p != nullptr ? p->used() : bytes{};
    }

    /// Stops the transfers that begin from now on; an empty token stops none.
    void stop_with(std::stop_token token) {
        const std::lock_guard lock(mutex_);
        stop_ = std::move(token);
    }
    /// Told of leases and room; null for nobody. It must outlive the store, or be taken back: when this returns, no
    /// call of the one before is under way on any thread. Not from within such a call.
    void tell(residency_observer* observer) {
        {
            const std::lock_guard lock(mutex_);
            observer_ = observer;
        }
        await_calls();
    }

    lease try_borrow(slice_id id, device& on) override {
        lease found;
        residency_observer* who = nullptr;
        {
            const std::lock_guard lock(mutex_);
            detail::slice& s = slices_.at(id);
            if (detail::copy_entry* c = s.readable(on))
                found = hold(s, *c);
            else if (s.from.memory != nullptr && s.in_place && on.reads({tier_of<mapped>, 0, 0}))
                found = lease(s.from.memory);
            else
                return {};
            ++counters_.hits;
            who = observer();
        }
        if (who == nullptr) return found;
        who->used(id);
        told();
        return found;
    }

    /// Throws what the transfer throws. The task may be destroyed while it waits, on the home loop's thread; the
    /// arrival goes on.
    task<lease> borrow(slice_id id, device& on, move_function move) override {
        return bring(id, on, move, {}, {}, nullptr);
    }

    void expect(std::span<const slice_id> ids, device& on, move_function move) noexcept override {
        begin_all(ids, on, move, arrival_cause::expected);
        if (ids.empty()) return;
        residency_observer* who = nullptr;
        {
            const std::lock_guard lock(mutex_);
            who = observer();
        }
        if (who == nullptr) return;
        who->expected(ids.front());
        told();
    }
    /// Begins to bring what will be needed, as far as there is room that nobody needs sooner; nobody is told of
    /// failures, since whoever borrows then tries again. Gives how many of the first ids are there or on their way.
    std::size_t bring_ahead(std::span<const slice_id> ids, device& on, move_function move) noexcept {
        return begin_all(ids, on, move, arrival_cause::ahead);
    }
    /// The same for what may be needed: it takes the place of what is worth least, but not of what is to be used.
    void guess(std::span<const slice_id> ids, device& on, move_function move) noexcept {
        begin_all(ids, on, move, arrival_cause::guess);
    }
    /// Of slices [first, first + count), up to out.size() that `on` would have to be brought, the most used first.
    /// Gives how many.
    std::size_t most_used_absent(slice_id first, std::size_t count, device& on, std::span<slice_id> out) const {
        const std::lock_guard lock(mutex_);
        std::size_t found = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const detail::slice& s = slices_.at(first + i);
            if (s.usage.uses == 0 || s.find(on.memory().where()) != nullptr) continue;
            std::size_t at = found < out.size() ? found++ : out.size();
            for (; at > 0 && slices_[out[at - 1]].usage.uses < s.usage.uses; --at)
                if (at < out.size()) out[at] = out[at - 1];
            if (at < out.size()) out[at] = first + static_cast<slice_id>(i);
        }
        return found;
    }
    bool readable(slice_id id, device& on) override {
        const std::lock_guard lock(mutex_);
        const detail::slice& s = slices_.at(id);
        return s.readable(on) != nullptr ||
               (s.from.memory != nullptr && s.in_place && on.reads({tier_of<mapped>, 0, 0}));
    }

    const std::byte* mapped_bytes(slice_id id) const override {
        const std::lock_guard lock(mutex_);
        const detail::slice& s = slices_.at(id);
        return s.from.format.empty() ? s.from.memory : nullptr;
    }
    bytes_per_second bandwidth_to(device& on) const override { return counters(on).bandwidth(); }
    device* home_of(slice_id id) const override {
        const std::lock_guard lock(mutex_);
        return slices_.at(id).home;
    }

    using base::drain;
};

/// The store. (A template underneath, so that a program compiles its coroutines only where it makes one.)
using residency_store = basic_residency_store<>;

} // namespace tern
