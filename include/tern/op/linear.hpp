// linear: x W^T + b.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <tern/kernel/embed.hpp>
#include <tern/kernel/linear.hpp>
#include <tern/kernel/linear_q8.hpp>
#include <tern/kernel/quantize_q8.hpp>
#include <tern/op/context.hpp>

namespace tern {

namespace detail {

inline void check_width(std::string_view op, const activation& x, std::size_t width, const std::string& tensor) {
    if (x.cols() != width)
        throw shape_error(std::string(op) + " got activations of width " + std::to_string(x.cols()) +
                              ", the weight takes " + std::to_string(width),
                          {.tensor = tensor});
}

/// Bytes of one row of a weight.
template <weight_tensor Weight> std::size_t bytes_of_row(const Weight& w) {
    return w.rows() == 0 ? 0 : static_cast<std::size_t>(w.slice_bytes().count / w.rows());
}

/// Rows that one worker takes at a time. With many tokens a kernel arranges the activations for each piece anew, so
/// pieces must not be small then.
constexpr std::size_t worthwhile_rows(std::size_t bytes_each, std::size_t tokens) {
    const std::size_t rows = worthwhile_piece(bytes_each * (tokens == 0 ? 1 : tokens));
    return tokens > 32 && rows < 64 ? 64 : rows;
}

using slot_q8 = kernel::kernel_slot<kernel::linear_q8>;

/// The kernels of a weight for activations in 8 bits; null where its format has no integer form.
template <weight_tensor Weight> const slot_q8* integer_kernels(const Weight& w) {
    return w.visit([]<format F>() -> const slot_q8* {
        if constexpr (kernel::has_integer_form<F>)
            return &kernel::slot<kernel::linear_q8, F>;
        else
            return nullptr;
    });
}

/// Room for `tokens` activations of 8 bits; empty where the policy or the weight takes none.
template <weight_tensor Weight> activation room_q8(context& ctx, device& on, const Weight& w, std::size_t tokens) {
    if (ctx.activations() != activation_policy::q8 || integer_kernels(w) == nullptr) return {};
    return ctx.make(on, tokens, kernel::q8_blocks(w.cols()) * (sizeof(kernel::q8_block) / sizeof(float)));
}

/// The product on a device that holds `x` and leases the weight: y[t, row] for the rows of one expert's matrix.
/// `bias` is f32 in memory that the device reads, or null.
template <weight_tensor Weight>
task<void> multiply(context& ctx, device& on, const Weight& w, std::size_t expert, const float* x, std::size_t tokens,
                    float* y, const float* bias = nullptr) {
    const lease held = co_await w.lend(on, expert);
    const activation room = room_q8(ctx, on, w, tokens);
    if (room.on() != nullptr) {
        auto* const codes = reinterpret_cast<kernel::q8_block*>(room.data());
        co_await ctx.launch<kernel::quantize_q8>(
            on, {.x = x, .x_stride = w.cols(), .cols = w.cols(), .tokens = tokens, .y = codes},
            worthwhile_piece(w.cols() * sizeof(float)));
        const kernel::linear_q8::args args{.weights = held.data(),
                                           .rows = w.rows(),
                                           .cols = w.cols(),
                                           .x = codes,
                                           .tokens = tokens,
                                           .y = y,
                                           .y_stride = w.rows(),
                                           .bias = bias};
        co_await ctx.launch_slot(on, *integer_kernels(w), &Weight::formats_type::infos[w.format_index()], args,
                                 worthwhile_rows(bytes_of_row(w), tokens));
        co_return;
    }
    co_await ctx.launch<kernel::linear>(on, w,
                                        {.weights = held.data(),
                                         .rows = w.rows(),
                                         .cols = w.cols(),
                                         .x = x,
                                         .x_stride = w.cols(),
                                         .tokens = tokens,
                                         .y = y,
                                         .y_stride = w.rows(),
                                         .bias = bias},
                                        worthwhile_rows(bytes_of_row(w), tokens));
}

/// A weight of one row, or that of one expert, decoded to f32 on a device.
template <weight_tensor Weight>
task<activation> decode_row(context& ctx, device& on, const Weight& w, std::size_t expert = 0) {
    static constexpr std::int32_t first = 0;
    const lease held = co_await w.lend(on, expert);
    activation row = ctx.make(on, 1, w.cols());
    co_await ctx.launch<kernel::embed>(on, w,
                                       {.table = held.data(),
                                        .rows = 1,
                                        .cols = w.cols(),
                                        .ids = &first,
                                        .tokens = 1,
                                        .scale = 1,
                                        .out = row.data(),
                                        .out_stride = w.cols()});
    co_return row;
}

} // namespace detail

/// x [tokens, cols], w [rows, cols] -> [tokens, rows]. Computed where the plan has w; x is brought there. Completes
/// when y is written. Throws shape_error where the widths differ, and what leasing w throws. x and w must live until
/// then.
///
///     auto q = co_await tern::linear(ctx, x, layer.q);
template <weight_tensor Weight> task<activation> linear(context& ctx, const activation& x, const Weight& w) {
    detail::check_width("linear", x, w.cols(), w.name());
    if (recorder* into = ctx.recording()) {
        into->call("linear", x.rows(), w.rows());
        into->uses(w);
        const activation room = detail::room_q8(ctx, ctx.host(), w, x.rows()); // alive beside the result
        co_return ctx.make(ctx.host(), x.rows(), w.rows());
    }
    device& on = w.computes_on(ctx.host());
    const operand in = co_await ctx.reach(x, on);
    activation y = ctx.make(on, x.rows(), w.rows());
    co_await detail::multiply(ctx, on, w, 0, in.data(), x.rows(), y.data());
    co_return y;
}

/// The same with a bias [1, rows] in any format; an empty bias is none.
template <weight_tensor Weight>
task<activation> linear(context& ctx, const activation& x, const Weight& w, const Weight& bias) {
    if (!bias) co_return co_await linear(ctx, x, w);
    detail::check_width("linear", x, w.cols(), w.name());
    if (bias.rows() != 1 || bias.cols() != w.rows())
        throw shape_error("a bias needs shape [1, " + std::to_string(w.rows()) + "], this one is " +
                              to_string(bias.shape()),
                          {.tensor = bias.name()});
    if (recorder* into = ctx.recording()) {
        into->call("linear", x.rows(), w.rows());
        into->uses(w);
        into->uses(bias);
        const activation room = detail::room_q8(ctx, ctx.host(), w, x.rows()); // alive beside the result
        co_return ctx.make(ctx.host(), x.rows(), w.rows());
    }
    device& on = w.computes_on(ctx.host());
    const operand in = co_await ctx.reach(x, on);
    const activation b = co_await detail::decode_row(ctx, on, bias);
    activation y = ctx.make(on, x.rows(), w.rows());
    co_await detail::multiply(ctx, on, w, 0, in.data(), x.rows(), y.data(), b.data());
    co_return y;
}

} // namespace tern
