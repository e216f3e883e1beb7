// The decoder of GPT-OSS: experts with biases and a clamped gate, attention with sinks, a window on every second layer.
// Source: OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card", 2025.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <tern/model/decoder_frame.hpp>
#include <tern/op/experts.hpp>

namespace tern {

template <weight_tensor Weight> struct gpt_oss_layer {
    Weight attention_norm, q, k, v, q_bias, k_bias, v_bias, o, o_bias, ffn_norm;
    std::vector<float> sinks; ///< one logit a head, as stored: the scale of the scores does not apply to them
    expert_weights<Weight> experts;
};

/// Layers 0, 2, 4 ... see a window, the others all keys (or every n-th all keys, where the file has a pattern n). Rope
/// of half-split pairs, with YaRN whose bounds are not rounded. The router's softmax goes over the chosen experts.
template <weight_tensor Weight = any_weight>
class gpt_oss : public decoder_frame<gpt_oss<Weight>, Weight, gpt_oss_layer<Weight>> {
    using frame = decoder_frame<gpt_oss<Weight>, Weight, gpt_oss_layer<Weight>>;

public:
    /// As decoder_frame. Throws parse_error, too, where the file has no experts, or a window that is 0 or longer than
    /// the model's context.
    gpt_oss(weights<Weight>& from, decoder_config config) : frame(from, checked(from, std::move(config))) {}

    static gpt_oss_layer<Weight> read_layer(weights<Weight>& from, const std::string& blk, const decoder_config& c) {
        const std::size_t queries = c.heads * c.head_dim;
        const std::size_t keys = c.kv_heads * c.head_dim;
        return {.attention_norm = from.vector(blk + "attn_norm.weight", c.width),
                .q = from.matrix(blk + "attn_q.weight", queries, c.width),
                .k = from.matrix(blk + "attn_k.weight", keys, c.width),
                .v = from.matrix(blk + "attn_v.weight", keys, c.width),
                .q_bias = from.vector(blk + "attn_q.bias", queries),
                .k_bias = from.vector(blk + "attn_k.bias", keys),
                .v_bias = from.vector(blk + "attn_v.bias", keys),
                .o = from.matrix(blk + "attn_output.weight", c.width, queries),
                .o_bias = from.vector(blk + "attn_output.bias", c.width),
                .ffn_norm = from.vector(blk + "post_attention_norm.weight", c.width),
                .sinks = from.numbers(blk + "attn_sinks.weight", c.heads),
                .experts = read_experts(from, blk + "ffn_", c)};
    }

    template <kv_cache Cache>
    task<activation> run_layer(layer_step<Cache> s, const gpt_oss_layer<Weight>& w, activation x) const {
        activation h = co_await attend(s, w, x);
        x = co_await add(s.ctx, std::move(x), h);
        h = co_await rms_norm(s.ctx, x, w.ffn_norm, this->config().norm_eps);
        h = co_await tern::experts(s.ctx, h, w.experts, mixing());
        co_return co_await add(s.ctx, std::move(x), h);
    }

private:
    static decoder_config checked(const weights<Weight>& from, decoder_config c) {
        const auto refuse = [&](const std::string& why) { throw parse_error(why, {.path = from.file().path()}); };
        if (c.experts == 0) refuse("has no " + c.architecture + ".expert_count");
        if (c.window == 0 || c.window > c.context)
            refuse("has a " + c.architecture + ".attention.sliding_window of " + std::to_string(c.window) +
                   " for a context of " + std::to_string(c.context));
        if (c.window_pattern == 0) c.window_pattern = 2;
        return c;
    }

    static expert_weights<Weight> read_experts(weights<Weight>& from, const std::string& ffn, const decoder_config& c) {
        expert_weights<Weight> w;
        w.router = from.matrix(ffn + "gate_inp.weight", c.experts, c.width);
        w.router_bias = from.vector(ffn + "gate_inp.bias", c.experts);
        w.gate = from.experts(ffn + "gate_exps.weight", c.experts, c.expert_hidden, c.width);
        w.up = from.experts(ffn + "up_exps.weight", c.experts, c.expert_hidden, c.width);
        w.down = from.experts(ffn + "down_exps.weight", c.experts, c.width, c.expert_hidden);
        w.gate_bias = from.expert_vectors(ffn + "gate_exps.bias", c.experts, c.expert_hidden);
        w.up_bias = from.expert_vectors(ffn + "up_exps.bias", c.experts, c.expert_hidden);
        w.down_bias = from.expert_vectors(ffn + "down_exps.bias", c.experts, c.width);
        return w;
    }

    /// The gate's limit of 7 and its factor of 1.702 are those of the activation: files do not have them.
    expert_options mixing() const {
        return {.used = this->config().experts_used,
                .softmax = kernel::router_softmax::after_top_k,
                .normalise = false,
                .scale = this->config().expert_scale,
                .act = kernel::activation_kind::silu_clamped};
    }

    // A coroutine of its own: frames beyond 2 KiB come from the heap.
    template <kv_cache Cache>
    task<activation> attend(layer_step<Cache> s, const gpt_oss_layer<Weight>& w, const activation& x) const {
        const decoder_config& c = this->config();
        attention_options how = full_attention(c);
        how.window = (s.layer + 1) % c.window_pattern == 0 ? 0 : c.window;
        how.sinks = w.sinks;
        const activation h = co_await rms_norm(s.ctx, x, w.attention_norm, c.norm_eps);
        activation q = co_await linear(s.ctx, h, w.q, w.q_bias);
        activation k = co_await linear(s.ctx, h, w.k, w.k_bias);
        activation v = co_await linear(s.ctx, h, w.v, w.v_bias);
        q = co_await rope(s.ctx, std::move(q), s.angles, c.head_dim, kernel::rope_pairing::half_split);
        k = co_await rope(s.ctx, std::move(k), s.angles, c.head_dim, kernel::rope_pairing::half_split);
        const activation y =
            co_await attention(s.ctx, std::move(q), std::move(k), std::move(v), s.tokens, s.cache, s.layer, how);
        co_return co_await linear(s.ctx, y, w.o, w.o_bias);
    }
};

} // namespace tern
