// Streamed weights over time, as the scheduler brings them: in order, ahead, while there is room.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/cost/cost_model.hpp>
#include <tern/cost/machine.hpp>
#include <tern/plan/placement.hpp>
#include <tern/plan/timeline.hpp>

namespace tern {

/// Of mapped weights, the share that RAM does not hold beside what was placed there: it is read from the disk in every
/// pass. Those that are brought elsewhere for their uses count too.
template <class = void> double cold_share(const graph& g, const placement& p, const machine& m, const location& host) {
    const memory_space* const ram = m.memory_at(host);
    if (ram == nullptr || ram->room() == unlimited) return 0;
    double used = static_cast<double>(p.pool_at(host).count);
    double files = 0;
    for (std::size_t t = 0; t < p.tensors.size() && t < g.tensors.size(); ++t) {
        const location& where = p.tensors[t].where;
        const double size = static_cast<double>(g.tensors[t].size().count);
        const memory_space* const there = m.memory_at(where);
        if (where.tier == tier_of<mapped>) files += size;
        if (where == host || (there != nullptr && there->in_ram)) used += size;
    }
    const double room = std::max(static_cast<double>(ram->room().count) - used, 0.0);
    return files > room ? 1 - room / files : 0;
}

/// Copies of equal slices that are queued behind each other: what begins a copy passes while the one before is under
/// way, so the first one alone pays it.
class queued_copies {
public:
    /// The ways of one slice and of two as one copy, which have the same links, and the bytes of a slice.
    queued_copies(std::vector<hop> one, std::vector<hop> two, bytes each)
        : each_(each), one_(std::move(one)), more_(std::move(two)) {
        for (std::size_t h = 0; h < more_.size(); ++h)
            more_[h].time = std::clamp(more_[h].time - one_[h].time, 0.0, one_[h].time);
    }
    /// The way of `count` slices, which may be a mean.
    std::vector<hop> way(double count) const {
        std::vector<hop> all = one_;
        for (std::size_t h = 0; h < all.size(); ++h)
            all[h].time = more_[h].time * count + (one_[h].time - more_[h].time) * std::min(count, 1.0);
        return all;
    }
    const std::vector<hop>& one() const noexcept { return one_; }
    bytes each() const noexcept { return each_; }

private:
    bytes each_;
    std::vector<hop> one_;
    std::vector<hop> more_; // what each further one takes
};

/// Follows the uses of streamed weights of a placement through passes over a graph; serial: nothing comes ahead of its
/// use. What it refers to must outlive it.
template <cost_model Cost> class weight_stream {
public:
    weight_stream(const graph& g, const placement& p, const machine& m, const Cost& cost, timeline& time,
                  const location& host, bool serial = false)
        : graph_(g), placed_(p), machine_(m), cost_(cost), time_(time), host_(host), cold_(cold_share(g, p, m, host)),
          count_(g.nodes.size()) {
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            const graph_node& node = g.nodes[i];
            if (node.active != 0 || node.op == "embed") continue;
            for (const std::size_t t : node.tensors) {
                if (t >= p.tensors.size() || !p.tensors[t].streamed()) continue;
                const planned_tensor& tensor = g.tensors[t];
                const std::vector<hop> w = way(p.tensors[t].where, *p.tensors[t].computes, tensor.size());
                uses_.push_back({tensor.size(), w, pool_of(*p.tensors[t].computes), serial ? 0 : tensor.ahead});
                ++count_[i];
            }
        }
    }

    double cold() const noexcept { return cold_; }
    bool empty() const noexcept { return uses_.empty(); }
    /// Streamed weights of a node.
    std::size_t uses_of(std::size_t node) const noexcept { return count_[node]; }

