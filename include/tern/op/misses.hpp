// What to do about an expert that is not where it would be computed: bring it, compute it where it lies, or share the
// misses between both.
#pragma once

#include <cstddef>
#include <limits>

#include <tern/base/units.hpp>
#include <tern/plan/on_miss.hpp>

namespace tern {

/// Decides for the misses of one call. `split` fetches the share q = link / (link + host), both bandwidths as measured
/// in this run, under each other's load. `compute` and `split` let a device of another kind compute what `fetch` would
/// not: bit-identical on one kind of device, within rounding across kinds. With `split` timing decides.
class miss_policy {
public:
    explicit miss_policy(on_miss how = on_miss::fetch) noexcept : how_(how) {}

    on_miss how() const noexcept { return how_; }

    /// Of `missing` experts that the host could compute, how many to fetch.
    std::size_t fetched(std::size_t missing, bytes_per_second link) const noexcept {
        if (how_ == on_miss::fetch) return missing;
        if (how_ == on_miss::compute) return 0;
        return static_cast<std::size_t>(share(link) * static_cast<double>(missing) + 0.5);
    }
    /// q; a half until both bandwidths were measured.
    double share(bytes_per_second link) const noexcept {
        const double l = link.count;
        const double h = host_.count;
        if (!(l > 0 && l < infinite && h > 0 && h < infinite)) return 0.5;
        return l / (l + h);
    }

    /// The host computed with `n` bytes of experts in time `t`.
    void computed(bytes n, seconds t) noexcept {
        if (!(t.count > 0)) return;
        const double now = (n / t).count;
        host_.count = host_.count < infinite ? (1 - weight) * host_.count + weight * now : now;
    }
    bytes_per_second host() const noexcept { return host_; }

private:
    static constexpr double infinite = std::numeric_limits<double>::infinity();
    static constexpr double weight = 0.2; // of the newest measurement

    on_miss how_;
    bytes_per_second host_{};
};

} // namespace tern
