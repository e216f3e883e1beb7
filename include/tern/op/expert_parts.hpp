// The parts of the experts operator: routing, who computes which expert, one expert, the shared expert.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include <tern/async/when_all.hpp>
#include <tern/kernel/router.hpp>
#include <tern/op/elementwise.hpp>
#include <tern/op/feed_forward.hpp>
#include <tern/op/linear.hpp>

namespace tern {

/// How tokens choose experts, and what an expert computes.
struct expert_options {
    std::size_t used = 0; ///< experts for each token
    kernel::router_softmax softmax = kernel::router_softmax::before_top_k;
    bool normalise = true; ///< divide the chosen weights by their sum
    float scale = 1;       ///< multiplies the chosen weights
    kernel::activation_kind act = kernel::activation_kind::silu;
};

/// The weights of a mixture. Shapes: router [experts, width], gate and up [experts, hidden, width],
/// down [experts, width, hidden]; the shared expert's, where there is one, without the experts' dimension, and its own
/// gate [1, width] (a sigmoid), which may be empty for none. Biases may be empty, those of the experts all three
/// together: of the router [1, experts], of gate and up [experts, 1, hidden], of down [experts, 1, width].
template <weight_tensor Weight> struct expert_weights {
    Weight router{};
    Weight gate{};
    Weight up{};
    Weight down{};
    Weight router_bias{};
    Weight gate_bias{};
    Weight up_bias{};
    Weight down_bias{};
    Weight shared_gate{};
    Weight shared_up{};
    Weight shared_down{};
    Weight shared_router{};

    /// Calls fn for each tensor whose slices are the experts'.
    template <class Fn> void each_part(Fn fn) const {
        for (const Weight* part : {&gate, &up, &down, &gate_bias, &up_bias, &down_bias})
            if (*part) fn(*part);
    }
    /// Bytes of one expert.
    bytes each() const {
        bytes sum{};
        each_part([&](const Weight& part) { sum += part.slice_bytes(); });
        return sum;
    }
};

namespace detail {

/// What the router decided for a batch: for each token `used` experts and weights, and the pairs (token, rank) sorted
/// by expert. It lies in one activation on the host, or in a copy of that on another device; sizes in floats and int32
/// are the same.
struct routing {
    activation room{};
    std::size_t tokens = 0;
    std::size_t used = 0;
    std::size_t experts = 0;

    static std::size_t floats(std::size_t tokens, std::size_t used, std::size_t experts) {
        return 4 * tokens * used + 2 * experts + 1;
    }
    std::size_t pairs() const noexcept { return tokens * used; }

    /// The lists, in the room or in a copy at `base`.
    const float* weights(const float* base) const noexcept { return base; }
    const std::int32_t* order(const float* base) const noexcept { return list(base) + pairs(); }
    const std::int32_t* row_of(const float* base) const noexcept { return list(base) + 2 * pairs(); }

    std::int32_t* ids() const noexcept { return list(room.data()); }
    std::int32_t* offsets() const noexcept { return ids() + 3 * pairs(); }
    /// For each expert the number of its group, from 1; negative once it is computed, 0 where no token chose it.
    std::int32_t* turns() const noexcept { return offsets() + experts + 1; }

    std::size_t first_of(std::size_t e) const noexcept { return static_cast<std::size_t>(offsets()[e]); }
    std::size_t rows_of(std::size_t e) const noexcept { return first_of(e + 1) - first_of(e); }

private:
    const std::int32_t* list(const float* base) const noexcept {
        return reinterpret_cast<const std::int32_t*>(base) + pairs();
    }
    std::int32_t* list(float* base) const noexcept { return reinterpret_cast<std::int32_t*>(base) + pairs(); }
};

/// The experts that one device computes, as it was decided when the router had chosen: a placement may change
/// meanwhile.
struct expert_group {
    device* on = nullptr;
    bool missed = false; ///< the host computes them because they are missing on their own device
};
struct expert_groups {
    static constexpr std::size_t most = 16;

    std::array<expert_group, most> all{};
    std::size_t size = 0;

