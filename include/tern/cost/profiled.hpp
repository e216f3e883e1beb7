// profiled: times from a table of what was measured on this machine.
#pragma once

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/cost/cost_model.hpp>
#include <tern/cost/fingerprint.hpp>
#include <tern/cost/machine.hpp>

namespace tern {

/// One operator measured, its launch in it.
struct run_sample {
    std::string op{};
    std::string format{}; ///< empty for operators without weights
    std::string processor{};
    double tokens = 1;
    std::uint64_t size = 0; ///< bytes of the weights; without any, bytes read and written for each token
    seconds time{};
};

/// One transfer measured, its latency in it; for activations the sync too.
struct move_sample {
    location from{};
    location to{};
    cargo what = cargo::weights;
    bytes size{};
    std::size_t others = 0; ///< how many others were under way on the same bus
    seconds time{};
};

/// What one launch of a processor takes of each of its samples.
struct launch_sample {
    std::string processor{};
    seconds time{};
};

/// Everything that was measured on one machine. (profile_json.hpp reads and writes it.)
struct profile {
    std::string machine{}; ///< its fingerprint
    std::vector<launch_sample> launches{};
    std::vector<run_sample> runs{};
    std::vector<move_sample> moves{};
};

namespace detail {

/// The line through (x0, y0) and (x1, y1) at x.
constexpr double on_line(double x0, double y0, double x1, double y1, double x) noexcept {
    return x1 == x0 ? y1 : y0 + (y1 - y0) * ((x - x0) / (x1 - x0));
}

/// Times over one axis, in ascending order: between two points a straight line, before the first its time, after the
/// last the slope of the last piece; one point alone is proportional from there on, apart from `fixed`.
struct time_curve {
    std::vector<std::pair<double, double>> points{};

