// rms_norm: root mean square normalisation of each row, or of each head of each row.
#pragma once

#include <cstddef>
#include <string>

#include <tern/kernel/rms_norm.hpp>
#include <tern/op/linear.hpp>

namespace tern {

/// x [tokens, width], w [1, n] -> [tokens, width], where n divides width: each run of n numbers is normalised by
/// itself. With n = width that is the usual norm, with n = head_dim the norm of each head of a query or key.
///
///     auto h = co_await tern::rms_norm(ctx, x, layer.attn_norm, 1e-5f);
template <weight_tensor Weight>
task<activation> rms_norm(context& ctx, const activation& x, const Weight& w, float eps) {
    if (w.rows() != 1 || w.cols() == 0 || x.cols() % w.cols() != 0)
        throw shape_error("a norm of shape " + to_string(w.shape()) + " does not divide activations of width " +
                              std::to_string(x.cols()),
                          {.tensor = w.name()});
    if (recorder* into = ctx.recording()) {
        into->call("rms_norm", x.rows(), x.cols());
        into->uses(w);
        co_return ctx.make(ctx.host(), x.rows(), x.cols());
    }
    device& on = w.computes_on(ctx.host());
    const operand in = co_await ctx.reach(x, on);
    const lease held = co_await w.lend(on);
    activation y = ctx.make(on, x.rows(), x.cols());
    const std::size_t runs = x.rows() * (x.cols() / w.cols());
    co_await ctx.launch<kernel::rms_norm>(on, w,
                                          {.x = in.data(),
                                           .x_stride = w.cols(),
                                           .rows = runs,
                                           .cols = w.cols(),
                                           .weight = held.data(),
                                           .eps = eps,
                                           .y = y.data(),
                                           .y_stride = w.cols()},
                                          detail::worthwhile_piece(w.cols() * sizeof(float)));
    co_return y;
}

} // namespace tern
