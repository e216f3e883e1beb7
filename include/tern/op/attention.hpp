// attention: keys and values go into the cache, then each query reads those of its own sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tern/kernel/attention.hpp>
#include <tern/op/elementwise.hpp>
#include <tern/op/kv_cache.hpp>

namespace tern {

/// What kind of attention a layer has. Sources: grouped queries, Ainslie and others, 2023; sinks, Xiao and others,
/// 2023; the soft cap, Gemma 2, 2024.
struct attention_options {
    std::size_t heads = 0;
    std::size_t kv_heads = 0; ///< divides heads
    std::size_t head_dim = 0;
    float scale = 0;                ///< of the scores; usually 1 / sqrt(head_dim)
    std::size_t window = 0;         ///< keys that a token sees, its own included; 0 for all
    float soft_cap = 0;             ///< of the scores; 0 for none
    std::span<const float> sinks{}; ///< one logit a head; empty for none
};

namespace detail {

/// Where attention of a layer is computed: where the cache keeps the layer, which is the host unless it says otherwise.
template <kv_cache Cache>
device& keeper_of([[maybe_unused]] const Cache& cache, [[maybe_unused]] std::size_t layer, device& host) {
    if constexpr (placed_cache<Cache>)
        if (device* const on = cache.computes_on(layer)) return *on;
    return host;
}

} // namespace detail

/// q [tokens, heads * head_dim], k and v [tokens, kv_heads * head_dim] -> [tokens, heads * head_dim]. The cache must
/// have room for the batch already (`reserve`). Prefill and decode are this same call.
///
///     auto a = co_await tern::attention(ctx, std::move(q), std::move(k), std::move(v), batch, cache, layer, options);
template <kv_cache Cache>
task<activation> attention(context& ctx, activation q, activation k, activation v, const batch& b, Cache& cache,
                           std::size_t layer, attention_options how) {
    if (how.kv_heads == 0 || how.heads % how.kv_heads != 0 || q.cols() != how.heads * how.head_dim ||
        k.cols() != how.kv_heads * how.head_dim || v.cols() != k.cols() || q.rows() != b.size() ||
        k.rows() != b.size() || v.rows() != b.size() || (!how.sinks.empty() && how.sinks.size() != how.heads))
        throw shape_error("attention got widths " + std::to_string(q.cols()) + ", " + std::to_string(k.cols()) + ", " +
                          std::to_string(v.cols()) + " for " + std::to_string(how.heads) + " heads and " +
                          std::to_string(how.kv_heads) + " key heads of " + std::to_string(how.head_dim));
    if (detail::recorded(ctx, "attention", q.rows(), q.cols())) co_return ctx.make(ctx.host(), q.rows(), q.cols());
    const kv_shape shape = cache.shape();
    if (shape.width != k.cols() || layer >= shape.layers)
        throw shape_error("attention of layer " + std::to_string(layer) + " with keys of width " +
                          std::to_string(k.cols()) + " does not fit a cache of " + std::to_string(shape.layers) +
                          " layers of width " + std::to_string(shape.width));
    device& on = detail::keeper_of(cache, layer, ctx.host());
    q = co_await ctx.bring(std::move(q), on);
    k = co_await ctx.bring(std::move(k), on);
    v = co_await ctx.bring(std::move(v), on);
    cache.append(layer, b, k.data(), v.data());

    // The pages of every sequence, in memory that the pool keeps: nothing is allocated while decoding.
    using kernel::sequence_pages;
    static_assert(sizeof(sequence_pages) % sizeof(float) == 0);
    const activation room = ctx.make(on, shape.sequences, sizeof(sequence_pages) / sizeof(float));
    auto* const pages = reinterpret_cast<sequence_pages*>(room.data());
    for (std::size_t s = 0; s < shape.sequences; ++s) std::construct_at(pages + s, cache.pages(layer, s));

    activation out = ctx.make(on, q.rows(), q.cols());
    co_await ctx.launch<kernel::attention>(on, {.q = q.data(),
                                                .q_stride = q.cols(),
                                                .tokens = q.rows(),
                                                .heads = how.heads,
                                                .kv_heads = how.kv_heads,
                                                .head_dim = how.head_dim,
                                                .scale = how.scale,
                                                .soft_cap = how.soft_cap,
                                                .window = how.window,
                                                .sinks = how.sinks.empty() ? nullptr : how.sinks.data(),
                                                .sequences = pages,
                                                .sequence_of = b.sequences.data(),
                                                .positions = b.positions.data(),
                                                .out = out.data(),
                                                .out_stride = out.cols()});
    co_return out;
}

} // namespace tern
