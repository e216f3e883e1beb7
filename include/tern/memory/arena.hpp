// Arenas hand out memory of one tier inside a budget.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include <tern/base/checked.hpp>
#include <tern/base/error.hpp>
#include <tern/base/units.hpp>
#include <tern/memory/budget.hpp>
#include <tern/memory/page_source.hpp>
#include <tern/memory/slab_arena.hpp>
#include <tern/memory/tier.hpp>

namespace tern {

class arena;

/// Memory on loan from an arena; gives itself back. The arena must outlive it.
class allocation {
public:
    allocation() = default;
    allocation(arena& owner, std::byte* data, bytes size) noexcept : owner_(&owner), data_(data), size_(size) {}
    allocation(allocation&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, {})) {}
    allocation& operator=(allocation&& other) noexcept {
        allocation moved(std::move(other));
        std::swap(owner_, moved.owner_);
        std::swap(data_, moved.data_);
        std::swap(size_, moved.size_);
        return *this;
    }
    ~allocation();

    std::byte* data() const noexcept { return data_; }
    bytes size() const noexcept { return size_; }
    explicit operator bool() const noexcept { return owner_ != nullptr; }

private:
    arena* owner_ = nullptr;
    std::byte* data_ = nullptr;
    bytes size_{};
};

/// Memory of one tier. `allocate` throws budget_error where the capacity does not hold the request.
class arena {
public:
    static constexpr std::size_t alignment = 64; ///< of every allocation

    arena(const arena&) = delete;
    arena& operator=(const arena&) = delete;
    virtual ~arena() = default;

    /// `n` bytes, aligned to 64, for `what` (named in the error).
    allocation allocate(bytes n, std::string_view what) { return {*this, take(n, what), n}; }

    virtual const tern::budget& budget() const noexcept = 0;
    /// Where its memory lies.
    virtual location where() const noexcept = 0;

    /// False where a request of `n` bytes would fail because what is free lies in pieces that are all smaller.
    virtual bool in_one_piece(bytes n) const noexcept { return static_cast<void>(n), true; }
    /// Gives the system what is kept for reuse.
    virtual void trim() noexcept {}
    /// An arena over `n` bytes of addresses of its own in the same memory, which this one must outlive: blocks of all
    /// sizes take each other's place there without a word to the system. What is in use there counts against this
    /// arena's budget too; what is free there counts nowhere, though it was written once. Null where there is none.
    virtual std::unique_ptr<arena> carve(bytes n) { return static_cast<void>(n), nullptr; }

protected:
    arena() = default;

private:
    friend class allocation;
    virtual std::byte* take(bytes n, std::string_view what) = 0;
    virtual void give_back(std::byte* data, bytes n) noexcept = 0;
};

inline allocation::~allocation() {
    if (owner_ != nullptr) owner_->give_back(data_, size_);
}

/// One region of a fixed capacity, such as a device's memory: reserved at once and touched only where it is used. Best
/// fit with merging of neighbours, so that a request fits exactly when a hole holds it. To free never allocates.
/// Under a parent it is a part of the host's memory, for a pool: requests from 64 KiB begin at a page, each counts with
/// its own bytes, and there are addresses beyond the capacity for what rounding costs. There the next hole that fits is
/// taken, round and round: what streams leaves in the order in which it came, and large holes stay whole.
template <class = void> class basic_region_arena final : public arena {
public:
    basic_region_arena(location where, bytes capacity, tern::budget* parent = nullptr)
        : where_(where), budget_(to_string(where), capacity, parent), part_(parent != nullptr),
          size_(part_ ? with_rounding(capacity.count) : capacity.count) {
        if (size_ == 0) return;
        holes_.push_back({0, size_});
        void* base = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED)
            throw budget_error("cannot reserve " + to_string(where) + ": choose a smaller capacity",
                               {.needed = capacity.count});
        base_ = static_cast<std::byte*>(base);
    }
    ~basic_region_arena() override {
        if (base_ == nullptr) return;
        detail::mark_held(base_, touched_, touched_);
        ::munmap(base_, size_);
    }

    const tern::budget& budget() const noexcept override { return budget_; }
    location where() const noexcept override { return where_; }

    /// The largest request that would succeed now. Less than the free bytes when they are in pieces.
    bytes largest_hole() const {
        const std::lock_guard lock(mutex_);
        return {largest()};
    }
    bool in_one_piece(bytes n) const noexcept override {
        const std::lock_guard lock(mutex_);
        return best_hole(n) < holes_.size();
    }
    void trim() noexcept override {
        const std::lock_guard lock(mutex_);
        for (const hole& h : holes_) {
            const std::uint64_t begin = (h.offset + page_size - 1) / page_size * page_size;
            const std::uint64_t end = std::min(h.offset + h.size, touched_) / page_size * page_size;
            if (begin < end) ::madvise(base_ + begin, end - begin, MADV_DONTNEED);
        }
    }

