// Operators without weights: add, gated activations, soft cap, rows of an activation. Each is computed where its first
// operand lies.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tern/kernel/elementwise.hpp>
#include <tern/kernel/router.hpp>
#include <tern/op/context.hpp>

namespace tern {

namespace detail {

inline void check_same_shape(std::string_view op, const activation& a, const activation& b) {
    if (a.rows() != b.rows() || a.cols() != b.cols())
        throw shape_error(std::string(op) + " got [" + std::to_string(a.rows()) + ", " + std::to_string(a.cols()) +
                          "] and [" + std::to_string(b.rows()) + ", " + std::to_string(b.cols()) + "]");
}

/// Notes a call without weights while recording.
inline bool recorded(context& ctx, std::string_view op, std::size_t rows, std::size_t cols) {
    if (recorder* into = ctx.recording()) into->call(op, rows, cols);
    return ctx.recording() != nullptr;
}

} // namespace detail

/// a + b, both [tokens, width]; the result takes a's place. Computed where b lies, the newer one: so the sum of a
/// decoder's layers goes along with the layers from device to device.
///
///     x = co_await tern::add(ctx, std::move(x), attended);
template <std::same_as<context> Context> task<activation> add(Context& ctx, activation a, const activation& b) {
    detail::check_same_shape("add", a, b);
    if (detail::recorded(ctx, "add", a.rows(), a.cols())) co_return a;
    if (b.on() == nullptr) throw shape_error("an activation without data was used; pass one that was computed");
    device& on = *b.on();
    a = co_await ctx.bring(std::move(a), on);
    co_await ctx.template launch<kernel::add>(on,
                                              {.a = a.data(),
                                               .a_stride = a.cols(),
                                               .b = b.data(),
                                               .b_stride = a.cols(),
                                               .rows = a.rows(),
                                               .cols = a.cols(),
                                               .y = a.data(),
                                               .y_stride = a.cols()},
                                              detail::worthwhile_piece(a.cols() * sizeof(float)));
    co_return a;
}

/// act(gate) * up, both [tokens, width]; the result takes the gate's place.
template <std::same_as<context> Context>
task<activation> gated(Context& ctx, activation gate, const activation& up, kernel::activation_kind act) {
    detail::check_same_shape("gated", gate, up);
    if (detail::recorded(ctx, "gated", gate.rows(), gate.cols())) co_return gate;
    device& on = *gate.on();
    const operand other = co_await ctx.reach(up, on);
    co_await ctx.template launch<kernel::gated>(on,
                                                {.gate = gate.data(),
                                                 .gate_stride = gate.cols(),
                                                 .up = other.data(),
                                                 .up_stride = gate.cols(),
                                                 .rows = gate.rows(),
                                                 .cols = gate.cols(),
                                                 .activation = act,
                                                 .y = gate.data(),
                                                 .y_stride = gate.cols()},
                                                detail::worthwhile_piece(gate.cols() * 16));
    co_return gate;
}

/// cap * tanh(x / cap) in place; a cap of 0 leaves x as it is.
template <std::same_as<context> Context> task<activation> soft_cap(Context& ctx, activation x, float cap) {
    if (cap == 0 || detail::recorded(ctx, "soft_cap", x.rows(), x.cols())) co_return x;
    co_await ctx.template launch<kernel::soft_cap>(*x.on(), {.x = x.data(),
                                                             .x_stride = x.cols(),
                                                             .rows = x.rows(),
                                                             .cols = x.cols(),
                                                             .cap = cap,
                                                             .y = x.data(),
                                                             .y_stride = x.cols()});
    co_return x;
}

/// The rows of x that `rows` names: for the logits that a batch wants. `rows` must live until this completes.
template <std::same_as<context> Context>
task<activation> select_rows(Context& ctx, activation x, const std::vector<std::int32_t>& rows) {
    bool all = rows.size() == x.rows();
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i] < 0 || static_cast<std::size_t>(rows[i]) >= x.rows())
            throw shape_error("row " + std::to_string(rows[i]) + " was asked of " + std::to_string(x.rows()));
        all = all && static_cast<std::size_t>(rows[i]) == i;
    }
    if (all) co_return x;
    if (detail::recorded(ctx, "select_rows", rows.size(), x.cols()))
        co_return ctx.make(ctx.host(), rows.size(), x.cols());
    activation y = ctx.make(*x.on(), rows.size(), x.cols());
    co_await ctx.template launch<kernel::gather_rows>(*x.on(), {.x = x.data(),
                                                                .x_stride = x.cols(),
                                                                .cols = x.cols(),
                                                                .index = rows.data(),
                                                                .divisor = 1,
                                                                .rows = rows.size(),
                                                                .y = y.data(),
                                                                .y_stride = x.cols()});
    co_return y;
}

} // namespace tern
