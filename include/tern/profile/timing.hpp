// Times of things that are done again and again: medians, within limits.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include <tern/async/task.hpp>
#include <tern/base/error.hpp>
#include <tern/base/units.hpp>

namespace tern {

/// How long one thing is measured: at least `least` times, then until `each` is over, at most `most` times.
struct timing_limits {
    std::size_t least = 5;
    std::size_t most = 500;
    seconds each{0.02};
};

/// The middle one of some times, the mean of both where there are two; 0 of none. Medians, because what disturbs a
/// measurement only ever adds to it, now and then a lot.
inline seconds median_of(std::vector<seconds> times) {
    if (times.empty()) return {};
    const auto less = [](seconds a, seconds b) { return a.count < b.count; };
    const std::size_t half = times.size() / 2;
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(half);
    std::nth_element(times.begin(), middle, times.end(), less);
    const double upper = middle->count;
    if (times.size() % 2 != 0) return {upper};
    return {0.5 * (upper + std::max_element(times.begin(), middle, less)->count)};
}

/// Seconds by the monotonic clock, from some point on.
inline seconds clock_now() {
    return {std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

/// Awaits `once()`, which gives the seconds that it took by its own measure, within the limits; adds them to `into`.
template <class Once> task<void> repeat(Once& once, timing_limits limits, std::vector<seconds>& into) {
    if (limits.least == 0 || limits.most < limits.least) throw config_error("something is measured at least once");
    double sum = 0;
    for (std::size_t i = 0; i < limits.most && (i < limits.least || sum < limits.each.count); ++i) {
        const seconds took = co_await once();
        into.push_back(took);
        sum += took.count;
    }
}

} // namespace tern
