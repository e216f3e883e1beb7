// What the decoders of the Llama family share: embedding, the loop over layers, the last norm and the output.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/model/config.hpp>
#include <tern/model/weights.hpp>
#include <tern/op/attention.hpp>
#include <tern/op/embed.hpp>
#include <tern/op/linear.hpp>
#include <tern/op/rms_norm.hpp>
#include <tern/op/rope.hpp>

namespace tern {

/// What the operators of one layer need beside its weights.
template <kv_cache Cache> struct layer_step {
    context& ctx;
    const batch& tokens;
    Cache& cache;
    std::size_t layer;
    const rope_table& angles;
};

/// The options of full attention with a scale of 1 / sqrt(head_dim).
inline attention_options full_attention(const decoder_config& c) {
    return {.heads = c.heads,
            .kv_heads = c.kv_heads,
            .head_dim = c.head_dim,
            .scale = 1 / std::sqrt(static_cast<float>(c.head_dim)),
            .soft_cap = c.attention_cap};
}

/// Room for a batch in the cache, before its pass. Buffers of earlier passes, whose sizes may never come again, give
/// way to it. Throws as Cache::reserve does.
template <kv_cache Cache> void reserve_room(context& ctx, const batch& b, Cache& cache) {
    try {
        return cache.reserve(b);
    } catch (const budget_error&) { ctx.trim_pools(); }
    cache.reserve(b);
}

/// Base of a decoder `Derived` with layers of type `Layer`, which must have
///
///     static Layer read_layer(weights<Weight>&, const std::string& prefix, const decoder_config&);
///     template <kv_cache Cache> task<activation> run_layer(layer_step<Cache>, const Layer&, activation x) const;
///
/// The output matrix is the embedding where the file has no "output.weight" in any of its shards.
template <class Derived, weight_tensor Weight, class Layer> class decoder_frame {
public:
    /// Finds the weights; throws as weights<Weight> does. `from`'s file and store must outlive the decoder.
    decoder_frame(weights<Weight>& from, decoder_config config) : config_(std::move(config)) {
        const decoder_config& c = config_;
        embedding_ = from.matrix("token_embd.weight", c.vocabulary, c.width);
        for (std::size_t i = 0; i < c.layers; ++i)
            layers_.push_back(Derived::read_layer(from, "blk." + std::to_string(i) + ".", c));
        norm_ = from.vector("output_norm.weight", c.width);
        output_ = from.has("output.weight") ? from.matrix("output.weight", c.vocabulary, c.width) : embedding_;
    }

    const decoder_config& config() const noexcept { return config_; }

    /// The logits [b.outputs.size(), vocabulary] of the rows that the batch wants. Prefill and decode are this call.
    /// When it throws, the cache holds the batch's tokens without meaning: truncate its sequences.
    template <kv_cache Cache> task<activation> forward(context& ctx, const batch& b, Cache& cache) const {
        reserve_room(ctx, b, cache);
        const rope_table angles = co_await rope_angles(ctx, b.positions, config_.rope);
        activation x = co_await embed(ctx, embedding_, b.tokens);
        for (std::size_t i = 0; i < layers_.size(); ++i) {
            layer_step<Cache> step{ctx, b, cache, i, angles};
            if (recorder* into = ctx.recording()) into->enter_layer(i);
            x = co_await static_cast<const Derived&>(*this).run_layer(step, layers_[i], std::move(x));
        }
        if (recorder* into = ctx.recording()) into->enter_layer(graph_node::no_layer);
        x = co_await select_rows(ctx, std::move(x), b.outputs);
        x = co_await rms_norm(ctx, x, norm_, config_.norm_eps);
        co_return co_await linear(ctx, x, output_);
    }

private:
    decoder_config config_;
    Weight embedding_;
    std::vector<Layer> layers_;
    Weight norm_;
    Weight output_;
};

} // namespace tern
