// The front of a cache: the few copies that leave first, so that to find the next one does not look at all.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <tern/residency/eviction.hpp>
#include <tern/residency/records.hpp>

namespace tern::detail {

/// A copy with its usage.
struct cached_copy {
    copy_entry* held;
    copy_usage* usage;
};

/// Up to 64 copies of which all others are known to leave later, for policies with `rises_by_use_alone`. It stays right
/// while copies are used: that can only raise them above the last of the front, its edge, and then they do not count.
/// Copies that come, or may leave from now on, are offered. When none is left below the edge, it is made anew: one look
/// at all copies for 64 that leave. Allocates nothing.
class front {
public:
    static constexpr std::size_t most = 64;

    bool made() const noexcept { return made_; }
    void forget() noexcept { made_ = false; }

    /// Of all members of a pool for which `may_leave`.
    template <class Members, class Test>
    void make(const eviction_policy& policy, std::uint64_t now, const Members& members, Test may_leave) noexcept {
        size_ = 0;
        whole_ = true;
        for (const cached_copy& m : members) {
            if (!may_leave(*m.held)) continue;
            const ranked r{m, policy.worth(*m.usage, now)};
            if (size_ < most) {
                ranked_[size_++] = r;
                if (size_ == most) std::make_heap(ranked_.begin(), ranked_.end(), &before); // the last to leave on top
            } else {
                whole_ = false;
                if (!before(r, ranked_[0])) continue;
                std::pop_heap(ranked_.begin(), ranked_.end(), &before);
                ranked_[most - 1] = r;
                std::push_heap(ranked_.begin(), ranked_.end(), &before);
            }
        }
        if (!whole_) edge_ = *ranked_[0].copy.usage;
        made_ = true;
    }

    /// One that may leave from now on.
    void offer(const eviction_policy& policy, std::uint64_t now, const cached_copy& c) noexcept {
        if (!made_ || contains(c.held)) return;
        if (!whole_ && !leaves_before(*c.usage, policy.worth(*c.usage, now), edge_, policy.worth(edge_, now))) return;
        if (size_ == most)
            made_ = false;
        else
            ranked_[size_++].copy = c;
    }
    void leave(const copy_entry& c) noexcept {
        for (std::size_t i = 0; i < size_; ++i)
            if (ranked_[i].copy.held == &c) {
                ranked_[i] = ranked_[--size_];
                return;
            }
    }

    /// The first to leave of those for which `may_leave`; null where the front does not know it.
    template <class Test>
    copy_entry* first(const eviction_policy& policy, std::uint64_t now, Test may_leave) const noexcept {
        victim_search search(policy, now);
        copy_entry* found = nullptr;
        for (std::size_t i = 0; i < size_; ++i) {
            const cached_copy& c = ranked_[i].copy;
            if (!may_leave(*c.held)) continue;
            search.offer(*c.usage);
            if (search.found() == c.usage) found = c.held;
        }
        if (found == nullptr || whole_) return found;
        const copy_usage& usage = *search.found();
        return leaves_before(edge_, policy.worth(edge_, now), usage, policy.worth(usage, now)) ? nullptr : found;
    }

private:
    struct ranked {
        cached_copy copy;
        double worth; // while the front is made
    };

    static bool before(const ranked& a, const ranked& b) noexcept {
        return leaves_before(*a.copy.usage, a.worth, *b.copy.usage, b.worth);
    }
    bool contains(const copy_entry* c) const noexcept {
        for (std::size_t i = 0; i < size_; ++i)
            if (ranked_[i].copy.held == c) return true;
        return false;
    }

    std::array<ranked, most> ranked_{};
    std::size_t size_ = 0;
    copy_usage edge_{};  // all that are not in it leave after this
    bool whole_ = false; // nobody who may leave is outside
    bool made_ = false;
};

} // namespace tern::detail