private:
    static constexpr std::uint64_t smallest_in_pages = 64 * 1024;

    struct hole {
        std::uint64_t offset;
        std::uint64_t size;
    };

    std::byte* take(bytes n, std::string_view what) override {
        const std::lock_guard lock(mutex_);
        // There are at most as many holes as allocations and one: room for those that freeing makes is taken here.
        if (holes_.capacity() < live_ + 2) holes_.reserve(2 * (live_ + 2));
        const std::size_t best = best_hole(n);
        if (best == holes_.size())
            throw budget_error(to_string(where_) + " has no room for " + std::string(what) +
                                   ": raise its capacity or place less there",
                               {.needed = n.count, .available = largest()});
        const hole from = holes_[best];
        const std::uint64_t offset = first_in(from, n);
        const std::uint64_t size = occupied(offset, n);
        budget_.take(charged(size, n), what, n);
        const hole head{from.offset, offset - from.offset};
        const hole tail{offset + size, from.offset + from.size - offset - size};
        const auto at = holes_.begin() + static_cast<std::ptrdiff_t>(best);
        if (head.size != 0 && tail.size != 0) {
            *at = head;
            holes_.insert(at + 1, tail);
        } else if (head.size != 0 || tail.size != 0) {
            *at = head.size != 0 ? head : tail;
        } else {
            holes_.erase(at);
        }
        ++live_;
        next_ = offset + size;
        touched_ = std::max(touched_, next_);
        detail::mark_held(base_ + offset, n.count, size);
        return base_ + offset;
    }

    void give_back(std::byte* data, bytes n) noexcept override {
        const std::lock_guard lock(mutex_);
        const auto offset = static_cast<std::uint64_t>(data - base_);
        const std::uint64_t size = occupied(offset, n);
        detail::mark_held(data, 0, size);
        budget_.give_back(charged(size, n), n);
        --live_;
        auto next = holes_.begin();
        while (next != holes_.end() && next->offset < offset) ++next;
        const bool joins_next = next != holes_.end() && next->offset == offset + size;
        if (next != holes_.begin()) {
            hole& last = *(next - 1);
            if (last.offset + last.size == offset) {
                last.size += joins_next ? size + next->size : size;
                if (joins_next) holes_.erase(next);
                return;
            }
        }
        if (joins_next)
            *next = {offset, size + next->size};
        else
            holes_.insert(next, {offset, size});
    }

    /// What an allocation at `offset` takes: its size rounded up to the alignment, so that the next one is aligned too,
    /// but not past the end. An empty one takes one unit, so that addresses stay distinct.
    std::uint64_t occupied(std::uint64_t offset, bytes n) const noexcept {
        const std::uint64_t units = n.count == 0 ? 1 : n.count / alignment + (n.count % alignment != 0);
        const std::uint64_t left = size_ - offset;
        return units * alignment < left ? units * alignment : left;
    }

    bytes charged(std::uint64_t size, bytes n) const noexcept { return part_ ? n : bytes{size}; }
    static std::uint64_t with_rounding(std::uint64_t n) { return checked_add(n, n / 16 + smallest_in_pages); }

    /// Where a request begins in a hole.
    std::uint64_t first_in(const hole& h, bytes n) const noexcept {
        if (!part_ || n.count < smallest_in_pages) return h.offset;
        return h.offset + (page_size - h.offset % page_size) % page_size;
    }
    bool holds(const hole& h, bytes n) const noexcept {
        const std::uint64_t skipped = first_in(h, n) - h.offset;
        return h.size > skipped && h.size - skipped >= n.count;
    }
    /// The hole for a request; their number where none holds it.
    std::size_t best_hole(bytes n) const noexcept {
        std::size_t best = holes_.size();
        for (std::size_t i = 0; i < holes_.size(); ++i)
            if (holds(holes_[i], n) && (best == holes_.size() || before(holes_[i], holes_[best]))) best = i;
        return best;
    }
    /// Which of two holes is taken.
    bool before(const hole& a, const hole& b) const noexcept {
        if (!part_) return a.size < b.size;
        const bool a_ahead = a.offset + a.size > next_;
        return a_ahead != (b.offset + b.size > next_) ? a_ahead : a.offset < b.offset;
    }

    std::uint64_t largest() const noexcept {
        std::uint64_t size = 0;
        for (const hole& h : holes_) size = h.size > size ? h.size : size;
        return size;
    }

    location where_;
    tern::budget budget_;
    bool part_; // of the host's memory
    std::uint64_t size_;
    std::byte* base_ = nullptr;
    std::uint64_t next_ = 0;    // where the last request ended
    std::uint64_t touched_ = 0; // up to here it was used once
    mutable std::mutex mutex_;
    std::vector<hole> holes_; // by offset
    std::size_t live_ = 0;
};

