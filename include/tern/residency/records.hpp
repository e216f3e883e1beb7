// What the residency store keeps of slices, their copies and the blocks of memory under them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <tern/async/frame_arena.hpp>
#include <tern/async/trampoline.hpp>
#include <tern/memory/arena.hpp>
#include <tern/residency/eviction.hpp>
#include <tern/residency/retention.hpp>
#include <tern/tensor/lease.hpp>
#include <tern/transfer/request.hpp>

namespace tern {

/// What a copy of a slice in one location is doing.
enum class copy_state : unsigned char {
    absent,   ///< there is none
    arriving, ///< a transfer is under way; others who want it wait for the same one
    resident, ///< readable, and nobody reads it now
    leased,   ///< readable, and somebody does: it neither moves nor goes away
    leaving,  ///< evicted while leased: readable, and gone with its last lease
};

constexpr std::string_view to_string(copy_state s) noexcept {
    constexpr std::string_view names[] = {"absent", "arriving", "resident", "leased", "leaving"};
    return names[static_cast<std::size_t>(s)];
}

/// Why a copy was brought.
enum class arrival_cause : unsigned char {
    demand,   ///< somebody waits for it
    expected, ///< it is known to be needed next: a router chose it
    ahead,    ///< the plan's order says that it will be needed
    guess,    ///< it may be needed
};

namespace detail {

class pool;

/// Memory under the copies of one transfer: one slice, or neighbours that came together. It goes with the last of them.
struct block {
    allocation room{};
    std::uint32_t copies = 0;
    bytes counted{}; ///< against the pool's limit

    static block* make(std::uint32_t copies, bytes counted) {
        return ::new (frame_arena::allocate(sizeof(block))) block{{}, copies, counted};
    }
    void end() noexcept {
        this->~block();
        frame_arena::deallocate(this, sizeof(block));
    }
};

/// One copy, or the free entry for one. Entries stay where they are: leases refer to them.
struct copy_entry {
    location where{};
    bool there = false;    // readable
    bool arriving = false; // never both
    bool leaving = false;
    bool fresh = false;   // not used since it arrived
    bool awaited = false; // a use is known to come
    bool counts = false;  // against its pool, with the others of its block
    retention stay = retention::drop;
    arrival_cause cause = arrival_cause::demand;
    std::uint32_t leases = 0;
    std::uint32_t slice = 0;
    std::uint32_t entry = 0; // which of the slice's
    const std::byte* data = nullptr;
    block* under = nullptr;
    pool* in = nullptr;
    std::size_t place_in_pool = 0;
    work_list waiting{}; // of arrival_waiters

    bool free() const noexcept { return !there && !arriving; }
    copy_state state() const noexcept {
        if (arriving) return copy_state::arriving;
        if (!there) return copy_state::absent;
        if (leases == 0) return copy_state::resident;
        return leaving ? copy_state::leaving : copy_state::leased;
    }
};

struct slice {
    std::string name;
    backing from;
    bytes size;
    device* home = nullptr;
    retention stay = retention::drop; // on the home device; elsewhere copies are dropped
    bool in_place = true;             // the backing's memory may be lent
    std::vector<std::unique_ptr<copy_entry>> copies{};
    copy_usage usage{};

    /// The copy that is or will be at a location.
    copy_entry* find(const location& where) const noexcept {
        for (const auto& c : copies)
            if (!c->free() && c->where == where) return c.get();
        return nullptr;
    }
    /// One that `on` reads now.
    copy_entry* readable(device& on) const noexcept {
        for (const auto& c : copies)
            if (c->there && on.reads(c->where)) return c.get();
        return nullptr;
    }
    /// A free entry.
    copy_entry& fresh(std::uint32_t id) {
        for (const auto& c : copies)
            if (c->free()) return *c;
        copies.push_back(std::make_unique<copy_entry>());
        copies.back()->slice = id;
        copies.back()->entry = static_cast<std::uint32_t>(copies.size() - 1);
        return *copies.back();
    }
};

/// A coroutine that waits for an arrival. All who wait for one get leases on the same copy or the same error; or
/// nothing, where there was nothing to wait for any more.
struct arrival_waiter : work_item {
    lease result{};
    std::exception_ptr error{};
};

/// Slices that one transfer brings: neighbours in their backing.
struct slice_run {
    slice_id first = 0;
    std::uint32_t count = 1;
};

/// Where the bytes of a run go; without room where it was given up.
struct landing {
    allocation room{};
    bytes size{};
    bool kept = false;      // placed: not counted against the pool
    std::uint64_t page = 1; // of the disk, where its pages go straight to their place
    std::uint64_t head = 0; // bytes of the first page before the slice

    bytes counted() const noexcept { return kept ? bytes{} : size; }
};

} // namespace detail
} // namespace tern
