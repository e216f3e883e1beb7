// How many experts some tokens use: expected numbers, from which a mixture is priced.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <tern/base/error.hpp>

namespace tern {

/// Distinct experts of `experts` that `tokens` tokens use, where each uses `used` and all are equally likely:
/// E * (1 - (1 - k/E)^n). Tokens are taken to choose independently of each other.
///
///     tern::expected_experts(128, 8, 1);    // 8
///     tern::expected_experts(128, 8, 16);   // 82.4
inline double expected_experts(double experts, double used, double tokens) {
    if (!(experts > 0) || !(used >= 0) || used > experts || !(tokens >= 0))
        throw config_error("a token cannot use " + std::to_string(used) + " of " + std::to_string(experts) +
                           " experts");
    return experts * -std::expm1(tokens * std::log1p(-used / experts));
}

/// What a call of a mixture uses.
struct expert_use {
    double touched = 0; ///< distinct experts
    double cached = 0;  ///< of them, those that are in the cache
    double share = 0;   ///< of the pairs of a token and one of its experts, those whose expert is in the cache
};

/// The same where experts differ: `popularity` holds a weight for each (empty: all equal), scaled so that they sum to
/// `used`; an expert of probability p is touched with 1 - (1 - p)^n. A cache of `slots` holds the most popular ones,
/// which is where eviction by frequency ends up. Throws config_error for weights that are none.
template <class = void>
expert_use expected_use(std::size_t experts, std::size_t used, double tokens, std::span<const double> popularity,
                        double slots) {
    const double all = static_cast<double>(experts);
    const double share = std::clamp(slots / all, 0.0, 1.0);
    if (popularity.empty()) {
        const double touched = expected_experts(all, static_cast<double>(used), tokens);
        return {touched, touched * share, share};
    }
    double sum = 0;
    for (const double w : popularity) {
        if (!(w >= 0) || !std::isfinite(w)) throw config_error("a popularity of " + std::to_string(w) + " is none");
        sum += w;
    }
    if (popularity.size() != experts || !(sum > 0))
        throw config_error("there are " + std::to_string(popularity.size()) + " popularities for " +
                           std::to_string(experts) + " experts, or all are 0");
    std::vector<double> weights(popularity.begin(), popularity.end());
    std::sort(weights.begin(), weights.end(), std::greater<>());
    expert_use use;
    double left = slots;
    for (const double w : weights) {
        const double p = std::min(w * static_cast<double>(used) / sum, 1.0);
        const double touched = p >= 1 ? (tokens > 0 ? 1.0 : 0.0) : -std::expm1(tokens * std::log1p(-p));
        use.touched += touched;
        use.cached += touched * std::clamp(left, 0.0, 1.0);
        use.share += w / sum * std::clamp(left, 0.0, 1.0);
        left -= 1;
    }
    return use;
}

} // namespace tern
