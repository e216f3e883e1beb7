// Memory of a fixed capacity in one range of addresses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <sys/mman.h>

#include <tern/base/checked.hpp>
#include <tern/base/error.hpp>
#include <tern/base/units.hpp>
#include <tern/memory/arena.hpp>
#include <tern/memory/budget.hpp>
#include <tern/memory/holes.hpp>
#include <tern/memory/mark_held.hpp>
#include <tern/memory/page_source.hpp>
#include <tern/memory/tier.hpp>

namespace tern {

/// One region of a fixed capacity, such as a device's memory: reserved at once and touched only where it is used. Best
/// fit with merging of neighbours, so that a request fits exactly when a hole holds it. To free never allocates.
///
/// `carve` cuts a part out of it, for a pool. There the next hole that fits is taken, round and round: what streams
/// leaves in the order in which it came, and large holes stay whole.
///
/// Under a parent budget it is a part of the host's memory, likewise for a pool. Requests from 64 KiB begin at a page,
/// each counts with its own bytes, and there are addresses beyond the capacity for what rounding costs.
template <class = void> class basic_region_arena final : public arena {
public:
    basic_region_arena(location where, bytes capacity, tern::budget* parent = nullptr)
        : where_(where), budget_(to_string(where), capacity, parent), how_(parent != nullptr ? of_host : of_device),
          size_(parent != nullptr ? with_rounding(capacity.count) : capacity.count), holes_(size_) {
        if (size_ == 0) return;
        void* base = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED)
            throw budget_error("cannot reserve " + to_string(where) + ": choose a smaller capacity",
                               {.needed = capacity.count});
        base_ = static_cast<std::byte*>(base);
    }
    ~basic_region_arena() override {
        if (base_ == nullptr) return;
        if (whole_ != nullptr) {
            retire();
            return;
        }
        detail::mark_held(base_, touched_, touched_);
        ::munmap(base_, size_);
    }

    const tern::budget& budget() const noexcept override { return budget_; }
    location where() const noexcept override { return where_; }

    /// The largest request that would succeed now. Less than the free bytes when they are in pieces.
    bytes largest_hole() const {
        const std::lock_guard lock(mutex_);
        return {holes_.largest()};
    }
    bool in_one_piece(bytes n) const noexcept override {
        const std::lock_guard lock(mutex_);
        return hole_for(n) < holes_.count();
    }
    void trim() noexcept override {
        if (whole_ != nullptr) return; // a device's memory is not the system's
        const std::lock_guard lock(mutex_);
        for (const auto& h : holes_) {
            const std::uint64_t begin = (h.begin + page_size - 1) / page_size * page_size;
            const std::uint64_t end = std::min(h.end, touched_) / page_size * page_size;
            if (begin < end) ::madvise(base_ + begin, end - begin, MADV_DONTNEED);
        }
    }

    /// What is carved is no longer free here, though it is not used yet; null where no hole holds it.
    std::unique_ptr<arena> carve(bytes n) override {
        if (n.count == 0 || n.count > size_) return nullptr;
        const std::lock_guard lock(mutex_);
        const std::uint64_t wanted = in_units(n.count) + carved_spare;
        std::size_t from = hole_for({wanted});
        if (from == holes_.count()) from = hole_for({in_units(n.count)});
        if (from == holes_.count()) return nullptr;
        const std::uint64_t size = std::min(wanted, holes_[from].size() / alignment * alignment);
        holes_.expect(live_ + 1);
        // From the end: what is allocated beside it begins at the other one.
        const std::uint64_t offset = (holes_[from].end - size) / alignment * alignment;
        auto part = std::unique_ptr<basic_region_arena>(new basic_region_arena(*this, offset, size));
        holes_.take(from, offset, size);
        ++live_;
        return part;
    }
    void retire() noexcept override {
        if (whole_ == nullptr) return trim();
        const std::lock_guard lock(mutex_);
        if (std::exchange(retired_, true)) return;
        const std::lock_guard whole_lock(whole_->mutex_);
        for (const auto& h : holes_) whole_->holes_.give_back(begin_ + h.begin, h.size());
        whole_->touched_ = std::max(whole_->touched_, begin_ + touched_);
        holes_.clear();
        --whole_->live_;
    }

private:
    static constexpr std::uint64_t smallest_in_pages = 64 * 1024;
    static constexpr std::uint64_t carved_spare = 4096; // for the rounding of what a carved part holds

