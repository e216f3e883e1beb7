// generate: prefill a prompt, then token after token.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/model/decoder.hpp>
#include <tern/op/sample.hpp>

namespace tern {

/// How long, and in what pieces.
struct generate_options {
    std::size_t tokens = 64;        ///< to generate at most
    std::size_t prefill_batch = 64; ///< prompt tokens in one forward pass
    std::size_t sequence = 0;       ///< of the cache
};

/// Feeds `prompt` in passes of at most `prefill_batch` tokens after what the cache already holds; the logits are those
/// of its last token.
template <decoder_model D, kv_cache Cache>
task<activation> prefill(context& ctx, const D& model, Cache& cache, std::span<const std::int32_t> prompt,
                         std::size_t prefill_batch, std::size_t sequence = 0) {
    if (prompt.empty()) throw config_error("a prompt needs at least one token: add the beginning-of-text token");
    if (prefill_batch == 0) throw config_error("a prefill batch holds at least one token");
    batch b;
    for (std::size_t begin = 0; begin < prompt.size(); begin += prefill_batch) {
        const std::size_t left = prompt.size() - begin;
        const std::size_t size = left < prefill_batch ? left : prefill_batch;
        b.clear();
        b.add(prompt.subspan(begin, size), cache.length(sequence), sequence);
        if (size != left) b.outputs.clear();
        activation logits = co_await model.forward(ctx, b, cache);
        if (size == left) co_return logits;
    }
    co_return activation{};
}

/// Generates tokens until `on_token(id)` returns false or there are `options.tokens`. `on_token` is called with each
/// token as soon as it is chosen; its token is then part of the sequence, except the last one, which the cache has not
/// seen. `history` holds the prompt, is extended by the tokens, and is what the repetition penalty sees. When it
/// throws, the cache's sequence is as long as it was before the prompt or, once tokens come, before the failed pass.
///
/// The task keeps a copy of `on_token`, so that a temporary will do: what it counts it counts in variables that it
/// refers to (or give std::ref(on_token)). These and the other arguments must live until the task completes.
///
///     auto print = [&](std::int32_t id) { std::cout << id << ' '; return true; };
///     loop.run(tern::generate(ctx, *model, cache, history, sampler, {.tokens = 40}, print));
template <decoder_model D, kv_cache Cache, class Choose, class OnToken>
    requires std::predicate<OnToken&, std::int32_t>
task<void> generate(context& ctx, const D& model, Cache& cache, std::vector<std::int32_t>& history, Choose& choose,
                    generate_options options, OnToken on_token) {
    std::size_t known = cache.length(options.sequence);
    try {
        activation logits = co_await prefill(ctx, model, cache, std::span<const std::int32_t>(history),
                                             options.prefill_batch, options.sequence);
        batch b;
        for (std::size_t i = 0; i < options.tokens; ++i) {
            known = cache.length(options.sequence);
            const std::int32_t next = co_await sample(ctx, logits, 0, choose, history);
            history.push_back(next);
            if (!on_token(next) || i + 1 == options.tokens) co_return;
            b.clear();
            b.add(next, known, options.sequence);
            logits = co_await model.forward(ctx, b, cache);
        }
    } catch (...) {
        cache.truncate(options.sequence, known);
        throw;
    }
}

} // namespace tern
