// The feed-forward part of a layer: dense, or a mixture of experts where the file has a router.
#pragma once

#include <string>

#include <tern/model/config.hpp>
#include <tern/model/weights.hpp>
#include <tern/op/experts.hpp>
#include <tern/op/feed_forward.hpp>

namespace tern {

/// Either the three dense weights or the experts; the others are empty.
template <weight_tensor Weight> struct feed_forward_weights {
    Weight gate{}, up{}, down{};
    expert_weights<Weight> experts{};
};

/// The weights of layer `prefix`.
template <weight_tensor Weight>
feed_forward_weights<Weight> read_feed_forward(weights<Weight>& from, const std::string& prefix,
                                               const decoder_config& c) {
    feed_forward_weights<Weight> w;
    if (c.experts == 0) {
        w.gate = from.matrix(prefix + "ffn_gate.weight", c.hidden, c.width);
        w.up = from.matrix(prefix + "ffn_up.weight", c.hidden, c.width);
        w.down = from.matrix(prefix + "ffn_down.weight", c.width, c.hidden);
        return w;
    }
    w.experts.router = from.matrix(prefix + "ffn_gate_inp.weight", c.experts, c.width);
    w.experts.gate = from.experts(prefix + "ffn_gate_exps.weight", c.experts, c.expert_hidden, c.width);
    w.experts.up = from.experts(prefix + "ffn_up_exps.weight", c.experts, c.expert_hidden, c.width);
    w.experts.down = from.experts(prefix + "ffn_down_exps.weight", c.experts, c.width, c.expert_hidden);
    return w;
}

/// x [tokens, width] -> [tokens, width]: down(silu(gate x) * up x), for all tokens or by expert.
template <weight_tensor Weight>
task<activation> feed_forward(context& ctx, const activation& x, const feed_forward_weights<Weight>& w,
                              const decoder_config& c) {
    if (w.experts.router)
        co_return co_await experts(ctx, x, w.experts,
                                   {.used = c.experts_used, .normalise = c.normalise_experts, .scale = c.expert_scale});
    const activation h = co_await swiglu(ctx, x, w.gate, w.up);
    co_return co_await linear(ctx, h, w.down);
}

} // namespace tern
