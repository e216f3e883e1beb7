// estimate: how long a run of a graph takes under a placement, and what bounds it. Pure arithmetic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/cost/cost_model.hpp>
#include <tern/cost/machine.hpp>
#include <tern/plan/placement.hpp>
#include <tern/plan/pricing.hpp>
#include <tern/plan/streaming.hpp>
#include <tern/plan/timeline.hpp>

namespace tern {

/// What one run of a graph is predicted to take.
struct prediction {
    seconds total{};
    seconds waited{};    ///< of it, for weights that were not there yet
    seconds switching{}; ///< of it, for activations on their way between devices
    std::size_t switches = 0;
    std::vector<seconds> nodes{};          ///< in the order of graph::nodes: waiting, switching and computing
    std::vector<seconds> tensors{};        ///< in the order of graph::tensors: their share of the nodes that read them
    std::vector<resource_use> resources{}; ///< processors, links, buses of memories
    std::string bound{};                   ///< the name of the busiest resource

    /// The use of a resource by name; an empty one where there is none.
    resource_use use_of(std::string_view name) const {
        for (const resource_use& r : resources)
            if (r.name == name) return r;
        return {};
    }
};

namespace detail {

template <cost_model Cost> class estimator {
public:
    estimator(const graph& g, const placement& p, const machine& m, const Cost& cost, const estimate_options& how)
        : graph_(g), placed_(p), machine_(m), how_(how), prices_(g, m, cost, how), time_(m),
          stream_(g, p, m, cost, time_, how.host, how.shape.habits.serial_uploads),
          seats_(g.nodes.size(), &prices_.host()), busy_(m.processors.size()), misses_(p.misses.value_or(how.misses)) {
        if (p.tensors.size() != g.tensors.size())
            throw config_error("the placement has " + std::to_string(p.tensors.size()) + " tensors, the graph " +
                               std::to_string(g.tensors.size()));
        cold_ = stream_.cold();
    }

    prediction predict() {
        // Streams reach their steady state in the second pass, where what comes ahead was begun in the one before.
        const std::size_t passes = stream_.empty() ? 1 : 3;
        double begin = 0;
        std::vector<resource_use> before;
        for (std::size_t pass = 0; pass < passes; ++pass) {
            begin = now_;
            before = uses();
            result_ = {};
            result_.nodes.resize(graph_.nodes.size());
            result_.tensors.resize(graph_.tensors.size());
            if (pass == 0) stream_.pump(now_);
            for (std::size_t i = 0; i < graph_.nodes.size(); ++i) step(i);
            if (!graph_.nodes.empty()) leave();
        }
        result_.total = {now_ - begin};
        result_.resources = uses();
        for (std::size_t i = 0; i < before.size(); ++i) {
            resource_use& r = result_.resources[i];
            r.busy = r.busy - before[i].busy;
            r.moved -= before[i].moved;
        }
        const auto busiest =
            std::max_element(result_.resources.begin(), result_.resources.end(),
                             [](const resource_use& a, const resource_use& b) { return a.busy.count < b.busy.count; });
        if (busiest != result_.resources.end()) result_.bound = busiest->name;
        return std::move(result_);
    }

private:
    static constexpr std::size_t none = node_flow::none;

    std::vector<resource_use> uses() const {
        std::vector<resource_use> all;
        for (std::size_t i = 0; i < busy_.size(); ++i) all.push_back({machine_.processors[i].name, {busy_[i]}, {}});
        for (resource_use& r : time_.uses()) all.push_back(std::move(r));
        return all;
    }

    /// The memory where a tensor's bytes are read by the processor that computes it.
    const location& computed_at(std::size_t tensor) const {
        const placed_tensor& p = placed_.tensors[tensor];
        return p.computes ? *p.computes : p.where;
    }
    const processor& worker(const graph_node& node) const {
        if (node.tensors.empty()) return prices_.host();
        const std::size_t t = node.tensors.front();
        if (node.op == "embed" && placed_.tensors[t].streamed()) return prices_.host(); // looked up in its mapping
        return prices_.processor_at(computed_at(t));
    }
    const processor& seat_of(std::size_t i) const {
        const node_flow& f = prices_.flow(i);
        switch (f.at) {
        case node_flow::seat::weights: return worker(graph_.nodes[i]);
        case node_flow::seat::follows: return f.source == none ? prices_.host() : *seats_[f.source];
        case node_flow::seat::residual: return *residual_;
        case node_flow::seat::host: break;
        }
        return prices_.host();
    }

    void step(std::size_t i) {
        const graph_node& node = graph_.nodes[i];
        const double begin = now_;
        const processor& seat = seat_of(i);
        seats_[i] = &seat;
        if (node.op == "embed") residual_ = &seat;
        const node_flow& f = prices_.flow(i);
        if (f.source != none)
            come_over(*seats_[f.source], seat, prices_.arrival(i, *seats_[f.source], seat), prices_.arriving(i),
                      f.operands);
        const double arrived = now_;
        const std::size_t waits = node.active == 0 && node.op != "embed" ? stream_.uses_of(i) : 0;
        for (std::size_t u = 0; u < waits; ++u) now_ = std::max(now_, stream_.lease(now_));
        result_.waited += seconds{now_ - arrived};
        node.active != 0 ? experts(i) : compute(i, seat);
        for (std::size_t u = 0; u < waits; ++u) stream_.release();
        if (waits != 0) stream_.pump(now_);
        time_.past(now_);
        result_.nodes[i] = {now_ - begin};
        share_out(node, now_ - begin);
    }

    void compute(std::size_t i, const processor& p) {
        const graph_node& node = graph_.nodes[i];
        const location at = node.tensors.empty() ? p.reads.front() : computed_at(node.tensors.front());
        run r = prices_.work(i);
        const location reads = prices_.read_from(p, at);
        const double alone = prices_.price_of(r, p, at);
        double end = queued(r, p, at, alone);
        if (end == 0) end = time_.compute(now_, alone, reads, r.weights + r.other);
        if (at.tier == tier_of<mapped> && cold_ > 0) end = std::max(end, read_cold(r.weights));
        busy(p, alone);
        const double beside = std::min(idle_, end - now_);
        if (node.op == "add") idle_ = 0;
        idle_ -= std::min(idle_, beside);
        now_ = end - beside;
        if (&p == &prices_.host()) queued_ = now_;
    }

    /// When a call ends on an accelerator whose kernels the host queues while others run; 0 where it does not.
    double queued(const run& r, const processor& p, const location& at, double alone) {
        const double left = how_.shape.habits.queued_launch;
        if (!(left < 1) || p.kind != processor_kind::accelerator) return 0;
        const double launch = prices_.launches_of(r, p, at);
        queued_ += launch;
        return std::max(now_ + launch * left, queued_) + alone - launch;
    }

    void busy(const processor& p, double t) { busy_[static_cast<std::size_t>(&p - machine_.processors.data())] += t; }

    void come_over(const processor& from, const processor& to, double time, double size, std::size_t operands) {
        if (&from == &to || operands == 0) return;
        const link* const l = machine_.link_between(from.reads.front(), to.reads.front());
        if (l != nullptr)
            time_.activations(now_, static_cast<std::size_t>(l - machine_.links.data()), time, to_bytes(size));
        result_.switching += seconds{time};
        result_.switches += operands;
        now_ += time;
        queued_ = now_; // the host was there
    }
    void leave() {
        const processor& last = *seats_.back();
        come_over(last, prices_.host(), prices_.departure(last), prices_.departing(), 1);
    }

    void experts(std::size_t i) {
        const graph_node& node = graph_.nodes[i];
        const placed_tensor& p = placed_.tensors[node.tensors.front()];
        if (p.streamed()) return cached_experts(i, p);
        const processor& home = prices_.processor_at(p.where);
        const double touched = prices_.use(i, 0).touched;
        double end = compute_experts(i, home, p.where, touched, prices_.pairs(i));
        if (p.where.tier == tier_of<mapped> && cold_ > 0)
            end = std::max(end, read_cold(prices_.expert_work(i, touched, prices_.pairs(i)).weights));
        now_ = end;
    }

    /// When some experts of a node are computed, from now on.
    double compute_experts(std::size_t i, const processor& p, const location& at, double count, double pairs) {
        const double alone = prices_.experts_on(i, p, at, count, pairs);
        const run r = prices_.expert_work(i, count, pairs);
        busy(p, alone);
        return time_.compute(now_, alone, prices_.read_from(p, at), r.weights + r.other);
    }

    /// Experts that are there are computed while others come, and while the host computes its share of the misses.
    void cached_experts(std::size_t i, const placed_tensor& p) {
        const graph_node& node = graph_.nodes[i];
        const processor& home = prices_.processor_at(*p.computes);
        const double pairs = prices_.pairs(i);
        const double all = to_double(graph_.tensors[node.tensors.front()].shape.experts);
        const double slots = p.stay == retention::cache ? stream_.cached_share(*p.computes) * all : 0;
        const expert_use use = prices_.use(i, slots);
        const double missing = use.touched - use.cached;
        bytes each{};
        for (const std::size_t part : node.tensors) each += graph_.tensors[part].slice_size;
        const queued_copies copies(stream_.way(p.where, *p.computes, each), stream_.way(p.where, *p.computes, each * 2),
                                   each);
        const double kept = on_host(i, p, home, missing, copies, pairs);
        const double pairs_kept = missing > 0 ? pairs * (1 - use.share) * kept / missing : 0;
        const double fetched = missing - kept;
        const double here = use.cached + fetched;
        if (missing > 0) choice_comes(i, home, kept > 0);
        const double begin = now_;
        const bool serial = how_.shape.habits.serial_uploads && fetched > 0;
        if (serial) {
            now_ = time_.transfer(begin, to_bytes(fetched * to_double(each.count)), copies.way(fetched));
            result_.waited += seconds{now_ - begin};
        }
        double end = compute_experts(i, home, *p.computes, here, pairs - pairs_kept);
        const double computed = end - now_;
        now_ = begin;
        if (fetched > 0 && !serial) {
            const double arrived =
                time_.transfer(begin, to_bytes(fetched * to_double(each.count)), copies.way(fetched));
            // The last one that comes is computed alone.
            const double last =
                arrived + prices_.experts_on(i, home, *p.computes, here, pairs - pairs_kept) * std::min(1.0, 1 / here);
            result_.waited += seconds{std::max(last - end, 0.0)};
            end = std::max(end, last);
        }
        now_ = kept > 0 ? share_with_host(i, p, home, kept, pairs_kept, end) : end;
        if (how_.shape.habits.mixture_overlaps && !serial) idle_ = std::max(now_ - begin - computed, 0.0);
        queued_ = begin; // what follows is queued while the experts come
    }

    /// Activations on their way between the host and where a mixture computes. Where rows go through the host anyway,
    /// their way is in the price of each expert.
    double over(const processor& from, const processor& to, double size) const {
        return how_.shape.habits.experts_through_host ? 0 : prices_.move_activations(from, to, size);
    }
    double row_of(std::size_t i) const { return detail::width_in(graph_, graph_.nodes[i]) * activation_bytes; }

    /// The host brings experts, so it must know which were chosen: numbers and weights come over, and with them the
    /// rows where it computes some.
    void choice_comes(std::size_t i, const processor& home, bool with_rows) {
        const std::size_t source = prices_.flow(i).source;
        if (&home == &prices_.host() || (source != none && seats_[source] == &prices_.host())) return;
        const double chosen = prices_.pairs(i) * 2 * activation_bytes;
        now_ += over(home, prices_.host(), chosen + (with_rows ? prices_.rows(i) * row_of(i) : 0));
    }

    /// The host computes some experts meanwhile. Their results go to where the others are, or all are combined on the
    /// host and go back. `end` is when the others are done.
    double share_with_host(std::size_t i, const placed_tensor& p, const processor& home, double kept, double pairs_kept,
                           double end) {
        const processor& host = prices_.host();
        double done = compute_experts(i, host, p.where, kept, pairs_kept);
        if (p.where.tier == tier_of<mapped> && cold_ > 0)
            done = std::max(done, read_cold(prices_.expert_work(i, kept, pairs_kept).weights));
        if (how_.shape.habits.mixture_overlaps) return std::max(end, done + over(host, home, pairs_kept * row_of(i)));
        end += over(home, host, (prices_.pairs(i) - pairs_kept) * row_of(i));
        return std::max(end, done) + over(host, home, prices_.rows(i) * row_of(i));
    }

    /// Of the missing experts, those that the host computes. Sharing makes both sides end together, where the host has
    /// what the link leaves of its memory's bandwidth; or one does all, where that is sooner.
    double on_host(std::size_t i, const placed_tensor& p, const processor& home, double missing,
                   const queued_copies& copies, double pairs) const {
        const bool readable = p.where.tier.reached_by == reach::host && p.where.tier != tier_of<direct>;
        if (misses_ == on_miss::fetch || !readable || &home == &prices_.host() || !(missing > 0)) return 0;
        if (misses_ == on_miss::compute) return missing;
        const engine_habits& habits = how_.shape.habits;
        const auto fetch = [&](double n) {
            double longest = 0;
            for (const hop& h : copies.way(n)) longest = std::max(longest, h.time);
            return longest;
        };
        const double pairs_each = pairs / prices_.use(i, 0).touched;
        const double host = prices_.experts_on(i, prices_.host(), p.where, 1, pairs_each);
        const run one = prices_.expert_work(i, 1, pairs_each);
        const location reads = prices_.read_from(prices_.host(), p.where);
        const double read = to_double((one.weights + one.other).count);
        const double slowed = host > 0 ? time_.speed_beside(reads, read / host, copies.one(), copies.each()) : 1;
        const auto host_end = [&](double kept) {
            const double meanwhile = fetch(missing - kept);
            const double done = meanwhile * slowed;
            const double way = habits.mixture_overlaps ? over(prices_.host(), home, kept * pairs_each * row_of(i)) : 0;
            return way + (kept * host <= done ? kept * host / slowed : meanwhile + kept * host - done);
        };
        double low = 0, high = missing;
        for (int half = 0; half < 40; ++half) {
            const double kept = (low + high) / 2;
            (host_end(kept) < fetch(missing - kept) ? low : high) = kept;
        }
        const double both = std::max(host_end(high), fetch(missing - high));
        if (missing * host < both && missing * host <= fetch(missing)) return missing;
        return fetch(missing) < both ? 0 : high;
    }

    /// What mapped weights exceed the RAM that is left for them by comes from the disk in each pass, announced ahead.
    double read_cold(bytes size) {
        const bytes cold = to_bytes(to_double(size.count) * cold_);
        const std::vector<hop> way = stream_.way({tier_of<direct>, 0, 0}, how_.host, cold);
        return time_.transfer(now_, cold, way);
    }
    void share_out(const graph_node& node, double time) {
        double all = 0;
        for (const std::size_t t : node.tensors) all += to_double(graph_.tensors[t].slice_size.count);
        for (const std::size_t t : node.tensors)
            result_.tensors[t] += seconds{all > 0 ? time * to_double(graph_.tensors[t].slice_size.count) / all : 0};
    }

    const graph& graph_;
    const placement& placed_;
    const machine& machine_;
    const estimate_options& how_;
    pricing<Cost> prices_;
    timeline time_;
    weight_stream<Cost> stream_;
    std::vector<const processor*> seats_;
    const processor* residual_ = &prices_.host();
    std::vector<double> busy_;
    on_miss misses_;
    prediction result_{};
    double now_ = 0;
    double queued_ = 0; // when the host has queued the last kernel
    double idle_ = 0;   // of an accelerator, while a mixture's experts came, for what is computed beside them
    double cold_ = 0;
};

} // namespace detail

/// Walks the calls of a graph in their order, for `how.shape.tokens` tokens at once, and adds up what a cost model
/// says:
///
/// - a call computes where its weights are; when its operands were made elsewhere, they come over first, each with
///   latency and sync, and the call waits for them;
/// - streamed weights come ahead as the scheduler brings them: in the order of their uses, as many uses ahead as the
///   tensor's transfer wants, while the pool has room, one transfer at a time over a link; what is not there yet is
///   waited for. The time is that of a pass in the steady state;
/// - of experts as many distinct ones count as the tokens are expected to use (activity.hpp); of cached ones as many
/// are
///   there as the pool holds, by popularity, and the others are fetched, computed on the host, or shared;
/// - transfers take from the bandwidth of the memories they touch what computations then lack;
/// - mapped weights that RAM cannot hold are read from the disk again in each pass.
///
/// Throws config_error for a placement of another graph, and what the cost model throws.
///
///     auto p = tern::estimate(graph, plan, machine, tern::roofline(machine), {.shape = {.tokens = 512}});
template <cost_model Cost>
prediction estimate(const graph& g, const placement& p, const machine& m, const Cost& cost,
                    const estimate_options& how = {}) {
    return detail::estimator<Cost>(g, p, m, cost, how).predict();
}

/// What is asked of a model, for `speed_of`.
struct workload {
    std::size_t prompt = 512;
    std::size_t chunk = 512; ///< tokens of the prompt in one call
    std::size_t generated = 128;
};

/// Tokens a second, and the predictions they come from.
struct speed {
    double prefill = 0;
    double decode = 0;
    prediction chunk{}; ///< the prompt's last one
    prediction token{}; ///< in the middle of what is generated
};

/// Prefill over all chunks of a prompt, decode at the middle of what is generated. `how.shape.tokens` and `context` are
/// set for each call.
///
///     auto s = tern::speed_of(graph, plan, machine, cost, how, {.prompt = 2048, .generated = 128});
template <cost_model Cost>
speed speed_of(const graph& g, const placement& p, const machine& m, const Cost& cost, estimate_options how,
               const workload& w) {
    if (w.chunk == 0 || w.prompt == 0) throw config_error("a prompt and its chunks need at least one token");
    speed s;
    double prefill = 0;
    for (std::size_t at = 0; at < w.prompt; at += w.chunk) {
        how.shape.context = at;
        how.shape.tokens = std::min(w.chunk, w.prompt - at);
        s.chunk = estimate(g, p, m, cost, how);
        prefill += s.chunk.total.count;
    }
    how.shape.context = w.prompt + w.generated / 2;
    how.shape.tokens = 1;
    s.token = estimate(g, p, m, cost, how);
    s.prefill = prefill > 0 ? static_cast<double>(w.prompt) / prefill : 0;
    s.decode = s.token.total.count > 0 ? 1 / s.token.total.count : 0;
    return s;
}

} // namespace tern
