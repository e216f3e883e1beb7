// Which cached copy leaves when room is needed: policies that give a copy a worth, and the search for the lowest.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/residency/retention.hpp>

namespace tern {

/// What is known of one slice and its cached copy. It is kept as long as the slice, also while no copy is cached, so
/// that a copy which comes back is not a stranger. Ticks count leases of cached slices, from 1.
struct copy_usage {
    std::uint64_t last_use = 0; ///< tick of the last lease; 0: none yet
    std::uint64_t arrival = 0;  ///< tick at which the copy that is cached now came
    std::uint64_t uses = 0;     ///< leases so far
    std::uint64_t bytes = 0;
    double heat = 0;         ///< uses that have aged, as of `last_use`; `frequency` keeps it
    std::uint32_t slice = 0; ///< its id
    bool used_since_arrival = false;
};

/// Orders copies: the one of the lowest worth leaves first (`victim_search`). A policy is constant once made: what it
/// learns is in the copies' usage, so one may serve several caches and threads, each under its own lock. After its
/// construction it allocates nothing.
///
/// All copies are taken to be equally dear per byte: a large one takes more room and saves as much more reading.
class eviction_policy {
public:
    eviction_policy() = default;
    eviction_policy(const eviction_policy&) = delete;
    eviction_policy& operator=(const eviction_policy&) = delete;
    virtual ~eviction_policy() = default;

    virtual std::string_view name() const noexcept = 0;

    /// The worth of keeping a copy at tick `now`, in the policy's own unit: it compares with worths of the same policy
    /// and tick only. `now` is not before anything in `usage`.
    virtual double worth(const copy_usage& usage, std::uint64_t now) const noexcept = 0;

    /// Whether of two copies the one that leaves first stays so as time passes, until it is used or comes anew, and
    /// whether that only raises it. Large caches then need not look at all copies for each that leaves.
    virtual bool rises_by_use_alone() const noexcept { return false; }

    /// To be called at each lease, cached or not, before the copy's next `worth`.
    ///
    ///     policy.used(slice.usage, ++now);
    virtual void used(copy_usage& usage, std::uint64_t now) const noexcept {
        usage.last_use = now;
        ++usage.uses;
        usage.used_since_arrival = true;
    }

    /// To be called when a copy arrives, ahead of its use (a prefetch) or for one that follows at once.
    void arrived(copy_usage& usage, std::uint64_t now) const noexcept {
        usage.arrival = now;
        usage.used_since_arrival = false;
    }
};

/// Whether copy `a` leaves before `b`, by worths of the same tick.
inline bool leaves_before(const copy_usage& a, double worth_of_a, const copy_usage& b, double worth_of_b) noexcept {
    if (worth_of_a != worth_of_b) return worth_of_a < worth_of_b;
    if (a.last_use != b.last_use) return a.last_use < b.last_use;
    return a.slice < b.slice;
}

/// Finds the copy that leaves: of the lowest worth; where worths are equal, of the lowest `last_use`, then of the
/// lowest id. Offer those that nobody leases; the copy offered must outlive the search.
///
///     tern::victim_search search(policy, now);
///     for (const entry& e : cached) if (e.leases == 0) search.offer(e.usage);
///     if (search.found() != nullptr) drop(search.found()->slice);
class victim_search {
public:
    victim_search(const eviction_policy& policy, std::uint64_t now) noexcept : policy_(policy), now_(now) {}

    void offer(const copy_usage& usage) noexcept {
        const double worth = policy_.worth(usage, now_);
        if (found_ != nullptr && !leaves_before(usage, worth, *found_, worth_)) return;
        found_ = &usage;
        worth_ = worth;
    }
    /// Null where nothing was offered.
    const copy_usage* found() const noexcept { return found_; }

private:
    const eviction_policy& policy_;
    std::uint64_t now_;
    const copy_usage* found_ = nullptr;
    double worth_ = 0;
};

/// Least recently used leaves first. An arrival counts as a use, or else what was prefetched would leave unused.
class lru final : public eviction_policy {
public:
    std::string_view name() const noexcept override { return "lru"; }
    bool rises_by_use_alone() const noexcept override { return true; }
    double worth(const copy_usage& usage, std::uint64_t) const noexcept override { return recency(usage); }

