// by_tensor: each fusion group where the whole run is fastest, by what its calls cost there and what switches cost.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/cost/cost_model.hpp>
#include <tern/plan/all_cpu.hpp>
#include <tern/plan/chain.hpp>
#include <tern/plan/kept_free.hpp>
#include <tern/plan/placement.hpp>

namespace tern {

/// Where a chain's units go, and what that costs.
struct chain_choice {
    std::vector<unsigned char> chosen{}; ///< by unit: 0 the host, 1 the accelerator
    seconds cost{};
};

namespace detail {

/// The least cost of a chain of segments whose chosen sizes sum to at most `room` steps of `step` bytes, each size
/// rounded up: dynamic programming over (bytes, state). `fits` means that everything does: then sizes do not count.
template <class = void> class chain_knapsack {
public:
    chain_knapsack(const std::vector<chain_segment>& segments, std::uint64_t step, std::size_t room, bool fits)
        : segments_(segments), step_(step), columns_(fits ? 1 : room + 1), fits_(fits) {}

    /// The cost; `choice` gets one entry for each segment.
    double solve(double departure, std::vector<unsigned char>& choice) {
        std::array<std::vector<double>, 4> now, next;
        for (std::size_t s = 0; s < 4; ++s) now[s].assign(columns_, never), next[s].resize(columns_);
        std::fill(now[0].begin(), now[0].end(), 0.0); // the first call follows the host
        std::array<bool, 4> alive{true, false, false, false};
        from_.assign(segments_.size() * columns_, 0);
        for (std::size_t n = 0; n < segments_.size(); ++n) {
            for (auto& row : next) std::fill(row.begin(), row.end(), never);
            std::array<bool, 4> then{};
            for (std::size_t before = 0; before < 4; ++before)
                for (unsigned char d = 0; alive[before] && d < (segments_[n].movable ? 2 : 1); ++d) {
                    relax(n, before, d, now, next);
                    then[segments_[n].after[before][d]] = true;
                }
            std::swap(now, next);
            alive = then;
        }
        std::size_t best = 0;
        for (std::size_t s = 0; s < 4; ++s) {
            if (s & 1) now[s].back() += departure;
            if (now[s].back() < now[best].back()) best = s;
        }
        walk_back(best, choice);
        return now[best].back();
    }

private:
    static constexpr double never = std::numeric_limits<double>::infinity();

    std::size_t width(std::size_t n) const noexcept {
        if (fits_) return 0;
        const std::uint64_t size = segments_[n].size.count;
        const std::uint64_t steps = size / step_ + (size % step_ != 0 ? 1 : 0);
        return steps < columns_ ? static_cast<std::size_t>(steps) : columns_;
    }

    void relax(std::size_t n, std::size_t before, unsigned char d, const std::array<std::vector<double>, 4>& now,
               std::array<std::vector<double>, 4>& next) {
        const std::size_t after = segments_[n].after[before][d];
        const double cost = segments_[n].cost[before][d];
        const std::size_t w = d == 1 ? width(n) : 0;
        const double* const source = now[before].data();
        double* const target = next[after].data();
        std::uint16_t* const from = from_.data() + n * columns_;
        // Four bits for each state after: the choice, and the state before.
        const unsigned shift = 4 * static_cast<unsigned>(after);
        const auto mark = static_cast<std::uint16_t>((2 * before + d) << shift);
        const auto keep = static_cast<std::uint16_t>(~(0xfu << shift));
        for (std::size_t k = w; k < columns_; ++k) {
            const double sum = source[k - w] + cost;
            if (!(sum < target[k])) continue;
            target[k] = sum;
            from[k] = static_cast<std::uint16_t>((from[k] & keep) | mark);
        }
    }

    void walk_back(std::size_t state, std::vector<unsigned char>& choice) const {
        choice.assign(segments_.size(), 0);
        std::size_t k = columns_ - 1;
        for (std::size_t n = segments_.size(); n-- > 0;) {
            const unsigned mark = from_[n * columns_ + k] >> (4 * state) & 0xfu;
            choice[n] = mark & 1;
            if (choice[n] == 1) k -= width(n);
            state = mark >> 1;
        }
    }

    const std::vector<chain_segment>& segments_;
    std::uint64_t step_;
    std::size_t columns_;
    bool fits_;
    std::vector<std::uint16_t> from_{}; // by segment and bytes
};

/// What is chosen where no choice takes a finite time.
inline chain_choice all_on_host(const placement_chain& chain) {
    return {std::vector<unsigned char>(chain.units().size(), 0), {std::numeric_limits<double>::infinity()}};
}

/// The bytes of everything that may move.
inline bytes movable_size(const placement_chain& chain) {
    bytes sum{};
    for (const fusion_unit& u : chain.units())
        if (u.movable) sum += u.size;
    return sum;
}

/// The choices for scattered units, tried one after another: each time `solve` gets them and what room is left.
template <class Solve>
void for_each_scattered(const placement_chain& chain, const std::vector<std::size_t>& scattered, std::size_t most,
                        bytes room, Solve solve) {
    const std::size_t n = std::min(scattered.size(), most);
    for (std::size_t mask = 0; mask < (std::size_t{1} << n); ++mask) {
        std::vector<unsigned char> given(chain.units().size(), 0);
        for (std::size_t i = 0; i < n; ++i) given[scattered[i]] = mask >> i & 1;
        const bytes taken = chain.size(given);
        if (room == unlimited || taken <= room) solve(given, room == unlimited ? room : room - taken);
    }
}

/// One table: the best choice within `room`, and within what the table holds at most, where sizes are rounded up to
/// steps of about `all` over the table's columns. Of more than four scattered units the smallest stay on the host.
template <class = void>
void try_knapsack(const placement_chain& chain, bytes room, bytes all, std::size_t cells, chain_choice& best) {
    constexpr std::size_t few = 128; // units, up to which none are joined
    const std::vector<std::size_t> scattered = scattered_units(chain);
    const std::vector<bool> is_given = given_units(chain, scattered);
    const bool join = chain.units().size() > few;
    // Joined until they are many steps, so that what is rounded up is little of them.
    const bytes least{join ? all.count / 1024 : 0};
    for_each_scattered(chain, scattered, 4, room, [&](const std::vector<unsigned char>& given, bytes left) {
        const std::vector<chain_segment> segments = cut(chain, given, is_given, least);
        const std::size_t columns = std::min<std::size_t>(cells / segments.size(), std::size_t{1} << (join ? 16 : 14));
        bytes here{};
        bytes largest{1};
        for (const chain_segment& s : segments) here += s.size, largest = std::max(largest, s.size);
        // The largest ones are whole numbers of steps, or nearly so.
        const std::uint64_t rough = all.count / columns + 1;
        const std::uint64_t parts = largest.count / rough + 1;
        const std::uint64_t step = parts == 1 ? rough : (largest.count - 1) / parts + 1;
        const bool fits = here <= left;
        const std::size_t width = fits ? 0 : static_cast<std::size_t>(std::min(left, all).count / step);
        chain_knapsack table(segments, step, width, fits);
        std::vector<unsigned char> choice;
        const double cost = table.solve(chain.departure(), choice);
        if (!(cost < best.cost.count)) return;
        best = {given, {cost}};
        for (std::size_t n = 0; n < segments.size(); ++n)
            for (const std::size_t u : segments[n].units) best.chosen[u] = choice[n];
    });
}

} // namespace detail

/// The best choice for a chain within `room` bytes. Sizes are rounded up to steps. Small room gets a table of finer
/// steps; what the tables of still less room find counts too. As each table depends on the graph alone, more room is
/// never slower.
template <class = void> chain_choice knapsack(const placement_chain& chain, bytes room) {
    constexpr std::size_t cells = std::size_t{1} << 22; // of a table: segments times steps
    const bytes all = detail::movable_size(chain);
    chain_choice best = detail::all_on_host(chain);
    for (std::uint64_t part = 16; part != 0; part /= 2) {
        const bytes most{all.count / part};
        detail::try_knapsack(chain, room, most, cells, best);
        if (room <= most) break;
    }
    return best;
}

/// What policies over a chain have in common: where to, for which run, and what is left free.
struct chain_options {
    estimate_options how{}; ///< the run that is to be fast, such as one token, or a prompt's chunk
    location into{tier_of<vram>, 0, 0};
    tier_info rest = tier_of<mapped>;
    std::size_t context = 0; ///< tokens that the cache will hold; 0: how.shape.context. It takes its room
                             ///< beside the weights, where the cache does not lie on the host
    bytes headroom{};        ///< to be left free besides

