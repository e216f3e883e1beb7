// Slabs: pages or blocks that are kept for reuse when they are freed, so that a steady state asks the system for
// nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/base/checked.hpp>
#include <tern/base/error.hpp>
#include <tern/base/units.hpp>
#include <tern/memory/budget.hpp>
#include <tern/memory/mark_held.hpp>
#include <tern/memory/page_source.hpp>

namespace tern {

namespace detail {

/// What sizes are rounded up to: a page, where the source says nothing else.
template <class Pages> constexpr std::uint64_t grain_of() noexcept {
    if constexpr (requires { Pages::grain; })
        return Pages::grain;
    else
        return page_size;
}

} // namespace detail

/// What a request of `n` bytes takes as a slab: whole pages, at least one. Stays `n` where no number holds that.
constexpr bytes slab_size(bytes n, std::uint64_t grain = page_size) noexcept {
    return n.count == 0 ? bytes{grain} : bytes{try_round_up(n.count, grain).value_or(n.count)};
}

/// Slabs of one budget: the common part of arenas over whole pages. A freed slab is kept and serves a later request of
/// its size or up to a fifth less (it is at most a quarter larger than what is asked for; the best fit is taken).
/// What is kept goes back to the system, the oldest first, before slabs in use and kept would exceed the most that was
/// ever in use: kept slabs never cost memory that the program has not needed at once. To free allocates nothing.
/// Thread-safe.
///
///     tern::slabs<tern::plain_pages> memory(budget);
///     std::byte* data = memory.take(4_MiB, "chunk");
template <page_source Pages> class slabs final : keeper {
public:
    /// `args` are for the page source. The budget must outlive the slabs, and they every byte they hand out.
    template <class... Args>
    explicit slabs(tern::budget& of, Args&&... args) : keeper(of), pages_(std::forward<Args>(args)...) {
        join();
    }
    ~slabs() {
        trim();
        leave();
    }

    /// `n` bytes, aligned as the source's pages are, for `what`. Throws budget_error where the budget or the system has
    /// none left.
    std::byte* take(bytes n, std::string_view what) {
        const std::uint64_t size = slab_size(n, detail::grain_of<Pages>()).count;
        // No object is larger than that.
        if (size > std::uint64_t{std::numeric_limits<std::ptrdiff_t>::max()}) throw none_left(n, what);
        auto held = lock();
        if (const std::size_t at = best_fit(size); at < kept_.size()) return hand_out(at, n);
        keeper::take(size, what, n.count);
        held.unlock(); // to lock pages takes as long as to write them
        page_run run;
        try {
            run = obtain(size, what);
            if (run.data == nullptr) throw none_left(n, what);
            held.lock();
            reserve_one();
        } catch (...) {
            if (!held.owns_lock()) held.lock();
            keeper::give_back(size, n.count);
            if (run.data != nullptr) pages_.give_back(run, size);
            throw;
        }
        const slab fresh{run.data, size, run.locked};
        all_.insert(std::upper_bound(all_.begin(), all_.end(), fresh, by_address), fresh);
        if (fresh.locked) locked_ += size;
        detail::mark_held(fresh.data, n.count, size);
        return fresh.data;
    }

    /// Takes back what `take` gave for `n` bytes; false where it gave no such address.
    bool give_back(std::byte* data, bytes n) noexcept {
        const auto held = lock();
        const auto s = find(data);
        if (s == all_.end() || s->data != data) return false;
        detail::mark_held(s->data, 0, s->size);
        if (s->locked) locked_ -= s->size;
        kept_.push_back(*s);
        keep(s->size, n.count);
        return true;
    }

    /// Gives all kept slabs back to the system.
    void trim() noexcept {
        const auto held = lock();
        while (let_go()) {}
    }

    /// What is in use: all of it counted at one moment.
    struct usage_counts {
        bytes requested{}, obtained{}, locked{}, peak{};
    };
    usage_counts usage() const {
        const auto held = lock();
        const counts c = counted();
        return {c.requested, c.used, {locked_}, c.peak};
    }

    Pages& pages() noexcept { return pages_; }
    const Pages& pages() const noexcept { return pages_; }

private:
    struct slab {
        std::byte* data;
        std::uint64_t size;
        bool locked;
    };

    static bool by_address(const slab& a, const slab& b) noexcept {
        return reinterpret_cast<std::uintptr_t>(a.data) < reinterpret_cast<std::uintptr_t>(b.data);
    }
    auto find(std::byte* data) noexcept {
        return std::lower_bound(all_.begin(), all_.end(), slab{data, 0, false}, by_address);
    }
    static budget_error none_left(bytes n, std::string_view what) {
        return budget_error("the system has no memory for " + std::string(what), {.needed = n.count});
    }

    /// Room in both lists for one slab more, so that to free it needs none.
    void reserve_one() {
        if (all_.capacity() == all_.size()) all_.reserve(2 * all_.size() + 16);
        if (kept_.capacity() < all_.capacity()) kept_.reserve(all_.capacity());
    }

    page_run obtain(std::uint64_t size, std::string_view what) {
        page_run run = pages_.obtain(size, what);
        if (run.data != nullptr) return run;
        trim();
        return pages_.obtain(size, what);
    }

    /// Of several that fit equally the one freed last: caches may still hold it.
    std::size_t best_fit(std::uint64_t size) const noexcept {
        std::size_t best = kept_.size();
        for (std::size_t i = 0; i < kept_.size(); ++i)
            if (kept_[i].size >= size && kept_[i].size - size <= size / 4 &&
                (best == kept_.size() || kept_[i].size <= kept_[best].size))
                best = i;
        return best;
    }

    std::byte* hand_out(std::size_t at, bytes n) noexcept {
        const slab s = kept_[at];
        kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(at));
        reuse(s.size, n.count);
        if (s.locked) locked_ += s.size;
        detail::mark_held(s.data, n.count, s.size);
        return s.data;
    }

    bool let_go() noexcept override {
        if (kept_.empty()) return false;
        const slab oldest = kept_.front();
        kept_.erase(kept_.begin());
        all_.erase(find(oldest.data));
        drop(oldest.size);
        detail::mark_held(oldest.data, oldest.size, oldest.size);
        pages_.give_back({oldest.data, oldest.locked}, oldest.size);
        return true;
    }

    Pages pages_;
    std::vector<slab> all_;  // by address
    std::vector<slab> kept_; // free ones, the oldest first
    std::uint64_t locked_ = 0;
};

} // namespace tern
