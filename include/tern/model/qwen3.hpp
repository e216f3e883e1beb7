// The decoders of Qwen3, dense and with experts: a norm on each head of queries and keys.
// Source: Yang and others, "Qwen3 Technical Report", 2025.
#pragma once

#include <string>
#include <utility>

#include <tern/model/decoder_frame.hpp>
#include <tern/model/feed_forward.hpp>

namespace tern {

template <weight_tensor Weight> struct qwen3_layer {
    Weight attention_norm, q, k, v, q_norm, k_norm, o, ffn_norm;
    feed_forward_weights<Weight> ffn;
};

/// Rope of half-split pairs after the norms of the heads; no biases. With experts in the file it is qwen3moe.
template <weight_tensor Weight = any_weight>
class qwen3 : public decoder_frame<qwen3<Weight>, Weight, qwen3_layer<Weight>> {
public:
    using decoder_frame<qwen3<Weight>, Weight, qwen3_layer<Weight>>::decoder_frame;

    static qwen3_layer<Weight> read_layer(weights<Weight>& from, const std::string& blk, const decoder_config& c) {
        const std::size_t queries = c.heads * c.head_dim;
        const std::size_t keys = c.kv_heads * c.head_dim;
        return {.attention_norm = from.vector(blk + "attn_norm.weight", c.width),
                .q = from.matrix(blk + "attn_q.weight", queries, c.width),
                .k = from.matrix(blk + "attn_k.weight", keys, c.width),
                .v = from.matrix(blk + "attn_v.weight", keys, c.width),
                .q_norm = from.vector(blk + "attn_q_norm.weight", c.head_dim),
                .k_norm = from.vector(blk + "attn_k_norm.weight", c.head_dim),
                .o = from.matrix(blk + "attn_output.weight", c.width, queries),
                .ffn_norm = from.vector(blk + "ffn_norm.weight", c.width),
                .ffn = read_feed_forward(from, blk, c)};
    }

    template <kv_cache Cache>
    task<activation> run_layer(layer_step<Cache> s, const qwen3_layer<Weight>& w, activation x) const {
        const decoder_config& c = this->config();
        constexpr auto pairing = kernel::rope_pairing::half_split;
        activation h = co_await rms_norm(s.ctx, x, w.attention_norm, c.norm_eps);
        activation q = co_await linear(s.ctx, h, w.q);
        activation k = co_await linear(s.ctx, h, w.k);
        activation v = co_await linear(s.ctx, h, w.v);
        q = co_await rms_norm(s.ctx, q, w.q_norm, c.norm_eps);
        k = co_await rms_norm(s.ctx, k, w.k_norm, c.norm_eps);
        q = co_await rope(s.ctx, std::move(q), s.angles, c.head_dim, pairing);
        k = co_await rope(s.ctx, std::move(k), s.angles, c.head_dim, pairing);
        h = co_await attention(s.ctx, std::move(q), std::move(k), std::move(v), s.tokens, s.cache, s.layer,
                               full_attention(c));
        h = co_await linear(s.ctx, h, w.o);
        x = co_await add(s.ctx, std::move(x), h);
        h = co_await rms_norm(s.ctx, x, w.ffn_norm, c.norm_eps);
        h = co_await feed_forward(s.ctx, h, w.ffn, c);
        co_return co_await add(s.ctx, std::move(x), h);
    }
};

/// The same layers; its files hold experts in place of the dense feed-forward.
template <weight_tensor Weight = any_weight> using qwen3moe = qwen3<Weight>;

} // namespace tern
