// How copies come: the part of the residency store that moves bytes.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <typeinfo>
#include <utility>

#include <tern/async/mutex.hpp>
#include <tern/async/scope.hpp>
#include <tern/base/error.hpp>
#include <tern/residency/copies.hpp>

namespace tern::detail {

/// A copy is marked as arriving under the lock; then a coroutine finds room for it, moves its bytes and publishes it,
/// and whoever waits gets a lease. Whatever fails in between frees the entry and reaches every waiter.
template <class Void> class arrivals : public copies<Void> {
    using base = copies<Void>;

protected:
    using base::changes_, base::counters_, base::drop_unused, base::extends, base::find_pool, base::hold, base::mark,
        base::mutex_, base::options_, base::pin, base::pool_of, base::publish, base::room_changed, base::roomy,
        base::slices_, base::source_of, base::stop_, base::transfers_, base::unmark, base::wait_for_room_, base::wanted;

    arrivals(run_loop& home, arena& staging, const store_options& options)
        : base(options.transfers != nullptr ? *options.transfers : home, options), home_(home), staging_(staging) {}
    /// Before the object begins to end: transfers that are under way call its virtual members.
    void end() noexcept {
        ending_.request_stop();
        try {
            home_.run(drain());
        } catch (...) {} // the scope's own end waits likewise
    }

    /// Completes when no transfer is under way.
    task<void> drain() { return scope_.join(); }

    /// A lease on a copy on `on`: one that is there, one that is arriving, or one that this call brings.
    task<lease> bring(slice_id id, device& on, move_function move, std::optional<retention> stay, std::stop_token stop,
                      arrival_listener* listener) {
        for (;;) {
            copy_entry* awaited = nullptr;
            bool begin = false;
            lease got;
            {
                const std::lock_guard lock(mutex_);
                slice& s = slices_.at(id);
                awaited = s.find(on.memory().where());
                if (awaited == nullptr) {
                    awaited = mark({id, 1}, on, arrival_cause::demand, stay);
                    begin = true;
                } else if (awaited->there) {
                    got = hold(s, *awaited);
                }
            }
            if (begin) start({{id, 1}, &on, move, arrival_cause::demand, stop, listener, {}});
            if (!got) got = co_await wait_for{*this, *awaited, on.memory().where()};
            if (!got) continue;
            this->tell_used(id);
            co_return got;
        }
    }

    /// Begins to bring slices, neighbours together; gives how many of the first ones are there or on their way.
    std::size_t begin_all(std::span<const slice_id> ids, device& on, move_function move, arrival_cause cause) noexcept {
        std::size_t done = 0;
        try {
            while (done < ids.size()) {
                arrival next{{ids[done], 1}, &on, move, cause, {}, nullptr};
                slice_run& run = next.run;
                {
                    const std::lock_guard lock(mutex_);
                    if (!wanted(ids[done], on, cause)) {
                        ++done;
                        continue;
                    }
                    while (done + run.count < ids.size() && extends(run, ids[done + run.count], on)) ++run.count;
                    // Those that come ahead take their room at once, so that no more are begun than it holds.
                    const bytes size = cause == arrival_cause::ahead ? layout(next, false).size : bytes{};
                    if (cause == arrival_cause::ahead && !roomy(size, on)) break;
                    mark(run, on, cause, std::nullopt);
                    if (cause == arrival_cause::ahead) pool_of(on).promise(size);
                    next.reserved = size;
                }
                done += run.count;
                start(std::move(next));
            }
        } catch (...) {} // whoever needs a slice borrows it, and is told then
        return done;
    }

private:
    struct arrival {
        slice_run run;
        device* on;
        move_function move;
        arrival_cause cause;
        std::stop_token stop;
        arrival_listener* listener;
        bytes reserved{}; // in the pool already, by what comes ahead
    };

    struct wait_for {
        arrivals& store;
        copy_entry& awaited;
        location where;
        arrival_waiter self{};
        bool suspended = false;

        /// Its task may be destroyed while it waits, on the home loop's thread: nobody wakes it then.
        ~wait_for() {
            if (!suspended) return;
            const std::lock_guard lock(store.mutex_);
            if (!awaited.waiting.remove(self)) store.home_.withdraw(self);
        }
        bool await_ready() const noexcept { return false; }
        // Not inlined: compilers may otherwise keep parts of the awaiter in a frame that runs on elsewhere by then.
        [[gnu::noinline]] bool await_suspend(std::coroutine_handle<> waiting) {
            const std::lock_guard lock(store.mutex_);
            // It may have arrived or failed since, and the entry may serve another location by now.
            if (!awaited.arriving || awaited.where != where) return false;
            self.handle = waiting;
            suspended = true;
            awaited.waiting.push(self);
            return true;
        }
        /// Empty where there was nothing to wait for any more.
        lease await_resume() {
            suspended = false;
            if (self.error) std::rethrow_exception(self.error);
            return std::move(self.result);
        }
    };
    /// Waits until room may have appeared since `seen` was read.
    struct room_change {
        arrivals& store;
        std::uint64_t seen;
        work_item self{};

        bool await_ready() const noexcept { return false; }
        [[gnu::noinline]] bool await_suspend(std::coroutine_handle<> waiting) {
            const std::lock_guard lock(store.mutex_);
            if (store.changes_ != seen) return false;
            self.handle = waiting;
            store.wait_for_room_.push(self);
            return true;
        }
        void await_resume() const noexcept {}
    };

    void start(arrival a) {
        try {
            scope_.spawn(arrive(a));
        } catch (...) {
            keep_promise(a);
            finish(a, {}, nullptr, std::current_exception());
            throw;
        }
    }
    void keep_promise(const arrival& a) {
        const std::lock_guard lock(mutex_);
        if (a.cause == arrival_cause::ahead) pool_of(*a.on).keep_promise(a.reserved);
    }

    /// Begins in the caller's thread and goes on where transfers run.
    task<void> arrive(arrival a) {
        co_await transfers_.schedule();
        keep_promise(a);
        std::exception_ptr failure;
        landing spot;
        block* under = nullptr;
        try {
            spot = co_await find_room(a);
            if (spot.room) {
                co_await move_in(a, spot);
                under = block::make(a.run.count, spot.counted());
            }
        } catch (...) { failure = std::current_exception(); }
        finish(a, std::move(spot), under, failure);
    }

    /// Room for a run, in the pool and in the device's memory; others leave for it. One that nobody waits for is given
    /// up where there is none.
    task<landing> find_room(const arrival& a) {
        landing spot = layout_of(a);
        std::uint64_t seen = 0;
        outcome last = take_room(a, spot, seen);
        while (last == outcome::wait) {
            co_await room_change{*this, seen};
            last = take_room(a, spot, seen);
        }
        co_return last == outcome::taken ? std::move(spot) : landing{};
    }

    enum class outcome { taken, wait, give_up };

    /// Throws budget_error where there is no room for one slice and none will come. A run of several is given up then:
    /// whoever waits brings each alone.
    outcome take_room(const arrival& a, landing& spot, std::uint64_t& seen) {
        const std::lock_guard lock(mutex_);
        pool& p = pool_of(*a.on);
        arena& memory = spot.kept ? a.on->memory() : p.rooms();
        const arrival_cause cause = cause_of(a);
        // What was reserved may differ from what is needed by now: retention or the nearest copy may have changed.
        const auto fits = [&] {
            return spot.counted() <= a.reserved || p.has_room({spot.counted().count - a.reserved.count});
        };
        if (a.run.count > 1 && spot.counted() > p.limit()) return outcome::give_up; // before others leave in vain
        const bool beside = p.in_ram() && &memory != &a.on->memory();
        for (;;) {
            const bool enough = fits() && spot.size <= memory.budget().available();
            if (enough && memory.in_one_piece(spot.size)) {
                try {
                    return settle(p, a, spot, memory);
                } catch (const budget_error&) {} // taken by others meanwhile
            }
            // What is still to be used makes room and no holes: where leases leave none, there is memory beside.
            copy_entry* const leaves = p.victim(enough && beside ? arrival_cause::guess : cause);
            if (leaves == nullptr && enough && beside) {
                memory.trim();
                try {
                    return settle(p, a, spot, a.on->memory());
                } catch (const budget_error&) { break; }
            }
            if (leaves == nullptr) break;
            this->drop(*leaves);
            ++p.counters.evictions;
        }
        if (cause != arrival_cause::demand) return outcome::give_up;
        seen = changes_;
        if (p.moving() != 0) return outcome::wait;
        if (a.run.count > 1) return outcome::give_up;
        if (!fits())
            throw budget_error("the room for streamed and cached copies in " + to_string(p.where()) +
                                   " is too small for " + slices_[a.run.first].name + ": raise it or place less there",
                               {.needed = spot.counted().count, .available = p.left().count});
        p.give_up_range();
        return settle(p, a, spot, a.on->memory()); // which says what is missing
    }
    outcome settle(pool& p, const arrival& a, landing& spot, arena& memory) {
        spot.room = memory.allocate(spot.size, slices_[a.run.first].name);
        p.give_back(a.reserved);
        p.take(spot.counted());
        return outcome::taken;
    }

    /// What was begun beforehand is in demand as soon as somebody waits for it. Under the lock.
    arrival_cause cause_of(const arrival& a) const noexcept {
        for (std::uint32_t i = 0; i < a.run.count; ++i)
            if (!slices_[a.run.first + i].find(a.on->memory().where())->waiting.empty()) return arrival_cause::demand;
        return a.cause;
    }

    /// How a run lies in its room. Direct reads go straight to their place where it is shifted like the file's pages.
    landing layout_of(const arrival& a) const {
        const std::lock_guard lock(mutex_);
        return layout(a, slices_[a.run.first].find(a.on->memory().where())->stay == retention::keep);
    }
    landing layout(const arrival& a, bool kept) const {
        constexpr std::uint64_t worth_a_page = 64 * 1024;
        const slice& s = slices_[a.run.first];
        landing spot;
        spot.size = s.size * a.run.count;
        const bool from_disk = options_.disk != nullptr && s.from.file != nullptr && source_of(a.run) == nullptr;
        const bool in_ram = a.on->memory().where().tier.reached_by == reach::host;
        const std::uint64_t page = from_disk && in_ram ? options_.disk->alignment() : 1;
        if (page > 1 && s.from.stored.count == 0 && spot.size.count >= worth_a_page) {
            spot.head = s.from.offset % page;
            spot.page = page;
            spot.size = {checked_mul(checked_add(spot.size.count, spot.head + page - 1) / page, page)};
        }
        spot.kept = kept;
        return spot;
    }

    task<void> move_in(const arrival& a, const landing& spot) {
        lease source;
        transfer_request request;
        request.to = spot.room.data() + spot.head;
        request.slack = spot.page > 1 && reinterpret_cast<std::uintptr_t>(spot.room.data()) % spot.page == 0;
        pool& into = begin_move(a, request, source);
        std::exception_ptr failure;
        try {
            if (request.to_host())
                co_await a.move(std::move(request));
            else
                co_await move_over_link(a.move, std::move(request), into);
        } catch (const io_error& e) { failure = with_tensor(e, a); } catch (...) {
            failure = std::current_exception();
        }
        {
            const std::lock_guard lock(mutex_);
            into.end_move(options_.time);
        }
        if (failure) std::rethrow_exception(failure);
    }

    /// Readers know the file and not what it was read for.
    std::exception_ptr with_tensor(const io_error& e, const arrival& a) const {
        if (typeid(e) != typeid(io_error) || e.path().empty() || !e.tensor().empty()) return std::current_exception();
        const std::lock_guard lock(mutex_);
        return std::make_exception_ptr(
            io_error(e.reason(), {e.path(), slices_[a.run.first].name, e.needed(), e.available()}));
    }

    /// Two at once keep disk and link busy. Each needs staging: one that gets none goes again when no other moves.
    task<void> move_over_link(move_function move, transfer_request request, pool& into) {
        const bool two = request.from.file != nullptr && request.disk != nullptr;
        {
            const async_mutex::holder turn = co_await into.turn(two).lock();
            try {
                co_await move(request);
                co_return;
            } catch (const budget_error&) {}
        }
        const async_mutex::holder one = co_await into.turn(false).lock();
        const async_mutex::holder other = co_await into.other_turn().lock();
        co_await move(std::move(request));
    }

    pool& begin_move(const arrival& a, transfer_request& request, lease& source) {
        const std::lock_guard lock(mutex_);
        slice& s = slices_[a.run.first];
        request.from = s.from;
        request.size = s.size * a.run.count;
        request.on = a.on;
        request.staging = &staging_;
        request.disk = options_.disk;
        request.home = &transfers_;
        request.stop = a.stop.stop_possible() ? a.stop : stop_.stop_possible() ? stop_ : ending_.get_token();
        request.listener = a.listener;
        request.what = s.name;
        if (copy_entry* ram = source_of(a.run)) {
            source = pin(*ram);
            request.from = {};
            request.from.memory = ram->data;
        }
        pool& into = pool_of(*a.on);
        into.begin_move(options_.time);
        return into;
    }

    /// The end of an arrival: its slices are there (`under`), or it failed, or it was given up.
    void finish(const arrival& a, landing spot, block* under, std::exception_ptr failure) noexcept {
        const std::lock_guard lock(mutex_);
        pool* const p = find_pool(a.on->memory().where());
        if (under != nullptr)
            ++p->counters.transfers;
        else
            p->give_back(spot.room ? spot.counted() : a.reserved);
        const std::byte* data = spot.room.data() + spot.head;
        if (under != nullptr)
            under->room = std::move(spot.room);
        else
            spot.room = {};
        for (std::uint32_t i = 0; i < a.run.count; ++i) {
            slice& s = slices_[a.run.first + i];
            copy_entry& c = *s.find(p->where());
            if (under != nullptr) {
                publish(s, c, *under, data);
                data += s.size.count;
            } else {
                unmark(c);
            }
            inform(s, c, failure);
        }
        room_changed();
    }

    /// Gives those who wait for a copy their leases, the error, or nothing. Under the lock, so that each is
    /// with the copy or with its loop.
    void inform(slice& s, copy_entry& c, const std::exception_ptr& failure) {
        while (work_item* item = c.waiting.pop()) {
            auto& told = static_cast<arrival_waiter&>(*item);
            if (failure)
                told.error = failure;
            else if (c.there)
                told.result = hold(s, c);
            home_.post(told);
        }
        drop_unused(c);
    }

    run_loop& home_;
    arena& staging_;
    std::stop_source ending_;
    scope scope_;
};

} // namespace tern::detail
