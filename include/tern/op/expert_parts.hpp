// The parts of the experts operator: routing, who computes which expert, one expert, the shared expert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
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
/// gate [1, width] (a sigmoid), which may be empty for none.
template <weight_tensor Weight> struct expert_weights {
    Weight router{};
    Weight gate{};
    Weight up{};
    Weight down{};
    Weight shared_gate{};
    Weight shared_up{};
    Weight shared_down{};
    Weight shared_router{};
};

namespace detail {

/// What the router decided for a batch: for each token `used` experts and weights, and the pairs (token, rank) sorted
/// by expert. It lies in one activation on the host; sizes in floats and int32 are the same.
struct routing {
    activation room{};
    std::size_t tokens = 0;
    std::size_t used = 0;
    std::size_t experts = 0;

    static std::size_t floats(std::size_t tokens, std::size_t used, std::size_t experts) {
        return 4 * tokens * used + 2 * experts + 1;
    }
    std::size_t pairs() const noexcept { return tokens * used; }
    float* weights() const noexcept { return room.data(); }
    std::int32_t* ids() const noexcept { return reinterpret_cast<std::int32_t*>(room.data()) + pairs(); }
    std::int32_t* order() const noexcept { return ids() + pairs(); }
    std::int32_t* row_of() const noexcept { return order() + pairs(); }
    std::int32_t* offsets() const noexcept { return row_of() + pairs(); }
    /// For each expert, whether its turn on its own device (1) or on the host (2) is still to come.
    std::int32_t* turns() const noexcept { return offsets() + experts + 1; }

    /// Whether the host computes any in place of its device.
    bool shared() const noexcept {
        for (std::size_t e = 0; e < experts; ++e)
            if (turns()[e] == 2) return true;
        return false;
    }
    std::size_t first_of(std::size_t e) const noexcept { return static_cast<std::size_t>(offsets()[e]); }
    std::size_t rows_of(std::size_t e) const noexcept { return first_of(e + 1) - first_of(e); }
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
    if (how.used == 0 || how.used > count)
        throw shape_error("a router of " + std::to_string(count) + " experts cannot choose " + std::to_string(how.used),
                          {.tensor = w.router.name()});
}

/// Router logits -> choice -> grouping, on the host.
template <weight_tensor Weight>
task<routing> route(context& ctx, const activation& x, const expert_weights<Weight>& w, const expert_options& how) {
    device& host = ctx.host();
    const activation logits = co_await ctx.bring(co_await linear(ctx, x, w.router), host);
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
                                              .weights = r.weights()});
    co_await ctx.launch<kernel::group_by_expert>(host, {.ids = r.ids(),
                                                        .pairs = r.pairs(),
                                                        .experts = experts,
                                                        .offsets = r.offsets(),
                                                        .order = r.order(),
                                                        .row_of = r.row_of()});
    co_return r;
}

/// One expert over its rows of `in` [rows, width], into the same rows of `out`, both on the host. All three products
/// run on `on`.
template <weight_tensor Weight>
task<void> one_expert(context& ctx, device& on, const expert_weights<Weight>& w, std::size_t expert, const float* in,
                      std::size_t rows, float* out, kernel::activation_kind act) {
    device& host = ctx.host();
    const std::size_t width = w.gate.cols();
    const std::size_t hidden = w.gate.rows();
    const bool here = on.reads(host.memory().where());
    const bytes size{rows * width * sizeof(float)};
    activation x;
    if (!here) {
        x = ctx.make(on, rows, width);
        co_await copy(on, ctx.home(), direction::to_device, reinterpret_cast<std::byte*>(x.data()),
                      reinterpret_cast<const std::byte*>(in), size, lane::activations);
    }
    activation gate = ctx.make(on, rows, hidden);
    const activation up = ctx.make(on, rows, hidden);
    co_await multiply(ctx, on, w.gate, expert, here ? in : x.data(), rows, gate.data());
    co_await multiply(ctx, on, w.up, expert, here ? in : x.data(), rows, up.data());
    gate = co_await gated(ctx, std::move(gate), up, act);
    if (here) {
        co_await multiply(ctx, on, w.down, expert, gate.data(), rows, out);
        co_return;
    }
    co_await multiply(ctx, on, w.down, expert, gate.data(), rows, x.data());
    co_await copy(on, ctx.home(), direction::to_host, reinterpret_cast<std::byte*>(out),
                  reinterpret_cast<const std::byte*>(x.data()), size, lane::activations);
}