    enum kind : unsigned char { of_device, of_host, carved };

    basic_region_arena(basic_region_arena& whole, std::uint64_t begin, std::uint64_t size)
        : where_(whole.where_), budget_(to_string(where_), {size}, &whole.budget_), how_(carved), size_(size),
          base_(whole.base_ + begin), holes_(size), whole_(&whole), begin_(begin) {}

    std::byte* take(bytes n, std::string_view what) override {
        const std::lock_guard lock(mutex_);
        const std::size_t best = hole_for(n);
        if (best == holes_.count())
            throw budget_error(to_string(where_) + " has no room for " + std::string(what) +
                                   ": raise its capacity or place less there",
                               {.needed = n.count, .available = holes_.largest()});
        holes_.expect(live_ + 1);
        if (whole_ != nullptr) whole_->expect_one_more();
        const std::uint64_t offset = first_in(holes_[best].begin, n);
        const std::uint64_t size = occupied(offset, n);
        try {
            budget_.take(charged(size, n), what, n);
        } catch (...) {
            if (whole_ != nullptr) whole_->expect_one_fewer();
            throw;
        }
        holes_.take(best, offset, size);
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
        if (!retired_) holes_.give_back(offset, size);
        if (whole_ == nullptr) return;
        const std::lock_guard whole_lock(whole_->mutex_);
        --whole_->live_;
        if (retired_) whole_->holes_.give_back(begin_ + offset, size);
    }

    /// What is allocated in a carved part may come back to the whole.
    void expect_one_more() {
        const std::lock_guard lock(mutex_);
        holes_.expect(live_ + 1);
        ++live_;
    }
    void expect_one_fewer() noexcept {
        const std::lock_guard lock(mutex_);
        --live_;
    }

    static std::uint64_t in_units(std::uint64_t n) noexcept {
        return n == 0 ? alignment : (n / alignment + (n % alignment != 0)) * alignment;
    }
    /// What an allocation at `offset` takes: its size rounded up to the alignment, so that the next one is aligned too,
    /// but not past the end. An empty one takes one unit, so that addresses stay distinct.
    std::uint64_t occupied(std::uint64_t offset, bytes n) const noexcept {
        return std::min(in_units(n.count), size_ - offset);
    }

    bytes charged(std::uint64_t size, bytes n) const noexcept { return how_ == of_host ? n : bytes{size}; }
    static std::uint64_t with_rounding(std::uint64_t n) { return checked_add(n, n / 16 + smallest_in_pages); }

    /// Where a request begins in a hole.
    std::uint64_t first_in(std::uint64_t begin, bytes n) const noexcept {
        if (how_ != of_host || n.count < smallest_in_pages) return begin;
        return begin + (page_size - begin % page_size) % page_size;
    }
    /// The hole for a request; their number where none holds it.
    std::size_t hole_for(bytes n) const noexcept {
        std::size_t best = holes_.count();
        for (std::size_t i = 0; i < holes_.count(); ++i) {
            const std::uint64_t first = first_in(holes_[i].begin, n);
            if (first >= holes_[i].end || holes_[i].end - first < n.count) continue;
            if (best == holes_.count() || before(holes_[i], holes_[best])) best = i;
        }
        return best;
    }
    /// Which of two holes is taken.
    bool before(const detail::hole_list::hole& a, const detail::hole_list::hole& b) const noexcept {
        if (how_ == of_device) return a.size() < b.size();
        const bool a_ahead = a.end > next_;
        return a_ahead != (b.end > next_) ? a_ahead : a.begin < b.begin;
    }

    location where_;
    tern::budget budget_;
    kind how_;
    std::uint64_t size_;
    std::byte* base_ = nullptr;
    std::uint64_t next_ = 0;    // where the last request ended
    std::uint64_t touched_ = 0; // up to here it was used once
    mutable std::mutex mutex_;  // of a part before that of the whole
    detail::hole_list holes_;
    std::size_t live_ = 0; // what is in use, also in parts
    // Of a part that was carved:
    basic_region_arena* whole_ = nullptr;
    std::uint64_t begin_ = 0;
    bool retired_ = false; // what is freed belongs to the whole
};

/// (A template underneath, so that a program compiles it only where it makes one.)
using region_arena = basic_region_arena<>;

} // namespace tern
