// swiglu and geglu: the gated first half of a feed-forward layer.
#pragma once

#include <utility>

#include <tern/op/elementwise.hpp>
#include <tern/op/linear.hpp>

namespace tern {

/// act(x gate^T) * (x up^T): x [tokens, width], gate and up [hidden, width] -> [tokens, hidden]. The two weights are
/// one fusion group: a placement puts them together.
template <weight_tensor Weight>
task<activation> gated_linear(context& ctx, const activation& x, const Weight& gate, const Weight& up,
                              kernel::activation_kind act) {
    detail::check_width("gated_linear", x, gate.cols(), gate.name());
    if (gate.shape() != up.shape())
        throw shape_error("has shape " + to_string(up.shape()) + ", its gate " + to_string(gate.shape()),
                          {.tensor = up.name()});
    if (recorder* into = ctx.recording()) {
        into->call("gated_linear", x.rows(), gate.rows());
        into->uses(gate);
        into->uses(up);
        const activation second = ctx.make(ctx.host(), x.rows(), up.rows()); // alive beside the result
        const activation room = detail::room_q8(ctx, ctx.host(), up, x.rows());
        co_return ctx.make(ctx.host(), x.rows(), gate.rows());
    }
    activation g = co_await linear(ctx, x, gate);
    const activation u = co_await linear(ctx, x, up);
    co_return co_await gated(ctx, std::move(g), u, act);
}

/// silu(x gate^T) * (x up^T); Shazeer, "GLU Variants Improve Transformer", 2020.
///
///     auto h = co_await tern::swiglu(ctx, x, layer.gate, layer.up);
template <weight_tensor Weight>
task<activation> swiglu(context& ctx, const activation& x, const Weight& gate, const Weight& up) {
    return gated_linear(ctx, x, gate, up, kernel::activation_kind::silu);
}

/// gelu(x gate^T) * (x up^T), with the tanh form of gelu.
template <weight_tensor Weight>
task<activation> geglu(context& ctx, const activation& x, const Weight& gate, const Weight& up) {
    return gated_linear(ctx, x, gate, up, kernel::activation_kind::gelu_tanh);
}

} // namespace tern
