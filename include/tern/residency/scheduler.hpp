// The scheduler: brings what a plan will need next while the current operator computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <tern/residency/guess_gate.hpp>
#include <tern/residency/store.hpp>

namespace tern {

/// One use in the plan's order: the slice, who reads it there, and how it comes.
struct scheduled_use {
    slice_id slice = 0;
    device* on = nullptr;
    move_function move = nullptr;
    std::size_t ahead = 1; ///< it may be brought while this many uses are still to come before it
};

/// The experts of one layer of a mixture: packed tensors whose slices are used together.
struct expert_layer {
    struct part {
        slice_id first = 0;
        move_function move = nullptr;
    };
    std::vector<part> parts{};
    std::size_t experts = 0;
    bytes each{}; ///< of one expert, all parts
    device* on = nullptr;
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

    /// While a layer computes, brings experts of the next one that are not there, those first that were used most, up
    /// to `budget` bytes a layer; 0 guesses nothing. Stops by itself while it brings more in vain than it saves.
    void guess_experts(std::vector<expert_layer> layers, bytes budget) {
        const std::lock_guard lock(mutex_);
        layers_ = std::move(layers);
        layer_of_.clear();
        bytes largest{};
        for (std::size_t i = 0; i < layers_.size(); ++i) {
            largest = layers_[i].each > largest ? layers_[i].each : largest;
            const slice_id first = layers_[i].parts.at(0).first;
            if (layer_of_.size() < first + layers_[i].experts) layer_of_.resize(first + layers_[i].experts, none);
            for (std::size_t e = 0; e < layers_[i].experts; ++e) layer_of_[first + e] = i;
        }
        guess_budget_ = budget;
        gate_ = guess_gate(largest * 32);
        last_layer_ = none;
    }
    /// Whether guessing is switched off for now.
    bool guessing_stopped() {
        const std::lock_guard lock(mutex_);
        return gate_.closed();
    }

    void expected(slice_id slice) noexcept override {
        const std::lock_guard lock(mutex_);
        if (guess_budget_.count == 0 || slice >= layer_of_.size()) return;
        const std::size_t layer = layer_of_[slice];
        if (layer == none || layer == last_layer_) return; // the same step, told of in parts
        last_layer_ = layer;
        guess(layers_[(layer + 1) % layers_.size()]);
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

    void guess(const expert_layer& next) noexcept {
        const pool_counters so_far = store_.counters(*next.on);
        gate_.judge(so_far.guess_used, so_far.guess_wasted);
        if (!gate_.open() || next.each.count == 0) return;
        constexpr std::size_t most = 16;
        slice_id ids[most];
        const std::size_t affordable = guess_budget_.count / next.each.count;
        const std::size_t found = store_.most_used_absent(next.parts[0].first, next.experts, *next.on,
                                                          {ids, affordable < most ? affordable : most});
        for (std::size_t i = 0; i < found; ++i)
            for (const expert_layer::part& part : next.parts) {
                const slice_id id = ids[i] - next.parts[0].first + part.first;
                store_.guess({&id, 1}, *next.on, part.move);
            }
    }

    residency_store& store_;
    std::mutex mutex_;
    std::vector<scheduled_use> order_;
    std::vector<std::size_t> index_; // by slice: its place in the order
    std::uint64_t position_ = 0;     // of the next use, counted over all passes
    std::uint64_t brought_ = 0;      // uses before it are there, on their way, or past
    std::vector<expert_layer> layers_;
    std::vector<std::size_t> layer_of_; // by slice of a layer's first part
    std::size_t last_layer_ = none;
    bytes guess_budget_{};
    guess_gate gate_{};
};

/// The scheduler. (A template underneath, so that a program compiles it only where it makes one.)
using scheduler = basic_scheduler<>;

} // namespace tern