    kept_free kept() const {
        const bool beside = !how.shape.habits.cache_on_host;
        return {beside ? how.shape.cache_per_token : bytes{}, context != 0 ? context : how.shape.context, headroom};
    }
};

namespace detail {

/// What weights may take: less activations, the cache as it will be, and headroom.
inline bytes chain_room(const graph& g, const machine& m, const chain_options& o) {
    return weight_room(g, m, o.into, o.kept());
}

inline std::string milliseconds(double t) {
    if (!(t < 1e9)) return "no time"; // what may not lie there is never computed there
    const auto micro = static_cast<std::uint64_t>(t * 1e6 + 0.5);
    const std::string digits = std::to_string(micro % 1000);
    return std::to_string(micro / 1000) + "." + std::string(3 - digits.size(), '0') + digits + " ms";
}

/// The placement of a choice, with reasons.
template <class = void>
placement chain_placement(std::string_view name, const graph& g, const machine& m, const placement_chain& chain,
                          const std::vector<unsigned char>& chosen, const chain_options& o) {
    placement p = all_cpu{o.rest}.place(g, m);
    p.policy = name;
    const std::vector<tensor_role> roles = roles_of(g);
    for (std::size_t u = 0; u < chain.units().size(); ++u) {
        const fusion_unit& unit = chain.units()[u];
        const std::string times =
            milliseconds(unit.device_time) + " there, " + milliseconds(unit.host_time) + " on the host";
        std::string reason = "its type does not allow " + to_string(o.into);
        if (chosen[u] == 1)
            reason = "the run is fastest so: " + times;
        else if (unit.movable)
            reason = "others gain more in " + to_string(o.into) + ", or a switch costs more: " + times;
        else if (roles[unit.tensors.front()] == tensor_role::looked_up)
            reason = "a row a token is looked up";
        for (const std::size_t t : unit.tensors) {
            if (chosen[u] == 1) p.tensors[t].where = o.into;
            p.tensors[t].reason = reason;
        }
    }
    return p;
}

} // namespace detail

/// Maximises the time that groups gain on the accelerator, less that of switches:
///
///     sum over groups there of (t_host - t_accelerator) - sum over calls of the way of their operands, where those
///     were made on the other device: latency, bytes, launch and sync, as the cost model prices activations
///
/// within the memory's room. Experts count with those that a run is expected to use, and take the bytes of all. The
/// source is ATSInfer's static schedule (arXiv 2607.10183); groups are atomic here. Throws what the cost model throws,
/// and config_error where no processor computes from `into`.
///
///     auto plan = tern::by_tensor{tern::roofline(machine)}.place(graph, machine);
template <cost_model Cost> struct by_tensor {
    static constexpr std::string_view name = "by_tensor";
    Cost cost;
    chain_options options{};

    placement place(const graph& g, const machine& m) const {
        const location rest{options.rest, 0, 0};
        if (m.room_at(options.into).count == 0) return all_cpu{options.rest}.place(g, m);
        const placement_chain chain(g, m, cost, options.how, options.into, rest);
        const chain_choice best = knapsack(chain, detail::chain_room(g, m, options));
        return detail::chain_placement(name, g, m, chain, best.chosen, options);
    }
};

template <cost_model Cost> by_tensor(Cost) -> by_tensor<Cost>;
template <cost_model Cost> by_tensor(Cost, chain_options) -> by_tensor<Cost>;

} // namespace tern
