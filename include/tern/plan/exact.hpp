// exact: the best placement of a small graph, proved by branch and bound. It says how far other policies are from it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/plan/by_tensor.hpp>
#include <tern/plan/chain.hpp>

namespace tern {

namespace detail {

/// Depth first over the segments of a chain. A branch ends where its cost and the least cost of the rest, were there
/// room for everything, reach the best found.
template <class = void> class chain_search {
public:
    chain_search(const std::vector<chain_segment>& segments, bytes room, double departure, std::size_t& steps)
        : segments_(segments), room_(room), steps_(steps), rest_(segments.size() + 1), now_(segments.size()) {
        rest_.back() = {0, departure, 0, departure};
        for (std::size_t n = segments.size(); n-- > 0;)
            for (std::size_t before = 0; before < 4; ++before) {
                double least = std::numeric_limits<double>::infinity();
                for (unsigned char d = 0; d < (segments[n].movable ? 2 : 1); ++d)
                    least = std::min(least, segments[n].cost[before][d] + rest_[n + 1][segments[n].after[before][d]]);
                rest_[n][before] = least;
            }
    }

    /// The least cost below `best`, and its choices; `best` where none is lower.
    double solve(double best, std::vector<unsigned char>& choice) {
        best_ = best;
        branch(0, 0, 0, {}, choice);
        return best_;
    }

private:
    static constexpr std::size_t most = 50'000'000;

    void branch(std::size_t n, std::size_t state, double cost, bytes taken, std::vector<unsigned char>& choice) {
        if (++steps_ > most) throw config_error("the graph is too large for exact: use by_tensor");
        if (!(cost + rest_[n][state] < best_)) return;
        if (n == segments_.size()) {
            best_ = cost + rest_[n][state];
            choice = now_;
            return;
        }
        for (const unsigned char d : {1, 0}) {
            if (d == 1 && !segments_[n].movable) continue;
            const bytes then = d == 1 ? taken + segments_[n].size : taken;
            if (room_ != unlimited && then > room_) continue;
            now_[n] = d;
            branch(n + 1, segments_[n].after[state][d], cost + segments_[n].cost[state][d], then, choice);
        }
    }

    const std::vector<chain_segment>& segments_;
    bytes room_;
    std::size_t& steps_;
    std::vector<std::array<double, 4>> rest_; // by segment and state: without a limit
    std::vector<unsigned char> now_;
    double best_ = 0;
};

} // namespace detail

/// The best choice for a chain within `room` bytes, to the byte. Throws config_error after fifty million steps.
template <class = void> chain_choice branch_and_bound(const placement_chain& chain, bytes room) {
    const std::vector<std::size_t> scattered = detail::scattered_units(chain);
    if (scattered.size() > 16) throw config_error("the graph is too large for exact: use by_tensor");
    const std::vector<bool> is_given = detail::given_units(chain, scattered);
    chain_choice best = detail::all_on_host(chain);
    std::size_t steps = 0;
    detail::for_each_scattered(chain, scattered, 16, room, [&](const std::vector<unsigned char>& given, bytes left) {
        const std::vector<detail::chain_segment> segments = detail::cut(chain, given, is_given, bytes{});
        std::vector<unsigned char> choice;
        detail::chain_search search(segments, left, chain.departure(), steps);
        const double cost = search.solve(best.cost.count, choice);
        if (!(cost < best.cost.count)) return;
        best = {given, {cost}};
        for (std::size_t n = 0; n < segments.size(); ++n)
            for (const std::size_t u : segments[n].units) best.chosen[u] = choice[n];
    });
    return best;
}

/// by_tensor's aim, met exactly; for graphs of some thirty groups.
///
///     auto plan = tern::exact{tern::roofline(machine)}.place(graph, machine);
template <cost_model Cost> struct exact {
    static constexpr std::string_view name = "exact";
    Cost cost;
    chain_options options{};

    placement place(const graph& g, const machine& m) const {
        if (m.room_at(options.into).count == 0) return all_cpu{options.rest}.place(g, m);
        const placement_chain chain(g, m, cost, options.how, options.into, {options.rest, 0, 0});
        const chain_choice best = branch_and_bound(chain, detail::chain_room(g, m, options));
        return detail::chain_placement(name, g, m, chain, best.chosen, options);
    }
};

template <cost_model Cost> exact(Cost) -> exact<Cost>;
template <cost_model Cost> exact(Cost, chain_options) -> exact<Cost>;

} // namespace tern
