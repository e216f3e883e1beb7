// The decoder of Gemma 3 (text): local and global layers, norms before and after each half, GeGLU.
// Source: Gemma Team, "Gemma 3 Technical Report", 2025.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <tern/model/decoder_frame.hpp>
#include <tern/op/feed_forward.hpp>

namespace tern {

/// Every sixth layer (or the file's pattern) sees all keys and has the file's rope; the others see a window and turn
/// by their own base without scaling. Norm weights are stored with one added to them already.
template <weight_tensor Weight = any_weight> class gemma3 {
public:
    gemma3(weights<Weight>& from, decoder_config config) : config_(std::move(config)) {
        const decoder_config& c = config_;
        if (c.window_pattern != 0) pattern_ = c.window_pattern;
        embedding_ = from.matrix("token_embd.weight", c.vocabulary, c.width);
        for (std::size_t i = 0; i < c.layers; ++i)
            layers_.push_back(read_layer(from, "blk." + std::to_string(i) + ".", c));
        norm_ = from.vector("output_norm.weight", c.width);
        output_ = from.has("output.weight") ? from.matrix("output.weight", c.vocabulary, c.width) : embedding_;
    }

    const decoder_config& config() const noexcept { return config_; }

    /// As decoder_frame::forward.
    template <kv_cache Cache> task<activation> forward(context& ctx, const batch& b, Cache& cache) const {
        reserve_room(ctx, b, cache);
        const rope_table global = co_await rope_angles(ctx, b.positions, config_.rope);
        const rope_table local = co_await rope_angles(ctx, b.positions, config_.local_rope);
        activation x = co_await embed(ctx, embedding_, b.tokens, std::sqrt(static_cast<float>(config_.width)));
        for (std::size_t i = 0; i < layers_.size(); ++i) {
            const bool is_global = (i + 1) % pattern_ == 0;
            layer_step<Cache> step{ctx, b, cache, i, is_global ? global : local};
            if (recorder* into = ctx.recording()) into->enter_layer(i);
            x = co_await run_layer(step, layers_[i], std::move(x), is_global ? 0 : config_.window);
        }
        if (recorder* into = ctx.recording()) into->enter_layer(graph_node::no_layer);
        x = co_await select_rows(ctx, std::move(x), b.outputs);
        x = co_await rms_norm(ctx, x, norm_, config_.norm_eps);
        x = co_await linear(ctx, x, output_);
        co_return co_await soft_cap(ctx, std::move(x), config_.logits_cap);
    }

private:
    struct layer {
        Weight attention_norm, q, k, v, q_norm, k_norm, o, attention_post_norm;
        Weight ffn_norm, gate, up, down, ffn_post_norm;
    };

    static layer read_layer(weights<Weight>& from, const std::string& blk, const decoder_config& c) {
        const std::size_t queries = c.heads * c.head_dim;
        const std::size_t keys = c.kv_heads * c.head_dim;
        return {.attention_norm = from.vector(blk + "attn_norm.weight", c.width),
                .q = from.matrix(blk + "attn_q.weight", queries, c.width),
                .k = from.matrix(blk + "attn_k.weight", keys, c.width),
                .v = from.matrix(blk + "attn_v.weight", keys, c.width),
                .q_norm = from.vector(blk + "attn_q_norm.weight", c.head_dim),
                .k_norm = from.vector(blk + "attn_k_norm.weight", c.head_dim),
                .o = from.matrix(blk + "attn_output.weight", c.width, queries),
                .attention_post_norm = from.vector(blk + "post_attention_norm.weight", c.width),
                .ffn_norm = from.vector(blk + "ffn_norm.weight", c.width),
                .gate = from.matrix(blk + "ffn_gate.weight", c.hidden, c.width),
                .up = from.matrix(blk + "ffn_up.weight", c.hidden, c.width),
                .down = from.matrix(blk + "ffn_down.weight", c.width, c.hidden),
                .ffn_post_norm = from.vector(blk + "post_ffw_norm.weight", c.width)};
    }

    template <kv_cache Cache>
    task<activation> run_layer(layer_step<Cache> s, const layer& w, activation x, std::size_t window) const {
        activation h = co_await attend(s, w, x, window);
        x = co_await add(s.ctx, std::move(x), h);
        h = co_await transform(s.ctx, w, x);
        co_return co_await add(s.ctx, std::move(x), h);
    }

    // In halves: frames of coroutines beyond 2 KiB come from the heap.
    template <kv_cache Cache>
    task<activation> attend(layer_step<Cache> s, const layer& w, const activation& x, std::size_t window) const {
        attention_options how = full_attention(config_);
        how.window = window;
        // The 27B model, known by its 62 layers, divides scores by another length than its heads have.
        if (config_.layers == 62)
            how.scale = 1 / std::sqrt(static_cast<float>(config_.width) / static_cast<float>(config_.heads));
        activation h = co_await rms_norm(s.ctx, x, w.attention_norm, config_.norm_eps);
        activation q = co_await heads(s.ctx, h, w.q, w.q_norm, s.angles);
        activation k = co_await heads(s.ctx, h, w.k, w.k_norm, s.angles);
        activation v = co_await linear(s.ctx, h, w.v);
        h = co_await attention(s.ctx, std::move(q), std::move(k), std::move(v), s.tokens, s.cache, s.layer, how);
        h = co_await linear(s.ctx, h, w.o);
        co_return co_await rms_norm(s.ctx, h, w.attention_post_norm, config_.norm_eps);
    }

    /// Queries or keys: projected, each head normalised, then turned.
    task<activation> heads(context& ctx, const activation& h, const Weight& w, const Weight& norm,
                           const rope_table& angles) const {
        activation y = co_await linear(ctx, h, w);
        y = co_await rms_norm(ctx, y, norm, config_.norm_eps);
        co_return co_await rope(ctx, std::move(y), angles, config_.head_dim, kernel::rope_pairing::half_split);
    }

    task<activation> transform(context& ctx, const layer& w, const activation& x) const {
        const float eps = config_.norm_eps;
        activation h = co_await rms_norm(ctx, x, w.ffn_norm, eps);
        h = co_await geglu(ctx, h, w.gate, w.up);
        h = co_await linear(ctx, h, w.down);
        co_return co_await rms_norm(ctx, h, w.ffn_post_norm, eps);
    }

    decoder_config config_;
    std::size_t pattern_ = 6;
    Weight embedding_;
    std::vector<layer> layers_;
    Weight norm_;
    Weight output_;
};

} // namespace tern
