// A budget: a hard limit in bytes, counted. What is requested beyond it is refused, never granted a little.
#pragma once

#include <limits>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/units.hpp>

namespace tern {

inline constexpr bytes unlimited{std::numeric_limits<std::uint64_t>::max()};

/// Counts bytes against a limit. Safe from several threads.
///
///     tern::budget ram{"pageable", 8_GiB};
///     ram.take(1_GiB, "kv cache");     // throws budget_error with needed and available bytes when it does not fit
///     ram.give_back(1_GiB);
class budget {
public:
    explicit budget(std::string name, bytes limit = unlimited) : name_(std::move(name)), limit_(limit) {}

    /// Takes `n` bytes for `what`; throws budget_error and takes nothing when they do not fit.
    void take(bytes n, std::string_view what) {
        const std::lock_guard lock(mutex_);
        if (n > limit_ - used_)
            throw budget_error("the budget of " + name_ + " is too small for " + std::string(what) +
                                   ": raise it or place less there",
                               {.needed = n.count, .available = (limit_ - used_).count});
        used_ += n;
        if (used_ > peak_) peak_ = used_;
    }

    /// Gives bytes back; more than was taken is a fault of the caller and throws shape_error.
    void give_back(bytes n) {
        const std::lock_guard lock(mutex_);
        used_ -= n;
    }

    const std::string& name() const noexcept { return name_; }
    bytes limit() const noexcept { return limit_; }
    bytes used() const {
        const std::lock_guard lock(mutex_);
        return used_;
    }
    bytes peak() const {
        const std::lock_guard lock(mutex_);
        return peak_;
    }
    bytes available() const {
        const std::lock_guard lock(mutex_);
        return limit_ - used_;
    }

private:
    std::string name_;
    bytes limit_;
    mutable std::mutex mutex_;
    bytes used_{};
    bytes peak_{};
};

} // namespace tern
