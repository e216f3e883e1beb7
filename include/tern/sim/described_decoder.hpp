// A decoder assembled from a description: the operators of the ready-made decoders, in the order and with the sizes
// that the description gives, and declared operators where there is no arithmetic yet.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tern/file/checkpoint.hpp>
#include <tern/kernel/priced.hpp>
#include <tern/kernel/rope_scaling.hpp>
#include <tern/model/decoder.hpp>
#include <tern/model/decoder_frame.hpp>
#include <tern/op/experts.hpp>
#include <tern/op/feed_forward.hpp>
#include <tern/sim/description.hpp>

namespace tern {

namespace detail {

/// The weights of one layer; those that its kind does not have are empty.
template <weight_tensor Weight> struct described_weights {
    Weight attention_norm, q, k, v, gate, q_norm, k_norm, o;
    Weight q_a, q_a_norm, kv_a, kv_a_norm, kv_b; // latent
    Weight decay, conv, state_norm;              // linear
    Weight ffn_norm, up, down, ffn_gate;
    expert_weights<Weight> experts;
};

template <weight_tensor Weight>
void read_attention_weights(described_weights<Weight>& w, weights<Weight>& from, const std::string& blk,
                            const model_description& m, const described_attention& a) {
    const auto get = [&](const char* name, std::size_t rows, std::size_t cols) {
        return from.matrix(blk + name + ".weight", rows, cols);
    };
    if (a.kind == attention_kind::softmax) {
        w.q = get("attn_q", a.heads * a.head_dim, m.width);
        w.k = get("attn_k", a.kv_heads * a.head_dim, m.width);
        w.v = get("attn_v", a.kv_heads * a.head_dim, m.width);
        if (a.gate) w.gate = get("attn_gate", a.heads * a.head_dim, m.width);
        if (a.norm) w.q_norm = get("attn_q_norm", 1, a.head_dim);
        if (a.norm) w.k_norm = get("attn_k_norm", 1, a.head_dim);
        w.o = get("attn_output", m.width, a.heads * a.head_dim);
    } else if (a.kind == attention_kind::latent) {
        if (a.q_rank != 0) {
            w.q_a = get("attn_q_a", a.q_rank, m.width);
            w.q_a_norm = get("attn_q_a_norm", 1, a.q_rank);
        }
        w.q = get("attn_q_b", a.heads * (a.nope_dim + a.rope_dim), a.q_rank != 0 ? a.q_rank : m.width);
        w.kv_a = get("attn_kv_a", a.kv_rank + a.rope_dim, m.width);
        w.kv_a_norm = get("attn_kv_a_norm", 1, a.kv_rank);
        w.kv_b = get("attn_kv_b", a.heads * (a.nope_dim + a.value_dim), a.kv_rank);
        w.o = get("attn_output", m.width, a.heads * a.value_dim);
    } else {
        const std::size_t keys = a.key_heads * a.key_dim;
        const std::size_t values = a.value_heads * a.value_dim;
        w.q = get("attn_qkv", 2 * keys + values, m.width);
        w.gate = get("attn_gate", values, m.width);
        w.decay = get("ssm_ba", 2 * a.value_heads, m.width);
        if (a.conv != 0) w.conv = get("ssm_conv1d", a.conv, 2 * keys + values);
        w.state_norm = get("ssm_norm", 1, a.value_dim);
        w.o = get("ssm_out", m.width, values);
    }
}

template <weight_tensor Weight>
void read_ffn_weights(described_weights<Weight>& w, weights<Weight>& from, const std::string& blk,
                      const model_description& m, const described_ffn& n) {
    if (n.experts == 0) {
        w.ffn_gate = from.matrix(blk + "ffn_gate.weight", n.hidden, m.width);
        w.up = from.matrix(blk + "ffn_up.weight", n.hidden, m.width);
        w.down = from.matrix(blk + "ffn_down.weight", m.width, n.hidden);
        return;
    }
    expert_weights<Weight>& e = w.experts;
    e.router = from.matrix(blk + "ffn_gate_inp.weight", n.experts, m.width);
    e.gate = from.experts(blk + "ffn_gate_exps.weight", n.experts, n.hidden, m.width);
    e.up = from.experts(blk + "ffn_up_exps.weight", n.experts, n.hidden, m.width);
    e.down = from.experts(blk + "ffn_down_exps.weight", n.experts, m.width, n.hidden);
    if (n.shared_hidden == 0) return;
    e.shared_gate = from.matrix(blk + "ffn_gate_shexp.weight", n.shared_hidden, m.width);
    e.shared_up = from.matrix(blk + "ffn_up_shexp.weight", n.shared_hidden, m.width);
    e.shared_down = from.matrix(blk + "ffn_down_shexp.weight", m.width, n.shared_hidden);
}

/// One token of the sequence that a batch continues, and those before it.
inline std::size_t seen_by_last(const batch& b) noexcept {
    return b.positions.empty() || b.positions.back() < 0 ? 0 : static_cast<std::size_t>(b.positions.back()) + 1;
}

} // namespace detail

/// Satisfies decoder_model. It runs in a simulation and can be recorded; nothing else can run it.
template <weight_tensor Weight = any_weight> class described_decoder {
public:
    /// `from`'s file must be that of described_file; it and the store must outlive the decoder.
    described_decoder(weights<Weight>& from, model_description m) : m_(std::move(m)) {
        embedding_ = from.matrix("token_embd.weight", m_.vocabulary, m_.width);
        for (std::size_t i = 0; i < m_.layers.size(); ++i) {
            const std::string blk = "blk." + std::to_string(i) + ".";
            auto& w = layers_.emplace_back();
            w.attention_norm = from.vector(blk + "attn_norm.weight", m_.width);
            detail::read_attention_weights(w, from, blk, m_, m_.attentions[m_.layers[i].attention]);
            w.ffn_norm = from.vector(blk + "ffn_norm.weight", m_.width);
            detail::read_ffn_weights(w, from, blk, m_, m_.ffns[m_.layers[i].ffn]);
        }
        norm_ = from.vector("output_norm.weight", m_.width);
        output_ = m_.tied_output ? embedding_ : from.matrix("output.weight", m_.vocabulary, m_.width);
        configure();
    }

    const decoder_config& config() const noexcept { return config_; }
    const model_description& description() const noexcept { return m_; }

    template <kv_cache Cache> task<activation> forward(context& ctx, const batch& b, Cache& cache) const {
        cache.reserve(b);
        const rope_table angles = co_await rope_angles(ctx, b.positions, config_.rope);
        activation x = co_await embed(ctx, embedding_, b.tokens);
        for (std::size_t i = 0; i < layers_.size(); ++i) {
            if (recorder* into = ctx.recording()) into->enter_layer(i);
            const detail::described_weights<Weight>& w = layers_[i];
            const described_attention& a = m_.attentions[m_.layers[i].attention];
            activation h = co_await rms_norm(ctx, x, w.attention_norm, config_.norm_eps);
            if (a.kind == attention_kind::softmax)
                h = co_await softmax_layer(ctx, std::move(h), w, a, b, cache, i, angles);
            else if (a.kind == attention_kind::latent)
                h = co_await latent_layer(ctx, std::move(h), w, a, b);
            else
                h = co_await linear_layer(ctx, std::move(h), w, a);
            x = co_await add(ctx, std::move(x), h);
            h = co_await rms_norm(ctx, x, w.ffn_norm, config_.norm_eps);
            h = co_await ffn_layer(ctx, std::move(h), w, m_.ffns[m_.layers[i].ffn]);
            x = co_await add(ctx, std::move(x), h);
        }
        if (recorder* into = ctx.recording()) into->enter_layer(graph_node::no_layer);
        x = co_await select_rows(ctx, std::move(x), b.outputs);
        x = co_await rms_norm(ctx, x, norm_, config_.norm_eps);
        co_return co_await linear(ctx, x, output_);
    }

private:
    using layer = detail::described_weights<Weight>;

    void configure() {
        config_.architecture = m_.architecture;
        config_.layers = m_.layers.size();
        config_.width = m_.width;
        config_.context = m_.context;
        config_.vocabulary = m_.vocabulary;
        config_.norm_eps = 1e-6f;
        config_.heads = config_.kv_heads = config_.head_dim = 1;
        for (const described_attention& a : m_.attentions)
            if (a.kind == attention_kind::softmax && a.kv_heads * a.head_dim > config_.kv_heads * config_.head_dim) {
                config_.heads = a.heads;
                config_.kv_heads = a.kv_heads;
                config_.head_dim = a.head_dim;
            }
        config_.rope = kernel::rope_frequencies_of(config_.head_dim > 1 ? config_.head_dim : 2, 10000);
        for (const described_ffn& n : m_.ffns) {
            if (n.experts == 0) config_.hidden = n.hidden;
            if (n.experts <= config_.experts) continue;
            config_.experts = n.experts;
            config_.experts_used = n.used;
            config_.expert_hidden = n.hidden;
        }
    }

    template <kv_cache Cache>
    task<activation> softmax_layer(context& ctx, activation h, const layer& w, const described_attention& a,
                                   const batch& b, Cache& cache, std::size_t i, const rope_table& angles) const {
        activation q = co_await linear(ctx, h, w.q);
        activation k = co_await linear(ctx, h, w.k);
        activation v = co_await linear(ctx, h, w.v);
        if (a.norm) {
            q = co_await rms_norm(ctx, q, w.q_norm, config_.norm_eps);
            k = co_await rms_norm(ctx, k, w.k_norm, config_.norm_eps);
        }
        if (a.head_dim == config_.head_dim) { // as in every public model: one table of angles serves all
            q = co_await rope(ctx, std::move(q), angles, a.head_dim, kernel::rope_pairing::half_split);
            k = co_await rope(ctx, std::move(k), angles, a.head_dim, kernel::rope_pairing::half_split);
        }
        const attention_options how{
            .heads = a.heads, .kv_heads = a.kv_heads, .head_dim = a.head_dim, .scale = 1, .window = a.window};
        activation y = co_await attention(ctx, std::move(q), std::move(k), std::move(v), b, cache, i, how);
        if (a.gate) {
            const activation gate = co_await linear(ctx, h, w.gate);
            y = co_await gated(ctx, std::move(y), gate, kernel::activation_kind::silu);
        }
        co_return co_await linear(ctx, y, w.o);
    }

    task<activation> latent_layer(context& ctx, activation h, const layer& w, const described_attention& a,
                                  const batch& b) const {
        activation q;
        if (a.q_rank != 0) {
            q = co_await linear(ctx, h, w.q_a);
            q = co_await rms_norm(ctx, q, w.q_a_norm, config_.norm_eps);
            q = co_await linear(ctx, q, w.q);
        } else {
            q = co_await linear(ctx, h, w.q);
        }
        const activation kv = co_await linear(ctx, h, w.kv_a);
        // What the compressed keys are multiplied with: the queries go through kv_b, and the results back.
        device& on = w.kv_b.computes_on(ctx.host());
        activation c = ctx.make(ctx.recording() != nullptr ? ctx.host() : on, h.rows(), a.kv_rank);
        const activation expanded = co_await linear(ctx, c, w.kv_b);
        activation y =
            ctx.make(ctx.recording() != nullptr ? ctx.host() : *expanded.on(), h.rows(), a.heads * a.value_dim);
        if (!detail::recorded(ctx, "latent_attention", h.rows(), y.cols())) {
            const kernel::latent_attention::args args{h.rows(), detail::seen_by_last(b), a.heads, a.kv_rank,
                                                      a.rope_dim};
            co_await ctx.template launch<kernel::latent_attention>(*y.on(), args);
        }
        co_return co_await linear(ctx, y, w.o);
    }

    task<activation> linear_layer(context& ctx, activation h, const layer& w, const described_attention& a) const {
        const activation qkv = co_await linear(ctx, h, w.q);
        const activation decay = co_await linear(ctx, h, w.decay);
        const activation gate = co_await linear(ctx, h, w.gate);
        activation y =
            ctx.make(ctx.recording() != nullptr ? ctx.host() : *qkv.on(), h.rows(), a.value_heads * a.value_dim);
        if (!detail::recorded(ctx, "delta_attention", h.rows(), y.cols())) {
            const kernel::delta_attention::args args{h.rows(), a.value_heads, a.key_dim, a.value_dim};
            co_await ctx.template launch<kernel::delta_attention>(*y.on(), args);
        }
        y = co_await rms_norm(ctx, y, w.state_norm, config_.norm_eps);
        y = co_await gated(ctx, std::move(y), gate, kernel::activation_kind::silu);
        co_return co_await linear(ctx, y, w.o);
    }

    task<activation> ffn_layer(context& ctx, activation h, const layer& w, const described_ffn& n) const {
        if (n.experts != 0) co_return co_await experts(ctx, h, w.experts, {.used = n.used});
        const activation hidden = co_await swiglu(ctx, h, w.ffn_gate, w.up);
        co_return co_await linear(ctx, hidden, w.down);
    }

    model_description m_;
    decoder_config config_;
    Weight embedding_, norm_, output_;
    std::vector<layer> layers_;
};

/// The decoder of a description over its file and a store.
///
///     auto file = tern::described_file(description);
///     auto model = tern::open_described(description, file, sim.store());
template <class = void>
std::unique_ptr<decoder> open_described(const model_description& m, const checkpoint& file, lender& store) {
    weights<any_weight> from(file, store);
    return std::make_unique<decoder_of<described_decoder<>>>(described_decoder<>(from, m));
}

} // namespace tern
