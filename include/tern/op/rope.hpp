// rope: rotary position embedding of queries and keys, from a table of angles that a batch needs once.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tern/kernel/rope.hpp>
#include <tern/kernel/rope_frequencies.hpp>
#include <tern/op/elementwise.hpp>

namespace tern {

/// cos and sin for the positions of a batch: [2 * tokens, pairs], first all cosines, then all sines.
struct rope_table {
    activation angles{};
    std::size_t tokens = 0;
    std::size_t pairs = 0;
    mutable activation copied{}; ///< what the last device that does not read `angles` was given, for its next layers
};

/// The table for positions and frequencies (see kernel/rope_scaling.hpp for the scalings), made on the host. Both must
/// live until this completes.
///
///     auto table = co_await tern::rope_angles(ctx, batch.positions, config.rope);
template <std::same_as<context> Context>
task<rope_table> rope_angles(Context& ctx, const std::vector<std::int32_t>& positions,
                             const kernel::rope_frequencies& frequencies) {
    const std::size_t tokens = positions.size();
    const std::size_t pairs = frequencies.inv_freq.size();
    rope_table table{ctx.make(ctx.host(), 2 * tokens, pairs), tokens, pairs, {}};
    if (detail::recorded(ctx, "rope_angles", tokens, pairs)) co_return table;
    float* const cos = table.angles.data();
    co_await ctx.template launch<kernel::rope_angles>(ctx.host(),
                                                      {.positions = positions.data(),
                                                       .tokens = tokens,
                                                       .inv_freq = frequencies.inv_freq.data(),
                                                       .pairs = pairs,
                                                       .magnitude = static_cast<float>(frequencies.magnitude),
                                                       .cos = cos,
                                                       .sin = cos + tokens * pairs});
    co_return table;
}

/// x [tokens, heads * head_dim], rotated in place. The pairing of the dimensions is always stated: the wrong one gives
/// fluent nonsense.
///
///     q = co_await tern::rope(ctx, std::move(q), table, head_dim, tern::kernel::rope_pairing::half_split);
template <std::same_as<context> Context>
task<activation> rope(Context& ctx, activation x, const rope_table& table, std::size_t head_dim,
                      kernel::stated_pairing pairing) {
    if (head_dim == 0 || x.cols() % head_dim != 0 || 2 * table.pairs > head_dim || table.tokens != x.rows())
        throw shape_error("rope got [" + std::to_string(x.rows()) + ", " + std::to_string(x.cols()) +
                          "] with heads of " + std::to_string(head_dim) + " and a table of " +
                          std::to_string(table.tokens) + " tokens and " + std::to_string(table.pairs) + " pairs");
    if (detail::recorded(ctx, "rope", x.rows(), x.cols())) co_return x;
    device& on = *x.on();
    const float* cos = table.angles.data();
    if (!on.reads(table.angles.on()->memory().where())) {
        if (table.copied.on() != &on) {
            operand there = co_await ctx.reach(table.angles, on);
            table.copied = std::move(there).keep();
        }
        cos = table.copied.data();
    }
    co_await ctx.template launch<kernel::rope>(on,
                                               {.x = x.data(),
                                                .x_stride = x.cols(),
                                                .tokens = x.rows(),
                                                .heads = x.cols() / head_dim,
                                                .head_dim = head_dim,
                                                .dims = 2 * table.pairs,
                                                .pairing = pairing,
                                                .cos = cos,
                                                .sin = cos + table.tokens * table.pairs,
                                                .y = x.data(),
                                                .y_stride = x.cols()},
                                               detail::worthwhile_piece(head_dim * 8));
    co_return x;
}

} // namespace tern
