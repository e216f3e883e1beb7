// Plain RAM as an arena.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include <tern/base/error.hpp>
#include <tern/base/units.hpp>
#include <tern/memory/arena.hpp>
#include <tern/memory/budget.hpp>
#include <tern/memory/page_source.hpp>
#include <tern/memory/region_arena.hpp>
#include <tern/memory/slab_arena.hpp>
#include <tern/memory/tier.hpp>

namespace tern {

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
