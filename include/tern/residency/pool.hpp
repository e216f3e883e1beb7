// The copies in one location: how much room they may take together, who leaves when it is full, and what was counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tern/async/clock.hpp>
#include <tern/async/mutex.hpp>
#include <tern/base/units.hpp>
#include <tern/memory/arena.hpp>
#include <tern/memory/budget.hpp>
#include <tern/residency/eviction.hpp>
#include <tern/residency/front.hpp>
#include <tern/residency/records.hpp>

namespace tern {

/// Counts of what happened to the copies in one location.
struct pool_counters {
    std::uint64_t hits = 0;      ///< leases on a copy that had been used before, or that was brought ahead
    std::uint64_t misses = 0;    ///< leases for which a copy had to be brought
    std::uint64_t arrivals = 0;  ///< copies brought here
    std::uint64_t transfers = 0; ///< transfers that brought them: neighbours share one
    std::uint64_t evictions = 0; ///< copies that left for others
    bytes moved{};               ///< bytes of the arrivals
    bytes ahead{};               ///< of these, brought ahead by the plan's order
    bytes guessed{};             ///< of these, brought by a guess
    bytes guess_used{};          ///< and then used
    bytes guess_wasted{};        ///< and gone without use
    seconds busy{};              ///< time in which a transfer was under way, where the store has a clock

    /// Measured over all transfers so far; infinite while there is nothing to measure.
    bytes_per_second bandwidth() const noexcept {
        return busy.count > 0 && moved.count > 0 ? moved / busy : bytes_per_second{};
    }
};

namespace detail {

inline const lru least_recently_used{};

/// Guarded by the store's lock.
class pool {
public:
    /// `tick` counts the leases on copies anywhere: a slice's usage is one for all its copies.
    pool(device& on, std::uint64_t& tick)
        : on_(&on), where_(on.memory().where()), policy_(&least_recently_used), tick_(tick) {}
    pool(const pool&) = delete;
    pool& operator=(const pool&) = delete;

    device& on() const noexcept { return *on_; }
    const location& where() const noexcept { return where_; }
    bool in_ram() const noexcept { return where_.tier.reached_by == reach::host; }
    bytes limit() const noexcept { return limit_; }
    bytes used() const noexcept { return used_; }
    bytes left() const noexcept { return {limit_.count > used_.count ? limit_.count - used_.count : 0}; }
    std::uint64_t epoch() const noexcept { return epoch_; }
    /// Transfers that have their room and are under way, or have it promised and begin next: when one ends, room may
    /// appear.
    std::size_t moving() const noexcept { return moving_ + promised_; }

    /// A device's memory has no addresses to spare: those of the range before go back at once.
    void bound(bytes limit) noexcept {
        limit_ = limit;
        give_up_range();
        if (!in_ram()) carved_ = unlimited;
    }
    /// Copies lie among the others of a device's memory from now on: where its part is a few bytes short, what is free
    /// of it and what is free beside it may be enough together.
    void give_up_range() noexcept {
        if (own_ == nullptr || in_ram()) return;
        own_->retire();
        given_up_ = true;
    }

    /// Where copies get their room that count here: in a limited pool a range of addresses of its own, where a memory
    /// has such, so that slices of all sizes take turns in it.
    arena& rooms() {
        if (limit_ == unlimited) return on_->memory();
        if (carved_ != limit_) carve();
        return own_ != nullptr && !given_up_ ? *own_ : on_->memory();
    }
    void judge_by(std::shared_ptr<const eviction_policy> policy) noexcept {
        own_policy_ = std::move(policy);
        policy_ = own_policy_ ? own_policy_.get() : &least_recently_used;
        front_.forget();
    }

    bool has_room(bytes n) const noexcept { return n.count <= limit_.count && used_.count <= limit_.count - n.count; }
    /// Both after has_room.
    void take(bytes n) noexcept { used_.count += n.count; }
    void give_back(bytes n) noexcept { used_.count -= n.count; }
    /// Takes room for a transfer that has not begun yet; once it looks for its memory, it is no longer promised.
    void promise(bytes n) noexcept { take(n), ++promised_, promised_bytes_.count += n.count; }
    void keep_promise(bytes n) noexcept { --promised_, promised_bytes_.count -= n.count; }
    /// Whether what was promised and `n` bytes more find a hole, so that what comes ahead comes in order: a large slice
    /// that found none would come late, and drive out the smaller ones that passed it.
    bool has_hole(bytes n) { return rooms().in_one_piece({promised_bytes_.count + n.count}); }

    /// Room in the list of copies, so that `enter` cannot fail.
    void expect_more(std::size_t copies) {
        if (members_.capacity() < members_.size() + reserved_ + copies)
            members_.reserve(2 * (members_.size() + reserved_ + copies));
        reserved_ += copies;
    }
    void expect_fewer(std::size_t copies) noexcept { reserved_ -= copies; }