    double at(double x, double fixed) const noexcept {
        const auto next = std::lower_bound(points.begin(), points.end(), std::pair(x, 0.0));
        if (next == points.begin()) return next->second;
        const auto& last = points.back();
        if (next != points.end()) return on_line((next - 1)->first, (next - 1)->second, next->first, next->second, x);
        if (points.size() == 1) {
            const double varies = std::max(last.second - fixed, 0.0);
            return last.second - varies + varies * (x / last.first);
        }
        const auto& before = points[points.size() - 2];
        const double slope = std::max((last.second - before.second) / (last.first - before.first), 0.0);
        return last.second + slope * (x - last.first);
    }
};

} // namespace detail

/// Prices by interpolation.
///
///     run    at the measured sizes on both sides, times over tokens in straight pieces (what is bound by bytes is
///            flat, what is bound by arithmetic rises); between sizes a straight line; outside the measured sizes
///            launch + (t - launch) * size / nearest
///     move   over bytes in straight pieces; where more transfers share the bus than were measured, the time grows with
///            their number
///
/// Throws config_error for a machine of another fingerprint, for samples that make no sense, and when it is asked for
/// an operator, format, processor or link that was not measured.
///
///     tern::profiled cost(tern::read_profile("profile.json"), machine);
template <class = void> class basic_profiled {
public:
    basic_profiled(const profile& measured, machine m) : machine_(std::move(m)) {
        if (const std::string here = fingerprint(machine_); measured.machine != here)
            throw config_error(
                "the profile was measured on another machine: measure this one again. The profile's is \"" +
                measured.machine + "\", this one is \"" + here + "\"");
        for (const launch_sample& l : measured.launches) {
            check_time(l.time, l.processor);
            launches_.emplace_back(l.processor, l.time.count);
        }
        for (const run_sample& r : measured.runs) add(r);
        for (const move_sample& s : measured.moves) add(s);
        for (run_table& t : runs_)
            for (size_curve& c : t.sizes) sort(c.curve, t.key.op);
        for (move_table& t : moves_) sort(t.curve, "a move");
    }

    const machine& on() const noexcept { return machine_; }

    seconds price(const run& r) const {
        const auto at = std::lower_bound(runs_.begin(), runs_.end(), std::tie(r.op, r.format, r.processor),
                                         [](const run_table& t, const auto& k) { return t.key.less(k); });
        if (at == runs_.end() || !at->key.same(std::tie(r.op, r.format, r.processor)))
            throw config_error("the profile has no \"" + std::string(r.op) + "\" in format \"" + std::string(r.format) +
                               "\" on " + std::string(r.processor) + ": measure it");
        const double calls = r.calls > 0 ? r.calls : 1;
        const double size = r.format.empty() ? static_cast<double>(r.other.count) / (calls * r.tokens)
                                             : static_cast<double>(r.weights.count) / calls;
        return {r.calls * of_size(*at, size, r.tokens)};
    }

    seconds price(const move& m) const {
        const link* const l = machine_.link_between(m.from, m.to);
        const std::size_t others = l == nullptr ? 0 : sharers(machine_, *l, m.beside);
        const move_table* best = nullptr;
        for (const move_table& t : moves_) {
            if (t.from != m.from || t.to != m.to || t.what != m.what) continue;
            // As many others as were measured, else the next fewer, else the fewest.
            if (best == nullptr || (t.others <= others ? best->others > others || t.others > best->others
                                                       : best->others > others && t.others < best->others))
                best = &t;
        }
        if (best == nullptr)
            throw config_error("the profile has no move of " +
                               std::string(m.what == cargo::weights ? "weights" : "activations") + " from " +
                               to_string(m.from) + " to " + to_string(m.to) + ": measure it");
        const double t = best->curve.at(static_cast<double>(m.size.count), 0);
        if (best->others >= others) return {t};
        return {t * static_cast<double>(1 + others) / static_cast<double>(1 + best->others)};
    }

private:
    struct run_key {
        std::string op, format, processor;

        template <class K> bool less(const K& k) const { return std::tie(op, format, processor) < k; }
        template <class K> bool same(const K& k) const { return std::tie(op, format, processor) == k; }
    };
    struct size_curve {
        double size;
        detail::time_curve curve;
    };
    struct run_table {
        run_key key;
        double launch;
        std::vector<size_curve> sizes; // ascending
    };
    struct move_table {
        location from, to;
        cargo what;
        std::size_t others;
        detail::time_curve curve;
    };

    static void check_time(seconds t, std::string_view of) {
        if (!(t.count >= 0) || !std::isfinite(t.count))
            throw config_error("the profile has a time of " + std::to_string(t.count) + " s for " + std::string(of));
    }

    void add(const run_sample& r) {
        check_time(r.time, r.op);
        if (!(r.tokens > 0) || !std::isfinite(r.tokens))
            throw config_error("the profile has " + std::to_string(r.tokens) + " tokens for " + r.op);
        const auto key = std::tie(r.op, r.format, r.processor);
        auto at = std::lower_bound(runs_.begin(), runs_.end(), key,
                                   [](const run_table& t, const auto& k) { return t.key.less(k); });
        if (at == runs_.end() || !at->key.same(key))
            at = runs_.insert(at, {{r.op, r.format, r.processor}, launch_of(r.processor), {}});
        const double size = static_cast<double>(r.size);
        auto curve = std::lower_bound(at->sizes.begin(), at->sizes.end(), size,
                                      [](const size_curve& c, double s) { return c.size < s; });
        if (curve == at->sizes.end() || curve->size != size) curve = at->sizes.insert(curve, {size, {}});
        curve->curve.points.emplace_back(r.tokens, r.time.count);
    }

    void add(const move_sample& s) {
        check_time(s.time, "a move");
        move_table* table = nullptr;
        for (move_table& t : moves_)
            if (t.from == s.from && t.to == s.to && t.what == s.what && t.others == s.others) table = &t;
        if (table == nullptr) table = &moves_.emplace_back(move_table{s.from, s.to, s.what, s.others, {}});
        table->curve.points.emplace_back(static_cast<double>(s.size.count), s.time.count);
    }

    static void sort(detail::time_curve& c, const std::string& of) {
        std::sort(c.points.begin(), c.points.end());
        for (std::size_t i = 1; i < c.points.size(); ++i)
            if (c.points[i].first == c.points[i - 1].first)
                throw config_error("the profile has two times for one measurement of " + of);
    }

    double launch_of(const std::string& processor) const {
        for (const auto& [name, time] : launches_)
            if (name == processor) return time;
        throw config_error("the profile does not say what a launch on " + processor + " takes");
    }

    static double of_size(const run_table& t, double size, double tokens) {
        const auto next = std::lower_bound(t.sizes.begin(), t.sizes.end(), size,
                                           [](const size_curve& c, double s) { return c.size < s; });
        const auto time = [&](const size_curve& c) { return c.curve.at(tokens, t.launch); };
        if (next != t.sizes.begin() && next != t.sizes.end())
            return detail::on_line((next - 1)->size, time(*(next - 1)), next->size, time(*next), size);
        const size_curve& nearest = next == t.sizes.end() ? t.sizes.back() : *next;
        const double whole = time(nearest);
        const double varies = std::max(whole - t.launch, 0.0);
        return nearest.size == 0 ? whole : whole - varies + varies * (size / nearest.size);
    }

    machine machine_;
    std::vector<std::pair<std::string, double>> launches_{};
    std::vector<run_table> runs_{}; // ascending
    std::vector<move_table> moves_{};
};

/// (A template underneath, so that a program compiles it only where it makes one.)
using profiled = basic_profiled<>;

} // namespace tern
