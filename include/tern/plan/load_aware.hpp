// load_aware: when to plan anew, and which weights to bring for the next round, from times as they were measured.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/base/units.hpp>

namespace tern {

/// When a plan is due, after ATSInfer (arXiv 2607.10183): times deviate by a share, and the plan is some tokens old.
struct replan_rule {
    double deviation = 0.15;
    double tokens = 5;
};

/// How far measured times are from planned ones: the sum of the differences over the sum of what was planned. Throws
/// config_error where the numbers of times differ or one is no time.
///
///     tern::deviation({{1.0}, {3.0}}, {{1.5}, {2.5}});      // 0.25
inline double deviation(std::span<const seconds> planned, std::span<const seconds> measured) {
    if (planned.size() != measured.size())
        throw config_error("there are " + std::to_string(measured.size()) + " measured times for " +
                           std::to_string(planned.size()) + " planned ones");
    double sum = 0;
    double difference = 0;
    for (std::size_t i = 0; i < planned.size(); ++i) {
        for (const seconds t : {planned[i], measured[i]})
            if (!(t.count >= 0) || !std::isfinite(t.count))
                throw config_error("a time of " + std::to_string(t.count) + " s is none");
        sum += planned[i].count;
        difference += std::abs(measured[i].count - planned[i].count);
    }
    if (sum > 0) return difference / sum;
    return difference > 0 ? std::numeric_limits<double>::infinity() : 0;
}

/// Whether to plan anew, `age` after the last plan, where a token takes `token`.
inline bool replan_due(std::span<const seconds> planned, std::span<const seconds> measured, seconds token, seconds age,
                       replan_rule rule = {}) {
    return age.count >= rule.tokens * token.count && deviation(planned, measured) >= rule.deviation;
}

/// One fusion group in the order of the calls, with its times as they were measured last.
struct load_item {
    seconds host{};        ///< to compute it on the host
    seconds device{};      ///< to compute it on the accelerator, its weights there
    seconds bring{};       ///< to bring its weights there; of experts the active ones
    seconds to_host{};     ///< to bring its operands to the host, where they were made on the accelerator; sync in it
    seconds to_device{};   ///< the other way
    bool resident = false; ///< its weights are on the accelerator: it computes there
    bool loadable = true;  ///< its type and the buffers allow to bring it
};

/// What to bring for one round.
struct load_plan {
    std::vector<unsigned char> loaded{}; ///< by item: 1 where its weights are brought
    seconds total{};
    seconds exposed{}; ///< of it, waiting for weights
};

namespace detail {

/// Times of stretches of items that compute where they live.
template <class = void> class load_stretches {
public:
    explicit load_stretches(std::span<const load_item> items) : items_(items), sums_(items.size() + 1) {
        for (std::size_t i = 0; i < items.size(); ++i)
            sums_[i + 1] = sums_[i] + enter(i, i > 0 && items[i - 1].resident, items[i].resident) + own(i);
    }

    double own(std::size_t i) const noexcept {
        return items_[i].resident ? items_[i].device.count : items_[i].host.count;
    }
    /// The way of an item's operands, by the devices that made and take them: true is the accelerator.
    double enter(std::size_t i, bool from, bool to) const noexcept {
        if (from == to) return 0;
        return to ? items_[i].to_device.count : items_[i].to_host.count;
    }
    /// Items [first, last) one after another, after one that computed on the accelerator or not.
    double of(std::size_t first, std::size_t last, bool from) const noexcept {
        if (first == last) return 0;
        return enter(first, from, items_[first].resident) + own(first) + sums_[last] - sums_[first + 1];
    }
    /// Where the operands of `i` are, after items that began at `first`, after `from`.
    bool place_before(std::size_t first, std::size_t i, bool from) const noexcept {
        return i == first ? from : items_[i - 1].resident;
    }

private:
    std::span<const load_item> items_;
    std::vector<double> sums_; // of items before, in a row from the host
};

} // namespace detail

/// Chooses the weights that are brought to temporary buffers for one round, where the rest computes where it lives. One
/// transfer goes at a time; the next begins when its predecessor's item begins to compute, and is hidden behind what
/// computes meanwhile; two buffers suffice. With begin[i] the time at which a loaded item i has operands and weights,
///
///     begin[i] = min over loaded j before i of  begin[j] + max(bring_i, seg(j, i))
///     seg(j, i) = j's own time + all items between where they live + switches, into i's accelerator too
///     exposed transfer of i = max(bring_i - seg(j, i), 0)
///
/// in O(n^2); ATSInfer's dynamic schedule (arXiv 2607.10183). The last result goes to the host by `departure`.
///
///     auto next = tern::plan_loads(items);
template <class = void> load_plan plan_loads(std::span<const load_item> items, seconds departure = {}) {
    constexpr std::size_t none = static_cast<std::size_t>(-1);
    const std::size_t n = items.size();
    const detail::load_stretches stretches(items);
    std::vector<double> begin(n, std::numeric_limits<double>::infinity());
    std::vector<std::size_t> before(n, none);
    const auto leave = [&](bool from) { return from ? departure.count : 0.0; };
    for (std::size_t i = 0; i < n; ++i) {
        if (items[i].resident || !items[i].loadable) continue;
        begin[i] = std::max(items[i].bring.count,
                            stretches.of(0, i, false) + stretches.enter(i, stretches.place_before(0, i, false), true));
        for (std::size_t j = 0; j < i; ++j) {
            if (items[j].resident || !items[j].loadable) continue;
            const double seg = items[j].device.count + stretches.of(j + 1, i, true) +
                               stretches.enter(i, stretches.place_before(j + 1, i, true), true);
            const double at = begin[j] + std::max(items[i].bring.count, seg);
            if (at < begin[i]) begin[i] = at, before[i] = j;
        }
    }
    load_plan plan{std::vector<unsigned char>(n, 0), {stretches.of(0, n, false)}, {}};
    if (n != 0) plan.total += seconds{leave(items[n - 1].resident)};
    std::size_t last = none;
    for (std::size_t j = 0; j < n; ++j) {
        if (items[j].resident || !items[j].loadable) continue;
        const double end = begin[j] + items[j].device.count + stretches.of(j + 1, n, true) +
                           leave(j + 1 == n || items[n - 1].resident);
        if (end < plan.total.count) plan.total = {end}, last = j;
    }
    for (std::size_t i = last; i != none; i = before[i]) {
        plan.loaded[i] = 1;
        const std::size_t j = before[i];
        const double since = j == none ? 0 : begin[j];
        const std::size_t first = j == none ? 0 : j + 1;
        const double own = j == none ? 0 : items[j].device.count;
        const double seg = own + stretches.of(first, i, j != none) +
                           stretches.enter(i, stretches.place_before(first, i, j != none), true);
        plan.exposed += seconds{begin[i] - since - seg};
    }
    return plan;
}

} // namespace tern
