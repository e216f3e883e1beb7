// Routing in virtual time: which experts tokens choose, drawn from a stated popularity or taken from a trace.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>

namespace tern {

/// Draws experts for tokens, without putting back, the same for a seed on every machine. Each layer has an order of
/// popularity of its own: the expert of rank r is chosen with a weight of 1 / r^skew. A skew of 0 is uniform; traces
/// of real mixtures lie between 0.3 and 1.
///
///     tern::expert_draw routing({.skew = 0.7});
///     routing.choose(layer, experts, k, ids);
class expert_draw {
public:
    struct options {
        double skew = 0;
        std::uint64_t seed = 1;
    };

    explicit expert_draw(options how) : how_(how), state_(how.seed * 0x9e3779b97f4a7c15ull + 1) {
        if (!(how.skew >= 0 && how.skew <= 10)) throw config_error("a skew of experts is a number from 0 to 10");
    }
    expert_draw() : expert_draw(options{}) {}

    /// `k` different experts of `experts`, for one token of a layer. Throws config_error where there are not so many.
    void choose(std::size_t layer, std::size_t experts, std::size_t k, std::int32_t* ids) {
        if (k > experts)
            throw config_error("a router cannot choose " + std::to_string(k) + " of " + std::to_string(experts) +
                               " experts");
        const std::vector<double>& sums = popularity(experts);
        for (std::size_t r = 0; r < k; ++r) {
            std::int32_t id = 0;
            do id = at_rank(layer, experts, rank(sums));
            while (std::find(ids, ids + r, id) != ids + r);
            ids[r] = id;
        }
    }

    /// The expert at a rank of a layer's popularity.
    std::int32_t at_rank(std::size_t layer, std::size_t experts, std::size_t rank) const noexcept {
        // A walk over the experts in steps that have no common factor with their number is a permutation.
        std::size_t step = 2 * (layer * 7919 + 12345) % experts + 1;
        while (greatest_common_factor(step, experts) != 1) ++step;
        return static_cast<std::int32_t>((rank * step + layer * 31) % experts);
    }

private:
    static std::size_t greatest_common_factor(std::size_t a, std::size_t b) noexcept {
        while (b != 0) a = std::exchange(b, a % b);
        return a;
    }

    double uniform() noexcept { // xorshift64*, Vigna 2014
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return static_cast<double>((state_ * 0x2545f4914f6cdd1dull) >> 11) * 0x1p-53;
    }
    /// Sums of the weights of the ranks up to each, the last one 1.
    const std::vector<double>& popularity(std::size_t experts) {
        if (sums_.size() == experts) return sums_;
        sums_.resize(experts);
        double sum = 0;
        for (std::size_t r = 0; r < experts; ++r) sums_[r] = sum += std::pow(static_cast<double>(r + 1), -how_.skew);
        for (double& s : sums_) s /= sum;
        return sums_;
    }
    std::size_t rank(const std::vector<double>& sums) {
        const auto at = std::upper_bound(sums.begin(), sums.end(), uniform());
        return at == sums.end() ? sums.size() - 1 : static_cast<std::size_t>(at - sums.begin());
    }

    options how_;
    std::uint64_t state_;
    std::vector<double> sums_;
};

} // namespace tern
