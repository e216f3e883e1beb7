// embed: the rows of an embedding table for the tokens of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tern/kernel/embed.hpp>
#include <tern/op/context.hpp>

namespace tern {

/// table [vocabulary, width] -> [tokens, width], times `scale`. Computed where the plan has the table; one that would
/// have to be brought as a whole is looked up in its mapping instead, if it has one. Ids are checked: shape_error names
/// the token that the vocabulary does not have.
///
///     auto x = co_await tern::embed(ctx, token_embd, batch.tokens);
template <weight_tensor Weight>
task<activation> embed(context& ctx, const Weight& table, const std::vector<std::int32_t>& tokens, float scale = 1) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
        if (tokens[i] < 0 || static_cast<std::size_t>(tokens[i]) >= table.rows())
            throw shape_error("token " + std::to_string(tokens[i]) + " at index " + std::to_string(i) +
                                  " is not in the vocabulary of " + std::to_string(table.rows()),
                              {.tensor = table.name()});
    if (recorder* into = ctx.recording()) {
        into->call("embed", tokens.size(), table.cols());
        into->uses(table);
        co_return ctx.make(ctx.host(), tokens.size(), table.cols());
    }
    const std::byte* const in_file = table.mapped_bytes();
    const bool from_file = in_file != nullptr && !table.readable(table.computes_on(ctx.host()));
    device& on = from_file ? ctx.host() : table.computes_on(ctx.host());
    lease held(in_file);
    if (!from_file) held = co_await table.lend(on);
    activation x = ctx.make(on, tokens.size(), table.cols());
    co_await ctx.launch<kernel::embed>(on, table,
                                       {.table = held.data(),
                                        .rows = table.rows(),
                                        .cols = table.cols(),
                                        .ids = tokens.data(),
                                        .tokens = tokens.size(),
                                        .scale = scale,
                                        .out = x.data(),
                                        .out_stride = x.cols()});
    co_return x;
}

} // namespace tern