    /// The links from one memory to another, through the host's where none leads there directly, with their times. What
    /// RAM does not hold of mapped bytes comes from the disk first.
    std::vector<hop> way(const location& from, const location& to, bytes size) const {
        if (from.tier != tier_of<mapped> || !(cold_ > 0)) return warm_way(from, to, size);
        const bytes cold{static_cast<std::uint64_t>(static_cast<double>(size.count) * cold_)};
        std::vector<hop> hops = warm_way({tier_of<direct>, 0, 0}, host_, cold);
        for (hop& h : hops) h.share = cold_;
        for (const hop& h : warm_way(from, to, size)) hops.push_back(h);
        return hops;
    }

private:
    std::vector<hop> warm_way(const location& from, const location& to, bytes size) const {
        std::vector<hop> hops;
        const auto add = [&](const location& a, const location& b) {
            const link* const l = machine_.link_between(a, b);
            if (l == nullptr) return false;
            hops.push_back({static_cast<std::size_t>(l - machine_.links.data()),
                            cost_.price(move{a, b, size, cargo::weights, {}}).count});
            return true;
        };
        if (from == to || add(from, to)) return hops;
        const location locked{tier_of<pinned>, 0, 0};
        for (const location& between : {locked, host_}) {
            if (add(from, between) && add(between, to)) return hops;
            hops.clear();
        }
        // Bytes of the host's memories reach each other through the processor.
        if (from.tier.reached_by == reach::host && to.tier.reached_by == reach::host && from.tier != tier_of<direct>)
            return hops;
        throw config_error("the machine has no way from " + to_string(from) + " to " + to_string(to));
    }

public:
    /// Of all slices that are cached at a location, the share that its pool holds.
    double cached_share(const location& where) const {
        double all = 0;
        for (std::size_t t = 0; t < placed_.tensors.size(); ++t) {
            const placed_tensor& p = placed_.tensors[t];
            if (p.streamed() && p.stay == retention::cache && *p.computes == where)
                all += static_cast<double>(graph_.tensors[t].size().count);
        }
        const bytes room = placed_.pool_at(where);
        return all > 0 ? std::min(static_cast<double>(room.count) / all, 1.0) : 1;
    }

    /// Begins what may come by now.
    void pump(double now) {
        const std::size_t n = uses_.size();
        while (n != 0 && begun_ < used_ + n) {
            const use& u = uses_[begun_ % n];
            if (begun_ - used_ >= u.ahead || in_use_[u.pool] + u.size > pools_[u.pool].second) return;
            begin(now);
        }
    }
    /// The next use: when its weights are there, which may be before `now`.
    double lease(double now) {
        if (begun_ == used_) begin(now);
        const double there = arrivals_.front();
        arrivals_.pop_front();
        ++used_;
        pump(std::max(now, there));
        return there;
    }
    /// The oldest lease ends. `pump` then begins what the room is for.
    void release() {
        const use& u = uses_[released_ % uses_.size()];
        in_use_[u.pool] -= u.size;
        ++released_;
    }

private:
    struct use {
        bytes size;
        std::vector<hop> way;
        std::size_t pool;
        std::size_t ahead;
    };

    std::size_t pool_of(const location& where) {
        for (std::size_t i = 0; i < pools_.size(); ++i)
            if (pools_[i].first == where) return i;
        pools_.emplace_back(where, placed_.pool_at(where));
        in_use_.push_back({});
        return pools_.size() - 1;
    }
    void begin(double now) {
        const use& u = uses_[begun_ % uses_.size()];
        arrivals_.push_back(time_.transfer(now, u.size, u.way));
        in_use_[u.pool] += u.size;
        ++begun_;
    }

    const graph& graph_;
    const placement& placed_;
    const machine& machine_;
    const Cost& cost_;
    timeline& time_;
    location host_;
    double cold_;
    std::vector<use> uses_{};        // of one pass, in order
    std::vector<std::size_t> count_; // by node
    std::vector<std::pair<location, bytes>> pools_{};
    std::vector<bytes> in_use_{};   // by pool
    std::deque<double> arrivals_{}; // of what was begun and not used yet
    std::size_t begun_ = 0;
    std::size_t used_ = 0;
    std::size_t released_ = 0;
};

} // namespace tern
