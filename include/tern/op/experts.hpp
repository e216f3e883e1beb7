// experts: a mixture of feed-forward networks. A router chooses a few experts for each token; tokens are grouped by
// expert, so that each expert's weights are read once however many tokens want it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

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
        return 4 * tokens * used + experts + 1;
    }
    std::size_t pairs() const noexcept { return tokens * used; }
    float* weights() const noexcept { return room.data(); }
    std::int32_t* ids() const noexcept { return reinterpret_cast<std::int32_t*>(room.data()) + pairs(); }
    std::int32_t* order() const noexcept { return ids() + pairs(); }
    std::int32_t* row_of() const noexcept { return order() + pairs(); }
    std::int32_t* offsets() const noexcept { return row_of() + pairs(); }
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
/// run where the plan has the expert's gate.
template <weight_tensor Weight>
task<void> one_expert(context& ctx, const expert_weights<Weight>& w, std::size_t expert, const float* in,
                      std::size_t rows, float* out, kernel::activation_kind act) {
    device& host = ctx.host();
    device& on = w.gate.computes_on(host, expert);
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

/// x [tokens, width] -> [tokens, width]: for each token the sum over its chosen experts, in the order of the router's
/// ranking, of weight * down(act(gate x) * up x), plus the shared expert. An expert is leased and computed where the
/// plan has it; one that no token chose is not touched.
///
///     auto y = co_await tern::experts(ctx, h, layer.experts, {.used = 2});
template <weight_tensor Weight>
task<activation> experts(context& ctx, const activation& x, const expert_weights<Weight>& w, expert_options how) {
    detail::check_experts(x, w, how);
    const std::size_t width = x.cols();
    if (recorder* into = ctx.recording()) {
        const std::size_t pairs = x.rows() * how.used;
        into->call("route", x.rows(), w.router.rows());
        into->uses(w.router);
        into->call("experts", x.rows(), width, how.used);
        for (const Weight* t : {&w.gate, &w.up, &w.down}) into->uses(*t);
        // Alive at once: the gathered rows, their results, and gate and up of one expert that every token chose.
        const activation in = ctx.make(ctx.host(), pairs, width);
        const activation out = ctx.make(ctx.host(), pairs, width);
        const activation hidden = ctx.make(ctx.host(), 2 * x.rows(), w.gate.rows());
        if (w.shared_gate) static_cast<void>(co_await detail::shared_expert(ctx, x, w, how.act));
        co_return ctx.make(ctx.host(), x.rows(), width);
    }
    device& host = ctx.host();
    const detail::routing r = co_await detail::route(ctx, x, w, how);
    const operand tokens = co_await ctx.reach(x, host);
    const activation in = ctx.make(host, r.pairs(), width);
    const activation out = ctx.make(host, r.pairs(), width);
    co_await ctx.launch<kernel::gather_rows>(host, {.x = tokens.data(),
                                                    .x_stride = width,
                                                    .cols = width,
                                                    .index = r.order(),
                                                    .divisor = how.used,
                                                    .rows = r.pairs(),
                                                    .y = in.data(),
                                                    .y_stride = width});
    for (std::size_t e = 0; e < r.experts; ++e) {
        const auto first = static_cast<std::size_t>(r.offsets()[e]);
        const std::size_t rows = static_cast<std::size_t>(r.offsets()[e + 1]) - first;
        if (rows != 0) co_await detail::one_expert(ctx, w, e, in.row(first), rows, out.row(first), how.act);
    }
    activation y = ctx.make(host, x.rows(), width);
    co_await ctx.launch<kernel::combine>(host, {.y = out.data(),
                                                .y_stride = width,
                                                .tokens = x.rows(),
                                                .k = how.used,
                                                .cols = width,
                                                .row_of = r.row_of(),
                                                .weights = r.weights(),
                                                .out = y.data(),
                                                .out_stride = width});
    if (w.shared_gate) {
        const activation shared = co_await detail::shared_expert(ctx, x, w, how.act);
        y = co_await add(ctx, std::move(y), shared);
    }
    co_return y;
}

} // namespace tern