    /// The number of a group, from 1.
    std::int32_t number(device& on, bool missed) {
        std::size_t i = 0;
        while (i < size && (all[i].on != &on || all[i].missed != missed)) ++i;
        if (i == most) throw unsupported_error("experts of one layer are computed on at most 15 devices");
        if (i == size) all[size++] = {&on, missed};
        return static_cast<std::int32_t>(i + 1);
    }
};

/// The gathered rows of the pairs and the experts' results for them, on one device.
struct expert_rows {
    operand lists;
    activation out;
};

template <weight_tensor Weight>
void check_experts(const activation& x, const expert_weights<Weight>& w, const expert_options& how) {
    check_width("experts", x, w.router.cols(), w.router.name());
    const std::size_t count = w.router.rows();
    const auto same = [&](const Weight& t, std::size_t rows, std::size_t cols) {
        const tensor_shape wanted{rows, cols, count};
        if (t.shape() != wanted)
            throw shape_error("has shape " + to_string(t.shape()) + ", experts need " + to_string(wanted),
                              {.tensor = t.name()});
    };
    same(w.gate, w.gate.rows(), x.cols());
    same(w.up, w.gate.rows(), x.cols());
    same(w.down, x.cols(), w.gate.rows());
    if (w.gate_bias || w.up_bias || w.down_bias) {
        for (const Weight* t : {&w.gate_bias, &w.up_bias}) same(*t, 1, w.gate.rows());
        same(w.down_bias, 1, x.cols());
    }
    if (how.used == 0 || how.used > count)
        throw shape_error("a router of " + std::to_string(count) + " experts cannot choose " + std::to_string(how.used),
                          {.tensor = w.router.name()});
}

/// Router logits -> choice -> grouping, on the host.
template <weight_tensor Weight>
task<routing> route(context& ctx, const activation& x, const expert_weights<Weight>& w, const expert_options& how) {
    device& host = ctx.host();
    const activation logits = co_await ctx.bring(co_await linear(ctx, x, w.router, w.router_bias), host);
    const std::size_t tokens = x.rows();
    const std::size_t experts = w.router.rows();
    routing r{ctx.make(host, 1, routing::floats(tokens, how.used, experts)), tokens, how.used, experts};
    co_await ctx.launch<kernel::route>(host, {.logits = logits.data(),
                                              .logits_stride = experts,
                                              .tokens = tokens,
                                              .experts = experts,
                                              .k = how.used,
                                              .softmax = how.softmax,
                                              .normalise = how.normalise,
                                              .scale = how.scale,
                                              .ids = r.ids(),
                                              .weights = r.room.data()});
    co_await ctx.launch<kernel::group_by_expert>(host, {.ids = r.ids(),
                                                        .pairs = r.pairs(),
                                                        .experts = experts,
                                                        .offsets = r.offsets(),
                                                        .order = r.ids() + r.pairs(),
                                                        .row_of = r.ids() + 2 * r.pairs()});
    co_return r;
}

/// The product with one expert's matrix; its bias may be empty.
template <weight_tensor Weight>
task<void> multiply_expert(context& ctx, device& on, const Weight& w, const Weight& bias, std::size_t expert,
                           const float* x, std::size_t tokens, float* y) {
    if (!bias) {
        co_await multiply(ctx, on, w, expert, x, tokens, y);
        co_return;
    }
    const activation row = co_await decode_row(ctx, on, bias, expert);
    co_await multiply(ctx, on, w, expert, x, tokens, y, row.data());
}

/// One expert over its rows of `in` [rows, width], into the same rows of `out`, all in memory that `on` reads.
template <weight_tensor Weight>
task<void> one_expert(context& ctx, device& on, const expert_weights<Weight>& w, std::size_t expert, const float* in,
                      std::size_t rows, float* out, kernel::activation_kind act) {
    activation gate = ctx.make(on, rows, w.gate.rows());
    const activation up = ctx.make(on, rows, w.gate.rows());
    co_await multiply_expert(ctx, on, w.gate, w.gate_bias, expert, in, rows, gate.data());
    co_await multiply_expert(ctx, on, w.up, w.up_bias, expert, in, rows, up.data());
    gate = co_await gated(ctx, std::move(gate), up, act);
    co_await multiply_expert(ctx, on, w.down, w.down_bias, expert, gate.data(), rows, out);
}

template <weight_tensor Weight> bool all_readable(const expert_weights<Weight>& w, device& on, std::size_t expert) {
    bool all = true;
    w.each_part([&](const Weight& part) { all = all && part.readable(on, expert); });
    return all;
}

/// Of the missing experts that the host could compute, how many are fetched; those that are not are given to the host.
template <weight_tensor Weight>
void share_misses(context& ctx, const expert_weights<Weight>& w, const routing& r, std::size_t missing, device& to) {
    constexpr std::int32_t undecided = std::numeric_limits<std::int32_t>::max();
    std::size_t fetched = ctx.misses().fetched(missing, w.gate.bandwidth_to(to));
    for (std::size_t e = 0; e < r.experts; ++e) {
        if (r.turns()[e] != undecided) continue;
        r.turns()[e] = fetched != 0 ? 1 : 2;
        fetched -= fetched != 0 ? 1 : 0;
    }
}

/// Gives each chosen expert to its own device or to the host, and lets those that are to be brought begin to come, over
/// a link runs of neighbours together: the choice is known to the transfers before anything is computed.
template <weight_tensor Weight>
expert_groups share_out(context& ctx, const expert_weights<Weight>& w, const routing& r) {
    constexpr std::int32_t undecided = std::numeric_limits<std::int32_t>::max();
    std::size_t missing = 0;
    device* to = nullptr;
    expert_counters& counted = ctx.expert_use();
    const bytes each = w.each();
    for (std::size_t e = 0; e < r.experts; ++e) {
        r.turns()[e] = r.rows_of(e) != 0 ? 1 : 0;
        if (r.turns()[e] == 0) continue;
        ++counted.chosen;
        counted.active += each;
        device& on = w.gate.computes_on(ctx.host(), e);
        if (&on == &ctx.host() || all_readable(w, on, e) || !all_readable(w, ctx.host(), e)) continue;
        r.turns()[e] = undecided;
        to = missing++ == 0 ? &on : to;
    }
    if (missing != 0) share_misses(ctx, w, r, missing, *to);
    expert_groups groups;
    for (std::size_t e = 0; e < r.experts; ++e) {
        if (r.turns()[e] == 0) continue;
        const bool missed = r.turns()[e] == 2;
        counted.on_host += missed ? 1 : 0;
        r.turns()[e] = groups.number(missed ? ctx.host() : w.gate.computes_on(ctx.host(), e), missed);
    }
    for (std::size_t e = 0; e < r.experts; ++e) {
        const std::int32_t group = r.turns()[e];
        if (group == 0 || groups.all[static_cast<std::size_t>(group - 1)].missed) continue;
        std::size_t end = e + 1;
        while (end < r.experts && r.turns()[end] == group) ++end;
        device& on = *groups.all[static_cast<std::size_t>(group - 1)].on;
        w.each_part([&](const Weight& part) { part.expect(on, e, end - e); });
        e = end - 1;
    }
    return groups;
}

/// Rows [begin, end) of an activation on `on` into the same rows of one on the host.
template <std::same_as<context> Context>
task<void> rows_home(Context& ctx, device& on, const activation& from, const activation& to, std::size_t begin,
                     std::size_t end) {
    const bytes size{(end - begin) * from.cols() * sizeof(float)};
    if (on.reads(ctx.host().memory().where()))
        std::memcpy(to.row(begin), from.row(begin), size.count);
    else
        co_await copy(on, ctx.home(), direction::to_host, reinterpret_cast<std::byte*>(to.row(begin)),
                      reinterpret_cast<const std::byte*>(from.row(begin)), size, lane::activations);
}

/// Computes a group of experts: those that are there first, while the others come. `x` [tokens, width] is brought to
/// their device once.
template <weight_tensor Weight>
task<expert_rows> run_experts(context& ctx, const expert_weights<Weight>& w, const routing& r, const activation& x,
                              kernel::activation_kind act, expert_group group, std::int32_t number) {
    device& on = *group.on;
    const std::size_t width = x.cols();
    const operand tokens = co_await ctx.reach(x, on);
    operand lists = co_await ctx.reach(r.room, on);
    const activation in = ctx.make(on, r.pairs(), width);
    activation out = ctx.make(on, r.pairs(), width);
    co_await ctx.launch<kernel::gather_rows>(on, {.x = tokens.data(),
                                                  .x_stride = width,
                                                  .cols = width,
                                                  .index = r.order(lists.data()),
                                                  .divisor = r.used,
                                                  .rows = r.pairs(),
                                                  .y = in.data(),
                                                  .y_stride = width});
    const bytes each = w.each();
    for (const bool wait : {false, true})
        for (std::size_t e = 0; e < r.experts; ++e) {
            if (r.turns()[e] != number || (!wait && !all_readable(w, on, e))) continue;
            r.turns()[e] = -number;
            const seconds begin = ctx.now();
            co_await one_expert(ctx, on, w, e, in.row(r.first_of(e)), r.rows_of(e), out.row(r.first_of(e)), act);
            if (group.missed && ctx.measures()) ctx.misses().computed(each, ctx.now() - begin);
        }
    co_return expert_rows{std::move(lists), std::move(out)};
}

/// For each token the sum over its experts' rows of `out`, in the order of the router's ranking, all on `on`.
template <std::same_as<context> Context>
task<activation> combined(Context& ctx, device& on, const routing& r, const float* lists, const activation& out) {
    activation y = ctx.make(on, r.tokens, out.cols());
    co_await ctx.template launch<kernel::combine>(on, {.y = out.data(),
                                                       .y_stride = out.cols(),
                                                       .tokens = r.tokens,
                                                       .k = r.used,
                                                       .cols = out.cols(),
                                                       .row_of = r.row_of(lists),
                                                       .weights = r.weights(lists),
                                                       .out = y.data(),
                                                       .out_stride = y.cols()});
    co_return y;
}

/// The groups one after the other, those of missed experts or the others, with the results in `out` on the host.
template <weight_tensor Weight>
task<void> run_groups(context& ctx, const expert_weights<Weight>& w, const routing& r, const activation& x,
                      const activation& out, kernel::activation_kind act, const expert_groups& groups, bool missed) {
    for (std::size_t g = 0; g < groups.size; ++g) {
        if (groups.all[g].missed != missed) continue;
        const auto number = static_cast<std::int32_t>(g + 1);
        const expert_rows rows = co_await run_experts(ctx, w, r, x, act, groups.all[g], number);
        for (std::size_t e = 0; e < r.experts; ++e) {
            if (r.turns()[e] != -number) continue;
            std::size_t end = e + 1; // neighbours come home together; those that no token chose have no rows
            while (end < r.experts && (r.turns()[end] == -number || r.rows_of(end) == 0)) ++end;
            co_await rows_home(ctx, *groups.all[g].on, rows.out, out, r.first_of(e), r.first_of(end));
            e = end - 1;
        }
    }
}

/// The expert that every token uses, weighed by its own gate where it has one.
template <weight_tensor Weight>
task<activation> shared_expert(context& ctx, const activation& x, const expert_weights<Weight>& w,
                               kernel::activation_kind act) {
    const activation hidden = co_await gated_linear(ctx, x, w.shared_gate, w.shared_up, act);
    activation y = co_await linear(ctx, hidden, w.shared_down);
    if (!w.shared_router) co_return y;
    activation share = co_await linear(ctx, x, w.shared_router);
    if (ctx.recording() != nullptr) co_return y;
    share = co_await ctx.bring(std::move(share), ctx.host());
    y = co_await ctx.bring(std::move(y), ctx.host());
    // A router over one expert with the sigmoid gate is sigmoid(logit) for each token.
    activation chosen = ctx.make(ctx.host(), x.rows(), 2);
    float* const weights = chosen.data();
    co_await ctx.launch<kernel::route>(ctx.host(), {.logits = share.data(),
                                                    .logits_stride = 1,
                                                    .tokens = x.rows(),
                                                    .experts = 1,
                                                    .k = 1,
                                                    .softmax = kernel::router_softmax::before_top_k,
                                                    .normalise = false,
                                                    .scale = 1,
                                                    .ids = reinterpret_cast<std::int32_t*>(weights + x.rows()),
                                                    .weights = weights,
                                                    .gate = kernel::router_gate::sigmoid});
    co_await ctx.launch<kernel::scale_rows>(ctx.host(), {.x = y.data(),
                                                         .x_stride = y.cols(),
                                                         .rows = y.rows(),
                                                         .cols = y.cols(),
                                                         .factors = weights,
                                                         .y = y.data(),
                                                         .y_stride = y.cols()});
    co_return y;
}

} // namespace detail

} // namespace tern
