// A budget: a hard limit in bytes, counted. What is requested beyond it is refused, never granted a little.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/units.hpp>

namespace tern {

inline constexpr bytes unlimited{std::numeric_limits<std::uint64_t>::max()};

class budget;

/// Whoever keeps free memory for reuse under a budget, and gives it up when the budget wants the room. What is kept is
/// reserved and not used. The members that count need `lock()` held; they count at the budget and at its parents.
class keeper {
public:
    keeper(const keeper&) = delete;
    keeper& operator=(const keeper&) = delete;

protected:
    explicit keeper(budget& of) noexcept : of_(of) {}
    ~keeper() = default;

    /// From `join` until `leave` the budget may call `let_go`: joins at the end of a constructor, leaves in a
    /// destructor.
    void join();
    void leave() noexcept;

    struct counts {
        bytes requested{}, used{}, peak{};
    };

    std::unique_lock<std::mutex> lock() const;
    counts counted() const noexcept;
    void take(std::uint64_t n, std::string_view what, std::uint64_t requested); ///< throws budget_error
    void give_back(std::uint64_t n, std::uint64_t requested) noexcept;
    void keep(std::uint64_t n, std::uint64_t requested) noexcept;  ///< used before, now kept
    void reuse(std::uint64_t n, std::uint64_t requested) noexcept; ///< kept before, now used
    void drop(std::uint64_t n) noexcept;                           ///< kept before, now the system's

private:
    friend class budget;
    /// Gives the oldest kept memory back to the system and `drop`s it; false where nothing is kept. The lock is held.
    virtual bool let_go() noexcept = 0;

    budget& of_;
    keeper* next_ = nullptr;
};

/// Counts bytes against a limit, and against that of a parent, which must outlive it: what is taken is counted by both
/// or by neither. Safe from several threads; a tree of budgets has one lock.
///
///     tern::budget ram{"RAM", 8_GiB};
///     tern::budget pinned{"pinned memory", 2_GiB, &ram};
///     pinned.take(1_GiB, "kv cache");     // throws budget_error with needed and available bytes when it does not fit
///     pinned.give_back(1_GiB);
class budget {
public:
    explicit budget(std::string name, bytes limit = unlimited, budget* parent = nullptr)
        : name_(std::move(name)), limit_(limit.count), parent_(parent),
          root_(parent != nullptr ? parent->root_ : *this) {}

    /// Takes `n` bytes for `what`; throws budget_error and takes nothing when they do not fit.
    void take(bytes n, std::string_view what) { take(n, what, n); }
    /// The same where more is `obtained` than was `requested`, for the sake of alignment.
    void take(bytes obtained, std::string_view what, bytes requested) {
        const std::lock_guard held(root_.mutex_);
        charge(obtained.count, what, requested.count);
    }

    /// Gives bytes back; more than was taken is a fault of the caller and throws shape_error.
    void give_back(bytes n) { give_back(n, n); }
    void give_back(bytes obtained, bytes requested) {
        const std::lock_guard held(root_.mutex_);
        if (obtained.count > used_ || requested.count > requested_)
            throw shape_error("more is given back to the budget of " + name_ + " than was taken");
        for (budget* b = this; b != nullptr; b = b->parent_) b->count(-obtained.count, -requested.count, 0);
    }

    const std::string& name() const noexcept { return name_; }
    bytes limit() const noexcept { return {limit_}; }
    /// What the holders asked for.
    bytes requested() const {
        return read([](const budget& b) { return b.requested_; });
    }
    /// What was obtained for them: requests, rounded up.
    bytes used() const {
        return read([](const budget& b) { return b.used_; });
    }
    /// The most that was ever used.
    bytes peak() const {
        return read([](const budget& b) { return b.peak_; });
    }
    /// Used, and kept for reuse: never above the limit, nor above `peak`.
    bytes reserved() const {
        return read([](const budget& b) { return b.used_ + b.kept_; });
    }
    /// What a request may take now; what is kept for reuse gives way to it.
    bytes available() const {
        return read([](const budget& b) {
            std::uint64_t least = b.limit_ - b.used_;
            for (budget* p = b.parent_; p != nullptr; p = p->parent_) least = std::min(least, p->limit_ - p->used_);
            return least;
        });
    }

private:
    friend class keeper;

    template <class F> bytes read(F f) const {
        const std::lock_guard held(root_.mutex_);
        return {f(*this)};
    }

    // used + kept <= limit holds everywhere, so no sum below wraps.
    void charge(std::uint64_t n, std::string_view what, std::uint64_t requested) {
        for (budget* b = this; b != nullptr; b = b->parent_)
            if (n > b->limit_ - b->used_)
                throw budget_error("the budget of " + b->name_ + " is too small for " + std::string(what) +
                                       ": raise it or place less there",
                                   {.needed = n, .available = b->limit_ - b->used_});
        for (budget* b = this; b != nullptr; b = b->parent_) b->make_room(n);
        for (budget* b = this; b != nullptr; b = b->parent_) b->count(n, requested, 0);
    }

    /// Kept memory goes until what is reserved stays within the peak, and so within the limit.
    void make_room(std::uint64_t n) noexcept {
        const std::uint64_t most = std::max(peak_, used_ + n);
        for (keeper* k = root_.keepers_; k != nullptr; k = k->next_)
            while (kept_ > most - used_ - n && holds(k->of_) && k->let_go()) {}
    }

    bool holds(const budget& other) const noexcept {
        const budget* b = &other;
        while (b != nullptr && b != this) b = b->parent_;
        return b != nullptr;
    }

    /// Differences, modulo 2^64.
    void count(std::uint64_t used, std::uint64_t requested, std::uint64_t kept) noexcept {
        used_ += used;
        requested_ += requested;
        kept_ += kept;
        peak_ = std::max(peak_, used_);
    }

    std::string name_;
    std::uint64_t limit_;
    budget* parent_;
    budget& root_;
    mutable std::mutex mutex_; // the root's is the one in use
    keeper* keepers_ = nullptr;
    std::uint64_t used_ = 0;
    std::uint64_t requested_ = 0;
    std::uint64_t kept_ = 0;
    std::uint64_t peak_ = 0;
};

inline std::unique_lock<std::mutex> keeper::lock() const { return std::unique_lock(of_.root_.mutex_); }

inline void keeper::join() {
    const auto held = lock();
    next_ = std::exchange(of_.root_.keepers_, this);
}
inline void keeper::leave() noexcept {
    const auto held = lock();
    keeper** at = &of_.root_.keepers_;
    while (*at != this) at = &(*at)->next_;
    *at = next_;
}
inline keeper::counts keeper::counted() const noexcept { return {{of_.requested_}, {of_.used_}, {of_.peak_}}; }
inline void keeper::take(std::uint64_t n, std::string_view what, std::uint64_t requested) {
    of_.charge(n, what, requested);
}
inline void keeper::give_back(std::uint64_t n, std::uint64_t requested) noexcept {
    for (budget* b = &of_; b != nullptr; b = b->parent_) b->count(-n, -requested, 0);
}
inline void keeper::keep(std::uint64_t n, std::uint64_t requested) noexcept {
    for (budget* b = &of_; b != nullptr; b = b->parent_) b->count(-n, -requested, n);
}
inline void keeper::reuse(std::uint64_t n, std::uint64_t requested) noexcept {
    for (budget* b = &of_; b != nullptr; b = b->parent_) b->count(n, requested, -n);
}
inline void keeper::drop(std::uint64_t n) noexcept {
    for (budget* b = &of_; b != nullptr; b = b->parent_) b->count(0, 0, -n);
}

} // namespace tern