    void enter(copy_entry& c, copy_usage& usage) noexcept {
        --reserved_;
        c.in = this;
        c.place_in_pool = members_.size();
        members_.push_back({&c, &usage});
        policy_->arrived(usage, tick_);
        offer(c, usage);
        ++epoch_;
        ++counters.arrivals;
        counters.moved.count += usage.bytes;
        if (c.cause == arrival_cause::ahead) counters.ahead.count += usage.bytes;
        if (c.cause == arrival_cause::guess) counters.guessed.count += usage.bytes;
    }
    void leave(copy_entry& c, const copy_usage& usage) noexcept {
        if (c.fresh && c.cause == arrival_cause::guess) counters.guess_wasted.count += usage.bytes;
        front_.leave(c);
        members_[c.place_in_pool] = members_.back();
        members_[c.place_in_pool].held->place_in_pool = c.place_in_pool;
        members_.pop_back();
        c.in = nullptr;
        ++epoch_;
    }
    /// A lease on a copy that is here.
    void used(copy_entry& c, copy_usage& usage) noexcept {
        policy_->used(usage, ++tick_);
        ++(c.fresh && !beforehand(c) ? counters.misses : counters.hits);
        if (c.fresh && c.cause == arrival_cause::guess) counters.guess_used.count += usage.bytes;
        c.fresh = false;
        c.awaited = false;
        offer(c, usage);
    }

    /// The copy to let go for one that comes for `cause`, or null: only what nobody leases or keeps; what was brought
    /// for a use that is still to come last, and only for what is needed sooner.
    copy_entry* victim(arrival_cause cause) noexcept {
        const int highest = cause == arrival_cause::demand ? 2 : cause == arrival_cause::expected ? 1 : 0;
        if (policy_->rises_by_use_alone()) {
            if (copy_entry* first = front_.made() ? front_.first(*policy_, tick_, &leaves_now) : nullptr) return first;
            front_.make(*policy_, tick_, members_, &leaves_some_time);
            if (copy_entry* first = front_.first(*policy_, tick_, &leaves_now)) return first;
        }
        for (int rank = 0; rank <= highest; ++rank) {
            victim_search search(*policy_, tick_);
            copy_entry* found = nullptr;
            for (const cached_copy& m : members_) {
                if (m.held->leases != 0 || m.held->stay == retention::keep || rank_of(*m.held) != rank) continue;
                search.offer(*m.usage);
                if (search.found() == m.usage) found = m.held;
            }
            if (found != nullptr) return found;
        }
        return nullptr;
    }
    /// To be called when what is kept may leave from now on, or the other way round.
    void retention_changed() noexcept { front_.forget(); }

    void begin_move(const clock* time) noexcept {
        if (moving_++ == 0 && time != nullptr) busy_since_ = time->now();
    }
    void end_move(const clock* time) noexcept {
        if (--moving_ == 0 && time != nullptr) counters.busy += time->now() - busy_since_;
    }

    /// Whose turn it is to move bytes here: of two at a time, or of one where two would only share the link, so that
    /// what is needed first would come as late as what is needed second.
    async_mutex& turn(bool two) noexcept { return turns_[two ? next_turn_++ % 2 : 0]; }
    /// Beside that of one: who has both moves alone.
    async_mutex& other_turn() noexcept { return turns_[1]; }

    pool_counters counters{};

private:
    /// Copies in the range before stay there until they leave.
    void carve() {
        std::erase_if(before_, [](const auto& range) { return range->budget().used() == bytes{}; });
        before_.reserve(before_.size() + 1);
        std::unique_ptr<arena> fresh = on_->memory().carve(limit_);
        if (own_ != nullptr) {
            own_->retire();
            before_.push_back(std::move(own_));
        }
        own_ = std::move(fresh);
        carved_ = limit_;
        given_up_ = false;
    }

    void offer(copy_entry& c, copy_usage& usage) noexcept {
        if (leaves_some_time(c)) front_.offer(*policy_, tick_, {&c, &usage});
    }
    static bool leaves_some_time(const copy_entry& c) noexcept { return c.stay != retention::keep && rank_of(c) == 0; }
    static bool leaves_now(const copy_entry& c) noexcept { return c.leases == 0 && leaves_some_time(c); }

    static bool beforehand(const copy_entry& c) noexcept {
        return c.cause == arrival_cause::ahead || c.cause == arrival_cause::guess;
    }
    static int rank_of(const copy_entry& c) noexcept {
        if (c.awaited) return 2;
        return c.fresh && c.cause == arrival_cause::ahead ? 1 : 0; // a guess leaves like any other
    }

    device* on_;
    location where_;
    std::shared_ptr<const eviction_policy> own_policy_;
    const eviction_policy* policy_;
    bytes limit_ = unlimited;
    bytes used_{};
    std::unique_ptr<arena> own_;
    std::vector<std::unique_ptr<arena>> before_;
    bytes carved_ = unlimited; // the limit that `own_` is for
    bool given_up_ = false;    // `own_`
    std::vector<cached_copy> members_;
    front front_;
    std::size_t reserved_ = 0;
    std::size_t moving_ = 0;
    std::size_t promised_ = 0;
    bytes promised_bytes_{};
    std::uint64_t& tick_;
    std::uint64_t epoch_ = 0;
    seconds busy_since_{};
    async_mutex turns_[2];
    std::size_t next_turn_ = 0; // of the transfers' thread
};

} // namespace detail
} // namespace tern
