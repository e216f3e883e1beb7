// The scheduler: brings what a plan will need next while the current operator computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <tern/residency/store.hpp>

namespace tern {

/// One use in the plan's order: the slice, who reads it there, and how it comes.
struct scheduled_use {
    slice_id slice = 0;
    device* on = nullptr;
    move_function move = nullptr;
    std::size_t ahead = 1; ///< it may be brought while this many uses are still to come before it
};

/// Follows the leases of a store through a cyclic order of uses (one forward pass) and brings what comes next, in that
/// order, as far as there is room that nobody needs sooner. What is read in place is announced to the system instead.
/// A use out of order moves the position there. It never changes a result, and never fails: what it could not bring is
/// brought when it is borrowed. It tells itself to the store and must end before it; safe from several threads.
///
///     tern::scheduler order(store);
///     order.follow({{layer0, &cpu, move, 8}, {layer1, &cpu, move, 8}});
template <class = void> class basic_scheduler final : public residency_observer {
public:
    explicit basic_scheduler(residency_store& store) : store_(store) { store_.tell(this); }
    basic_scheduler(const basic_scheduler&) = delete;
    basic_scheduler& operator=(const basic_scheduler&) = delete;
    ~basic_scheduler() override { store_.tell(nullptr); }

    /// A new order, from its beginning; a slice that is in it twice counts where it is first. Begins to bring.
    void follow(const std::vector<scheduled_use>& order) {
        {
            const std::lock_guard lock(mutex_);
            order_.clear();
            index_.clear();
            for (const scheduled_use& use : order) {
                if (use.slice >= index_.size()) index_.resize(use.slice + std::size_t{1}, none);
                if (index_[use.slice] != none) continue;
                index_[use.slice] = order_.size();
                order_.push_back(use);
            }
            position_ = brought_ = 0;
        }
        bring();
    }

    void used(slice_id slice) noexcept override {
        {
            const std::lock_guard lock(mutex_);
            if (slice >= index_.size() || index_[slice] == none) return;
            const std::size_t n = order_.size();
            position_ += (index_[slice] + n - position_ % n) % n + 1;
            if (brought_ < position_) brought_ = position_;
        }
        bring();
    }
    void room_freed() noexcept override { bring(); }

private:
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    void bring() noexcept {
        const std::lock_guard lock(mutex_);
        const std::size_t n = order_.size();
        while (n != 0 && brought_ < position_ + n) {
            const scheduled_use& next = order_[brought_ % n];
            if (brought_ - position_ >= next.ahead) return;
            if (store_.bring_ahead({&next.slice, 1}, *next.on, next.move) == 0) return;
            ++brought_;
        }
    }

    residency_store& store_;
    std::mutex mutex_;
    std::vector<scheduled_use> order_;
    std::vector<std::size_t> index_; // by slice: its place in the order
    std::uint64_t position_ = 0;     // of the next use, counted over all passes
    std::uint64_t brought_ = 0;      // uses before it are there, on their way, or past
};

/// The scheduler. (A template underneath, so that a program compiles it only where it makes one.)
using scheduler = basic_scheduler<>;

} // namespace tern