template <weight_tensor Weight> bool all_readable(const expert_weights<Weight>& w, device& on, std::size_t expert) {
    return w.gate.readable(on, expert) && w.up.readable(on, expert) && w.down.readable(on, expert);
}

/// Gives each chosen expert to its own device or to the host, and lets those that are to be brought begin to come, runs
/// of neighbours together: the choice is known to the transfers before anything is computed.
template <weight_tensor Weight> void share_out(context& ctx, const expert_weights<Weight>& w, const routing& r) {
    std::size_t missing = 0;
    expert_counters& counted = ctx.expert_use();
    const bytes each = w.gate.slice_bytes() + w.up.slice_bytes() + w.down.slice_bytes();
    const auto could_stay = [&](std::size_t e, device& on) {
        return &on != &ctx.host() && !all_readable(w, on, e) && all_readable(w, ctx.host(), e);
    };
    for (std::size_t e = 0; e < r.experts; ++e) {
        const bool chosen = r.rows_of(e) != 0;
        r.turns()[e] = chosen ? 1 : 0;
        counted.chosen += chosen ? 1 : 0;
        counted.active += chosen ? each : bytes{};
        if (chosen && could_stay(e, w.gate.computes_on(ctx.host(), e))) r.turns()[e] = 2, ++missing;
    }
    std::size_t fetched = 0;
    if (missing != 0) {
        for (std::size_t e = 0; e < r.experts; ++e)
            if (r.turns()[e] == 2) {
                fetched = ctx.misses().fetched(missing, w.gate.bandwidth_to(w.gate.computes_on(ctx.host(), e)));
                break;
            }
        for (std::size_t e = 0; e < r.experts && fetched != 0; ++e)
            if (r.turns()[e] == 2) r.turns()[e] = 1, --fetched;
        for (std::size_t e = 0; e < r.experts; ++e) counted.on_host += r.turns()[e] == 2 ? 1 : 0;
    }
    for (std::size_t e = 0; e < r.experts; ++e) {
        if (r.turns()[e] != 1) continue;
        device& on = w.gate.computes_on(ctx.host(), e);
        std::size_t end = e + 1;
        while (end < r.experts && r.turns()[end] == 1 && &w.gate.computes_on(ctx.host(), end) == &on) ++end;
        for (const Weight* part : {&w.gate, &w.up, &w.down}) part->expect(on, e, end - e);
        e = end - 1;
    }
}

/// The experts that the host computes in place of their own device.
template <weight_tensor Weight>
task<void> run_on_host(context& ctx, const expert_weights<Weight>& w, const routing& r, const activation& in,
                       const activation& out, kernel::activation_kind act) {
    const bytes each = w.gate.slice_bytes() + w.up.slice_bytes() + w.down.slice_bytes();
    for (std::size_t e = 0; e < r.experts; ++e) {
        if (r.turns()[e] != 2) continue;
        const seconds begin = ctx.now();
        co_await one_expert(ctx, ctx.host(), w, e, in.row(r.first_of(e)), r.rows_of(e), out.row(r.first_of(e)), act);
        if (ctx.measures()) ctx.misses().computed(each, ctx.now() - begin);
    }
}

/// The experts that their own devices compute: those that are there first, while the others come.
template <weight_tensor Weight>
task<void> run_at_home(context& ctx, const expert_weights<Weight>& w, const routing& r, const activation& in,
                       const activation& out, kernel::activation_kind act) {
    for (const bool wait : {false, true})
        for (std::size_t e = 0; e < r.experts; ++e) {
            if (r.turns()[e] != 1) continue;
            device& on = w.gate.computes_on(ctx.host(), e);
            if (!wait && !all_readable(w, on, e)) continue;
            r.turns()[e] = 0;
            co_await one_expert(ctx, on, w, e, in.row(r.first_of(e)), r.rows_of(e), out.row(r.first_of(e)), act);
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
