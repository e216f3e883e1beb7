// The decoder of Llama and its kin, dense or with experts (Mixtral).
// Source: Touvron and others, "LLaMA", 2023; Jiang and others, "Mixtral of Experts", 2024.
#pragma once

#include <string>
#include <utility>

#include <tern/model/decoder_frame.hpp>
#include <tern/model/feed_forward.hpp>

namespace tern {

template <weight_tensor Weight> struct llama_layer {
    Weight attention_norm, q, k, v, q_bias, k_bias, v_bias, o, ffn_norm; // biases may be empty
    feed_forward_weights<Weight> ffn;
};

/// GGUF files of this architecture store queries and keys for rope of adjacent pairs.
///
///     tern::llama<> decoder(from, tern::read_config(file));
///     auto logits = co_await decoder.forward(ctx, batch, cache);       // [batch.outputs.size(), vocabulary]
template <weight_tensor Weight = any_weight>
class llama : public decoder_frame<llama<Weight>, Weight, llama_layer<Weight>> {
public:
    using decoder_frame<llama<Weight>, Weight, llama_layer<Weight>>::decoder_frame;

    static llama_layer<Weight> read_layer(weights<Weight>& from, const std::string& blk, const decoder_config& c) {
        const std::size_t queries = c.heads * c.head_dim;
        const std::size_t keys = c.kv_heads * c.head_dim;
        return {.attention_norm = from.vector(blk + "attn_norm.weight", c.width),
                .q = from.matrix(blk + "attn_q.weight", queries, c.width),
                .k = from.matrix(blk + "attn_k.weight", keys, c.width),
                .v = from.matrix(blk + "attn_v.weight", keys, c.width),
                .q_bias = from.optional_vector(blk + "attn_q.bias", queries),
                .k_bias = from.optional_vector(blk + "attn_k.bias", keys),
                .v_bias = from.optional_vector(blk + "attn_v.bias", keys),
                .o = from.matrix(blk + "attn_output.weight", c.width, queries),
                .ffn_norm = from.vector(blk + "ffn_norm.weight", c.width),
                .ffn = read_feed_forward(from, blk, c)};
    }

    template <kv_cache Cache>
    task<activation> run_layer(layer_step<Cache> s, const llama_layer<Weight>& w, activation x) const {
        const decoder_config& c = this->config();
        constexpr auto pairing = kernel::rope_pairing::adjacent;
        activation h = co_await rms_norm(s.ctx, x, w.attention_norm, c.norm_eps);
        activation q = co_await linear(s.ctx, h, w.q, w.q_bias);
        activation k = co_await linear(s.ctx, h, w.k, w.k_bias);
        activation v = co_await linear(s.ctx, h, w.v, w.v_bias);
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

} // namespace tern
