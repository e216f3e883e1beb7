// sample: the next token from logits.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include <tern/op/context.hpp>

namespace tern {

/// Chooses a token from row `row` of logits [rows, vocabulary] with tern::sampler (op/sampler.hpp), or anything else
/// that takes logits, which it may change, and the recent tokens. `recent` holds the tokens so far, the newest last; it
/// must live until this completes. Completes on the host.
///
///     auto next = co_await tern::sample(ctx, logits, 0, sampler, history);
template <std::same_as<context> Context, class Choose>
    requires std::invocable<Choose&, std::span<float>, std::span<const std::int32_t>>
task<std::int32_t> sample(Context& ctx, const activation& logits, std::size_t row, Choose& choose,
                          std::span<const std::int32_t> recent = {}) {
    if (row >= logits.rows())
        throw shape_error("row " + std::to_string(row) + " was asked of " + std::to_string(logits.rows()) + " logits");
    const operand seen = co_await ctx.reach(logits, ctx.host());
    // A copy, because the penalty changes the logits that it looks at.
    activation scratch = ctx.make(ctx.host(), 1, logits.cols());
    std::memcpy(scratch.data(), seen.data() + row * logits.cols(), logits.cols() * sizeof(float));
    co_return choose(std::span<float>(scratch.data(), logits.cols()), recent);
}

} // namespace tern