/// (A template underneath, so that a program compiles it only where it makes one.)
using region_arena = basic_region_arena<>;

/// Plain RAM, counted against a budget and against that of a parent, if one is named. Requests from 64 KiB are slabs of
/// pages, those from 1 KiB blocks of the heap, and both are kept for reuse when they are freed (memory/slab_arena.hpp):
/// a steady state asks the system for nothing.
///
///     tern::heap_arena ram{8_GiB};
///     auto block = ram.allocate(1_MiB, "blk.0.ffn_up.weight");
template <page_source Pages = plain_pages> class basic_heap_arena final : public arena {
public:
    static constexpr bytes smallest_slab{64 * 1024};
    static constexpr bytes smallest_block{1024};

    explicit basic_heap_arena(bytes limit = unlimited, tern::budget* parent = nullptr)
        : budget_("pageable memory", limit, parent), slabs_(budget_), blocks_(budget_) {}

    const tern::budget& budget() const noexcept override { return budget_; }
    /// To be the parent of another arena's.
    tern::budget& budget() noexcept { return budget_; }
    location where() const noexcept override { return {tier_of<pageable>, 0, 0}; }

    /// What is in use and what is kept for reuse.
    bytes reserved() const { return budget_.reserved(); }
    void trim() noexcept override {
        slabs_.trim();
        blocks_.trim();
    }
    std::unique_ptr<arena> carve(bytes n) override;

private:
    static constexpr bool in_blocks(bytes n) noexcept { return n >= smallest_block && n < smallest_slab; }

    std::byte* take(bytes n, std::string_view what) override {
        if (in_blocks(n)) return blocks_.take(n, what);
        // Where the last bytes of the budget hold the request and not its last page, it is the heap's.
        if (n >= smallest_slab && slab_size(n) <= budget_.available()) return slabs_.take(n, what);
        budget_.take(n, what);
        // No object is larger than that, and operator new itself may round a larger size up to nothing.
        constexpr std::uint64_t largest = std::numeric_limits<std::ptrdiff_t>::max();
        void* data = n.count > largest ? nullptr : ::operator new(n.count, std::align_val_t{alignment}, std::nothrow);
        if (data == nullptr) {
            budget_.give_back(n);
            throw budget_error("the system has no memory for " + std::string(what), {.needed = n.count});
        }
        return static_cast<std::byte*>(data);
    }
    void give_back(std::byte* data, bytes n) noexcept override {
        if (in_blocks(n) && blocks_.give_back(data, n)) return;
        if (n >= smallest_slab && slabs_.give_back(data, n)) return;
        ::operator delete(data, std::align_val_t{alignment});
        budget_.give_back(n);
    }

    tern::budget budget_;
    slabs<Pages> slabs_;
    slabs<heap_blocks> blocks_;
};

/// (A template underneath, so that a program compiles it only where it makes one.)
using heap_arena = basic_heap_arena<>;

template <page_source Pages> std::unique_ptr<arena> basic_heap_arena<Pages>::carve(bytes n) {
    try {
        return std::make_unique<region_arena>(where(), std::min(n, budget_.limit()), &budget_);
    } catch (const error&) { return nullptr; } // no such range of addresses
}

} // namespace tern
