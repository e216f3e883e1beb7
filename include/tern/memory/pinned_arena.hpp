// Page-locked RAM: the tier `pinned`.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/mman.h>
#include <sys/resource.h>

#include <tern/base/error.hpp>
#include <tern/base/units.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/memory/budget.hpp>
#include <tern/memory/page_source.hpp>
#include <tern/memory/slab_arena.hpp>
#include <tern/memory/tier.hpp>

namespace tern {

/// A pinned arena's budget, and how it locks.
struct pinned_options {
    bytes limit = unlimited;
    budget* parent = nullptr; ///< counts the same bytes, mostly the RAM's budget; must outlive the arena
    bool strict = false;      ///< budget_error where memory cannot be locked; otherwise it serves unlocked
    bool enabled = true;      ///< false: nothing is locked, even under `strict`, and the status says "off"
    /// Locks `size` bytes and returns 0, or returns an errno value; empty: mlock. To give pages back unlocks them.
    std::function<int(void* data, std::size_t size)> lock{};
    /// Told in a sentence that memory serves unlocked and why, the first time only.
    std::function<void(std::string_view)> warn{};
};

/// Pages that the system keeps in RAM. They are written when they are obtained, so to obtain them takes its time.
template <class = void> class basic_locked_pages {
public:
    explicit basic_locked_pages(pinned_options options = {}) : options_(std::move(options)) {
        if (!options_.lock) options_.lock = [](void* data, std::size_t size) { return mlock_errno(data, size); };
    }

    page_run obtain(std::uint64_t size, std::string_view what) {
        page_run run = plain_pages{}.obtain(size, what);
        if (run.data == nullptr || !options_.enabled) return run;
        try {
            const int failed = options_.lock(run.data, size);
            if (failed == 0) {
                locked_ += size;
                run.locked = true;
            } else {
                note_failure(failed, size, what);
            }
        } catch (...) {
            plain_pages{}.give_back(run, size);
            throw;
        }
        return run;
    }
    void give_back(page_run run, std::uint64_t size) noexcept {
        plain_pages{}.give_back(run, size);
        if (run.locked) locked_ -= size;
    }

    bool enabled() const noexcept { return options_.enabled; }
    /// What is locked now, in use or not.
    bytes locked() const noexcept { return {locked_}; }
    /// Why pages were not locked, the last time: the system's reason and the limit on locked memory. Empty: they were.
    std::string why() const {
        if (!enabled()) return "off";
        const std::lock_guard held(mutex_);
        return why_;
    }

private:
    static int mlock_errno(void* data, std::size_t size) noexcept { return ::mlock(data, size) == 0 ? 0 : errno; }

    void note_failure(int failed, std::uint64_t size, std::string_view what) {
        rlimit limit{};
        const bool limited = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
        const std::uint64_t taken = locked_;
        std::string text = "cannot lock memory for " + detail::legible(what) + ": " +
                           std::generic_category().message(failed) +
                           "; the limit on locked memory (RLIMIT_MEMLOCK) is " +
                           (limited ? std::to_string(limit.rlim_cur) + " bytes" : "none") + ", " +
                           std::to_string(taken) + " bytes are locked here";
        const std::uint64_t left = limited && limit.rlim_cur > taken ? limit.rlim_cur - taken : 0;
        if (options_.strict) throw budget_error(text, {.needed = size, .available = left});
        text += ", " + std::to_string(size) + " more were needed; raise it with ulimit -l, or grant CAP_IPC_LOCK";
        bool first;
        {
            const std::lock_guard held(mutex_);
            first = why_.empty();
            why_ = text;
        }
        if (first && options_.warn) options_.warn(text + ". The memory is used unlocked");
    }

    pinned_options options_;
    std::atomic<std::uint64_t> locked_{0};
    mutable std::mutex mutex_;
    std::string why_;
};

/// (A template underneath, so that a program compiles it only where it makes one.)
using locked_pages = basic_locked_pages<>;

/// What a pinned arena holds now.
struct pinned_status {
    bytes requested{};       ///< what the holders asked for
    bytes obtained{};        ///< what they were given: whole pages
    bytes locked{};          ///< how much of that is locked into RAM
    bytes peak{};            ///< the most that was obtained at once
    bool all_locked = false; ///< all that was obtained is locked; false where locking is off
    std::string why{};       ///< why not, with the limit on locked memory; "off"; empty where all is locked
};

/// RAM that the system never swaps out, in slabs (memory/slab_arena.hpp). Where the system refuses to lock it, the
/// memory serves unlocked: results are the same, `status` says so, and the warning is given once. With `strict`,
/// budget_error instead.
///
///     tern::heap_arena ram{8_GiB};
///     tern::pinned_arena pinned{{.limit = 2_GiB, .parent = &ram.budget()}};
///     auto block = pinned.allocate(64_MiB, "blk.0.ffn_up.weight");
template <page_source Pages = locked_pages> class basic_pinned_arena final : public arena {
public:
    explicit basic_pinned_arena(pinned_options options = {})
        : budget_("pinned memory", options.limit, options.parent), slabs_(budget_, std::move(options)) {}

    const tern::budget& budget() const noexcept override { return budget_; }
    location where() const noexcept override { return {tier_of<pinned>, 0, 0}; }

    pinned_status status() const {
        const auto in_use = slabs_.usage();
        const bool all = slabs_.pages().enabled() && in_use.locked == in_use.obtained;
        return {in_use.requested,
                in_use.obtained,
                in_use.locked,
                in_use.peak,
                all,
                all ? std::string{} : slabs_.pages().why()};
    }

    /// What is in use and what is kept for reuse, which is locked as well.
    bytes reserved() const { return budget_.reserved(); }
    void trim() noexcept override { slabs_.trim(); }

private:
    std::byte* take(bytes n, std::string_view what) override { return slabs_.take(n, what); }
    void give_back(std::byte* data, bytes n) noexcept override { slabs_.give_back(data, n); }

    tern::budget budget_;
    slabs<Pages> slabs_;
};

/// (A template underneath, so that a program compiles it only where it makes one.)
using pinned_arena = basic_pinned_arena<>;

/// What a switch in the environment or on a command line says: "1", "on", "yes", "true", or "0", "off", "no", "false".
/// Throws config_error for anything else, naming it.
///
///     const char* text = std::getenv("MY_PINNED");
///     tern::pinned_arena pinned{{.enabled = text == nullptr || tern::parse_switch(text)}};
inline bool parse_switch(std::string_view text) {
    for (const std::string_view on : {"1", "on", "yes", "true"})
        if (text == on) return true;
    for (const std::string_view off : {"0", "off", "no", "false"})
        if (text == off) return false;
    throw config_error("\"" + std::string(text) + "\" is no switch: write 1 or 0, on or off");
}

} // namespace tern