    /// The tick of the last use or arrival; exact up to 2^53.
    static double recency(const copy_usage& usage) noexcept {
        return static_cast<double>(std::max(usage.last_use, usage.arrival));
    }
};

/// Least frequently used leaves first, by a count that ages: each use weighs 2^(-age / half_life), its age in ticks.
/// The count is not touched as time passes. `heat` holds it as of the last use, and
///
///     at a use     heat := 1 + heat * 2^(-(now - last_use) / half_life)
///     worth         =          heat * 2^(-(now - last_use) / half_life)
///
/// A copy that was not used since it arrived came for a use ahead, which counts as one at its arrival.
class frequency final : public eviction_policy {
public:
    /// What serves well for `slices` that share a cache. Longer is a little better for popularity that never changes,
    /// and slower to see that it did.
    static constexpr double half_life_for(std::uint64_t slices) noexcept {
        return ticks_a_slice * static_cast<double>(slices);
    }

    /// `half_life` in ticks, above 0; throws config_error otherwise.
    explicit frequency(double half_life = half_life_for(256)) : half_life_(half_life) {
        if (!(half_life > 0))
            throw config_error("frequency: a half-life of " + std::to_string(half_life) + " ticks is not above 0");
    }

    std::string_view name() const noexcept override { return "frequency"; }
    bool rises_by_use_alone() const noexcept override { return true; } // all ages grow alike
    double worth(const copy_usage& usage, std::uint64_t now) const noexcept override {
        const double past = usage.heat * decay(now - usage.last_use);
        return usage.used_since_arrival ? past : past + decay(now - usage.arrival);
    }
    void used(copy_usage& usage, std::uint64_t now) const noexcept override {
        usage.heat = 1 + usage.heat * decay(now - usage.last_use);
        eviction_policy::used(usage, now);
    }

private:
    double decay(std::uint64_t age) const noexcept { return std::exp2(-static_cast<double>(age) / half_life_); }

    double half_life_;
};

/// The given slices stay as long as anything else can leave; the rest, and then they, leave as in `lru`. To profit, the
/// set is smaller than the cache: what arrives needs some room that is not pinned.
template <class = void> class basic_pinned_set final : public eviction_policy {
public:
    explicit basic_pinned_set(std::vector<std::uint32_t> slices) : slices_(std::move(slices)) {
        std::sort(slices_.begin(), slices_.end());
    }

    std::string_view name() const noexcept override { return "pinned_set"; }
    bool rises_by_use_alone() const noexcept override { return true; }
    double worth(const copy_usage& usage, std::uint64_t) const noexcept override {
        const double recency = lru::recency(usage);
        // All others lie below 0, in the same order.
        return std::binary_search(slices_.begin(), slices_.end(), usage.slice) ? recency : recency - never;
    }

private:
    static constexpr double never = 4503599627370496; // 2^52 ticks: recency - never is exact

    std::vector<std::uint32_t> slices_;
};

/// (A template underneath, so that a program compiles it only where it makes one.)
using pinned_set = basic_pinned_set<>;

/// The policy of a name; throws config_error that names the known ones.
///
///     const auto policy = tern::make_eviction("frequency", {.half_life = tern::frequency::half_life_for(slices)});
template <class = void>
std::unique_ptr<eviction_policy> make_eviction(std::string_view name, eviction_options options = {}) {
    if (name == "lru") return std::make_unique<lru>();
    if (name == "frequency") return std::make_unique<frequency>(options.half_life);
    if (name == "pinned_set") return std::make_unique<pinned_set>(std::move(options.pinned));
    throw config_error("there is no eviction policy \"" + std::string(name) + "\": lru, frequency or pinned_set");
}

} // namespace tern
