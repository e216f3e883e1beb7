// experts: a mixture of feed-forward networks. A router chooses a few experts for each token; tokens are grouped by
// expert, so that each expert's weights are read once however many tokens want it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <tern/op/expert_parts.hpp>

namespace tern {

/// x [tokens, width] -> [tokens, width]: for each token the sum over its chosen experts, in the order of the router's
/// ranking, of weight * down(act(gate x) * up x), plus the shared expert; biases are added where there are some. An
/// expert is leased and computed where the plan has it, or on the host where it is missing there and the context's miss
/// policy says so; one that no token chose is not touched.
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
        if (w.router_bias) into->uses(w.router_bias);
        into->call("experts", x.rows(), width, how.used);
        w.each_part([&](const Weight& part) { into->uses(part); });
        // Alive at once: the gathered rows, their results, and gate and up of one expert that every token chose.
        const activation in = ctx.make(ctx.host(), pairs, width);
        const activation out = ctx.make(ctx.host(), pairs, width);
        const activation hidden = ctx.make(ctx.host(), 2 * x.rows(), w.gate.rows());
        for (const Weight* t : {&w.gate_bias, &w.down_bias}) // one after another, too
            if (*t) static_cast<void>(ctx.make(ctx.host(), 1, t->cols()));
        for (const Weight* t : {&w.gate, &w.up, &w.down})
            static_cast<void>(detail::room_q8(ctx, ctx.host(), *t, x.rows())); // one after another
        if (w.shared_gate) static_cast<void>(co_await detail::shared_expert(ctx, x, w, how.act));
        co_return ctx.make(ctx.host(), x.rows(), width);
    }
    const detail::routing r = co_await detail::route(ctx, x, w, how);
    const detail::expert_groups groups = detail::share_out(ctx, w, r);
    activation y;
    if (groups.size == 1) {
        const detail::expert_group only = groups.all[0];
        const detail::expert_rows rows = co_await detail::run_experts(ctx, w, r, x, how.act, only, 1);
        y = co_await detail::combined(ctx, *only.on, r, rows.lists.data(), rows.out);
    } else {
        const activation out = ctx.make(ctx.host(), r.pairs(), width);
        co_await when_all(detail::run_groups(ctx, w, r, x, out, how.act, groups, false),
                          detail::run_groups(ctx, w, r, x, out, how.act, groups, true));
        y = co_await detail::combined(ctx, ctx.host(), r, r.room.data(), out);
    }
    if (w.shared_gate) {
        const activation shared = co_await detail::shared_expert(ctx, x, w, how.act);
        y = co_await add(ctx, std::move(y), shared);
    }
    co_return y;
}

} // namespace tern
