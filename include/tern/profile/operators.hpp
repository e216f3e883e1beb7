// profile_operators: measures every kind of call of a graph on every processor, to fill `profiled`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/cost/fingerprint.hpp>
#include <tern/cost/machine.hpp>
#include <tern/cost/profiled.hpp>
#include <tern/device/device.hpp>
#include <tern/profile/bench.hpp>
#include <tern/profile/calls.hpp>
#include <tern/profile/timing.hpp>

namespace tern {

/// What is measured, and how long.
struct profile_options {
    std::vector<std::size_t> tokens{1, 2, 8, 32, 128, 512};
    /// Attention is measured where each token's share of the cache is so many tokens: (n - 1) * tokens are there
    /// before.
    std::vector<std::size_t> depths{1, 2, 8, 64, 512};
    std::size_t context = 1024;   ///< tokens in the cache at most
    bytes cache_per_token{};      ///< of all layers together, as in run_shape
    bytes working_set{256 << 20}; ///< weights that calls go through in turn: as many as the model has
    call_details details{};
    activation_policy activations = activation_policy::f32;
    timing_limits limits{.least = 5, .most = 50, .each = {0.3}}; ///< of passes over the graph's calls
    std::size_t rounds = 2; ///< over everything, so that a disturbance does not meet all times of one thing
    seconds longest{120};   ///< once they are over, what is left is measured twice, and there are no further rounds
};

/// Told of each measurement, on the thread that measures.
struct profile_listener {
    virtual ~profile_listener() = default;
    virtual void measured(std::size_t done, std::size_t of, std::string_view what) = 0;
};

/// What was measured, and what could not be, with the reason.
struct measured_operators {
    profile table{};
    std::vector<std::string> left_out{};
};

namespace detail {

/// A number of tokens over a cache of some depth, for all kinds of calls on one device.
struct profile_point {
    std::size_t tokens;
    std::size_t context;
    bool whole; ///< all calls of the graph; else attention alone
};

template <weight_tensor Weight> class operator_profiler {
public:
    operator_profiler(run_loop& home, std::span<device* const> devices, const machine& m, const graph& g,
                      const profile_options& how, profile_listener* listener)
        : home_(home), devices_(devices), machine_(m), graph_(g), how_(how), listener_(listener), kinds_(kinds_of(g)) {
        if (devices.empty() || how.tokens.empty() || how.rounds == 0)
            throw config_error("nothing is measured without a device, a number of tokens and a round");
        for (const std::size_t t : how.tokens) {
            if (t == 0 || t > 1 << 20) throw config_error("a call of " + std::to_string(t) + " tokens is not measured");
            bool whole = true;
            for (const std::size_t depth : how.depths) {
                if (depth != 1 && depth * t > std::max(how.context, t)) continue;
                points_.push_back({t, (depth - 1) * t, whole});
                whole = false;
            }
            if (whole) points_.push_back({t, 0, true});
        }
        for (const graph_node& node : g.nodes) {
            const call_kind alone = kind_of(g, static_cast<std::size_t>(&node - g.nodes.data()));
            std::size_t k = 0;
            while (!kinds_[k].like(alone)) ++k;
            order_.push_back(k);
        }
    }

    measured_operators measure() {
        result_.table.machine = fingerprint(machine_);
        std::vector<device*> each;
        for (device* d : devices_) {
            const processor* const by = machine_.processor_at(d->memory().where());
            const auto same = [&](device* o) { return machine_.processor_at(o->memory().where()) == by; };
            if (by != nullptr && std::none_of(each.begin(), each.end(), same)) each.push_back(d);
        }
        total_ = each.size() * points_.size() * how_.rounds;
        std::vector<samples> all(each.size(), samples(kinds_.size() * points_.size()));
        const seconds begin = clock_now();
        for (std::size_t round = 0; round < how_.rounds && (round == 0 || !late(begin)); ++round)
            for (std::size_t d = 0; d < each.size(); ++d) run_device(*each[d], all[d], begin, round);
        for (std::size_t d = 0; d < each.size(); ++d)
            collect(*machine_.processor_at(each[d]->memory().where()), all[d], each[d] == devices_.front());
        return std::move(result_);
    }

private:
    /// Of each point and kind: the mean of each pass.
    using samples = std::vector<std::vector<seconds>>;

    bool late(seconds begin) const { return (clock_now() - begin).count > how_.longest.count; }
    static bool on_host_only(const call_kind& k) { return k.op == "attention" || k.op == "rope_angles"; }

    /// All kinds ready, with as many copies of their weights as the graph has: then passes in the graph's order, so
    /// that weights, code and activations come from where they come from in a run.
    void run_device(device& on, samples& into, seconds begin, std::size_t round) {
        const processor& by = *machine_.processor_at(on.memory().where());
        const bool host = &on == devices_.front();
        if (round == 0) launches(on, by);
        context ctx(home_, *devices_.front());
        ctx.compute_with(how_.activations);
        std::vector<std::unique_ptr<call_bench<Weight>>> benches(kinds_.size());
        const double share = share_of(on);
        for (std::size_t k = 0; k < kinds_.size(); ++k) {
            if (!host && on_host_only(kinds_[k])) continue;
            try {
                const bytes room = to_bytes(share * to_double(bytes_of(kinds_[k]).count));
                benches[k] = std::make_unique<call_bench<Weight>>(ctx, on, kinds_[k], how_.details, room);
            } catch (const unsupported_error& e) { left_out(round, kinds_[k], by, e); } catch (const budget_error& e) {
                left_out(round, kinds_[k], by, e);
            }
        }
        if (round == 0) cut_.resize(kinds_.size());
        for (std::size_t p = 0; p < points_.size(); ++p) {
            timing_limits limits = how_.limits;
            if (late(begin)) limits = {.least = 2, .most = 2, .each = {}};
            const profile_point& point = points_[p];
            for (std::size_t k = 0; k < kinds_.size(); ++k)
                if (benches[k] && kinds_[k].op == "attention")
                    benches[k]->deepen(point.context, point.tokens, attention_calls(graph_), how_.working_set);
            if (host || point.whole) run_point(benches, p, limits, into, round, by);
            if (listener_ != nullptr) listener_->measured(++done_, total_, by.name);
        }
        for (std::size_t k = 0; k < kinds_.size(); ++k)
            if (benches[k] && benches[k]->is_cut()) cut_[k].push_back({by.name, benches[k]->weight_bytes()});
    }

    void run_point(std::vector<std::unique_ptr<call_bench<Weight>>>& benches, std::size_t p,
                   const timing_limits& limits, samples& into, std::size_t round, const processor& by) {
        std::vector<seconds> passes;
        samples first(into.size()); // whatever is done the first time
        const auto warm = [&] { return pass(benches, points_[p], first, p); };
        const auto once = [&] { return pass(benches, points_[p], into, p); };
        try {
            home_.run(repeat(warm, {.least = 1, .most = 1}, passes));
            home_.run(repeat(once, limits, passes));
        } catch (const budget_error& e) {
            if (round == 0)
                result_.left_out.push_back(std::to_string(points_[p].tokens) + " tokens on " + by.name + ": " +
                                           e.what());
        }
    }

    task<seconds> pass(std::vector<std::unique_ptr<call_bench<Weight>>>& benches, const profile_point& point,
                       samples& into, std::size_t p) {
        std::vector<seconds> sums(kinds_.size());
        std::vector<std::size_t> counts(kinds_.size());
        seconds all{};
        for (const std::size_t k : order_) {
            const call_kind& kind = kinds_[k];
            if (!benches[k] || (kind.most != 0 && point.tokens > kind.most)) continue;
            if (!point.whole && kind.op != "attention") continue;
            const seconds took = co_await benches[k]->once(point.tokens);
            sums[k] += took;
            ++counts[k];
            all += took;
        }
        for (std::size_t k = 0; k < kinds_.size(); ++k)
            if (counts[k] != 0) into[p * kinds_.size() + k].push_back({sums[k].count / static_cast<double>(counts[k])});
        co_return all;
    }

    /// What the least operator takes.
    void launches(device& on, const processor& by) {
        const call_kind least{.op = "add", .in = 8, .out = 8, .times = 1};
        context ctx(home_, *devices_.front());
        call_bench<Weight> bench(ctx, on, least, {}, {});
        std::vector<seconds> times;
        const auto once = [&] { return bench.once(1); };
        home_.run(repeat(once, {.least = 20, .most = 200, .each = {0.02}}, times));
        result_.table.launches.push_back({by.name, median_of(std::move(times))});
    }
    void left_out(std::size_t round, const call_kind& k, const processor& by, const error& why) {
        if (round == 0) result_.left_out.push_back(std::string(k.op) + " on " + by.name + ": " + why.what());
    }

    /// Of all weights of a kind; of a mixture's, those of all experts.
    bytes bytes_of(const call_kind& k) const {
        bytes sum{};
        for (const std::size_t t : graph_.nodes[k.node].tensors) sum += graph_.tensors[t].size();
        return sum * k.times;
    }
    /// Of the graph's weights, what goes into the working set and onto a device, whose other half is for activations.
    double share_of(device& on) const {
        double all = 1;
        for (const call_kind& k : kinds_) all += to_double(bytes_of(k).count);
        double room = to_double(how_.working_set.count);
        const budget& b = on.memory().budget();
        if (on.memory().where().tier.reached_by != reach::host && b.limit() != unlimited)
            room = std::min(room, to_double((b.limit() - b.used()).count) / 2);
        return std::min(1.0, room / all);
    }

    /// Calls of different shapes that a cost model cannot tell apart are one sample, each as often as the graph has it.
    void collect(const processor& by, const samples& all, bool host) {
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (all[i].empty()) continue;
            const profile_point& p = points_[i / kinds_.size()];
            const call_kind& k = kinds_[i % kinds_.size()];
            const run r = run_of(graph_, k, p.tokens, {.context = p.context, .cache_per_token = how_.cache_per_token});
            std::uint64_t size = sample_size(r);
            for (const auto& [name, left] : cut_[i % kinds_.size()])
                if (name == by.name && k.op != "embed") size = left.count;
            add({std::string(r.op), std::string(r.format), by.name, r.tokens, size, median_of(all[i])}, k.times);
            if (!host || !on_host_only(k)) continue;
            for (const processor& other : machine_.processors) // the host does it, whoever is asked
                if (&other != &by)
                    add({std::string(r.op), std::string(r.format), other.name, r.tokens, size, median_of(all[i])},
                        k.times);
        }
    }
    void add(run_sample s, std::size_t times) {
        const double weight = static_cast<double>(times);
        std::vector<run_sample>& runs = result_.table.runs;
        for (std::size_t at = 0; at < runs.size(); ++at) {
            run_sample& o = runs[at];
            if (o.op != s.op || o.format != s.format || o.processor != s.processor || o.tokens != s.tokens ||
                o.size != s.size)
                continue;
            o.time.count = (o.time.count * weights_[at] + s.time.count * weight) / (weights_[at] + weight);
            weights_[at] += weight;
            return;
        }
        runs.push_back(std::move(s));
        weights_.push_back(weight);
    }

    run_loop& home_;
    std::span<device* const> devices_;
    const machine& machine_;
    const graph& graph_;
    const profile_options& how_;
    profile_listener* listener_;
    std::vector<call_kind> kinds_;
    std::vector<std::size_t> order_{}; // the kind of each node
    std::vector<profile_point> points_{};
    std::vector<std::vector<std::pair<std::string, bytes>>> cut_{}; // by kind: on which processor, to what
    std::vector<double> weights_{};                                 // of the samples: calls of the graph
    measured_operators result_{};
    std::size_t done_ = 0;
    std::size_t total_ = 0;
};

} // namespace detail

/// Measures every kind of call that `g` makes on every processor of `m` that one of `devices` belongs to: each alone,
/// on made-up numbers, through the context and from leases, so that launch, the switch to the device and the wait for
/// it are in the time. The first device is the host. A matrix that a device does not hold is measured with fewer rows;
/// what cannot be measured is left out, with the reason. Moves are measured by profile_moves.
///
/// It takes copies of single tensors' sizes in RAM, `working_set` at most, beside what budgets count, and leaves the
/// devices as they were. Run it before weights are loaded. Throws config_error for options that make no sense.
///
///     auto measured = tern::profile_operators(loop, devices, machine, graph, {.tokens = {1, 64}});
///     tern::profiled cost(measured.table, machine);
template <weight_tensor Weight = profiled_weight>
measured_operators profile_operators(run_loop& home, std::span<device* const> devices, const machine& m, const graph& g,
                                     const profile_options& how = {}, profile_listener* listener = nullptr) {
    return detail::operator_profiler<Weight>(home, devices, m, g, how, listener).measure();
}

} // namespace tern
