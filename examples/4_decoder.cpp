// A decoder of one's own: a struct of weights and a coroutine that reads as a list of operators. It is recorded,
// planned, placed and run like those that come with tern. This one is Llama without rope and with one norm in each
// layer, over the weights of the tiny model: it shows the way, and its text is no prose.
#include <cstdio>
#include <string>
#include <vector>

#include <tern/file/open_checkpoint.hpp>
#include <tern/model/read_config.hpp>
#include <tern/model/runtime.hpp>
#include <tern/op/feed_forward.hpp>
#include <tern/tern.hpp>

using namespace tern::literals;

// Any of three formats, on the accelerator or in the mapped file.
using weight = tern::tensor<tern::formats<tern::q8_0, tern::f16, tern::f32>, tern::tiers<tern::vram, tern::mapped>,
                            tern::staged<64_KiB, 2>>;

class my_decoder {
public:
    my_decoder(tern::weights<weight>& from, tern::decoder_config config) : config_(std::move(config)) {
        embedding_ = from.matrix("token_embd.weight", config_.vocabulary, config_.width);
        for (std::size_t i = 0; i < config_.layers; ++i) {
            const std::string blk = "blk." + std::to_string(i) + ".";
            const std::size_t keys = config_.kv_heads * config_.head_dim;
            layers_.push_back({.norm = from.vector(blk + "attn_norm.weight", config_.width),
                               .q = from.matrix(blk + "attn_q.weight", config_.heads * config_.head_dim, config_.width),
                               .k = from.matrix(blk + "attn_k.weight", keys, config_.width),
                               .v = from.matrix(blk + "attn_v.weight", keys, config_.width),
                               .o = from.matrix(blk + "attn_output.weight", config_.width, config_.width),
                               .gate = from.matrix(blk + "ffn_gate.weight", config_.hidden, config_.width),
                               .up = from.matrix(blk + "ffn_up.weight", config_.hidden, config_.width),
                               .down = from.matrix(blk + "ffn_down.weight", config_.width, config_.hidden)});
        }
        norm_ = from.vector("output_norm.weight", config_.width);
    }

    const tern::decoder_config& config() const { return config_; }

    template <tern::kv_cache Cache>
    tern::task<tern::activation> forward(tern::context& ctx, const tern::batch& b, Cache& cache) const {
        cache.reserve(b);
        tern::activation x = co_await tern::embed(ctx, embedding_, b.tokens);
        for (std::size_t i = 0; i < layers_.size(); ++i) {
            const layer& l = layers_[i];
            const tern::activation h = co_await tern::rms_norm(ctx, x, l.norm, config_.norm_eps);
            tern::activation q = co_await tern::linear(ctx, h, l.q);
            tern::activation k = co_await tern::linear(ctx, h, l.k);
            tern::activation v = co_await tern::linear(ctx, h, l.v);
            const tern::activation seen = co_await tern::attention(ctx, std::move(q), std::move(k), std::move(v), b,
                                                                   cache, i, tern::full_attention(config_));
            const tern::activation attended = co_await tern::linear(ctx, seen, l.o);
            const tern::activation hidden = co_await tern::swiglu(ctx, h, l.gate, l.up);
            const tern::activation fed = co_await tern::linear(ctx, hidden, l.down);
            x = co_await tern::add(ctx, std::move(x), attended);
            x = co_await tern::add(ctx, std::move(x), fed);
        }
        x = co_await tern::select_rows(ctx, std::move(x), b.outputs);
        x = co_await tern::rms_norm(ctx, x, norm_, config_.norm_eps);
        co_return co_await tern::linear(ctx, x, embedding_);
    }

private:
    struct layer {
        weight norm, q, k, v, o, gate, up, down;
    };
    tern::decoder_config config_;
    weight embedding_;
    std::vector<layer> layers_;
    weight norm_;
};
static_assert(tern::decoder_model<my_decoder>);

int main() try {
    const tern::checkpoint file = tern::open_checkpoint("examples/data/tiny.gguf");
    tern::runtime run({.threads = 1, .vram = 1_MiB});
    tern::weights<weight> from(file, run.store());
    const my_decoder model(from, tern::read_config(file));

    const tern::graph graph = tern::record(model, run.loop(), run.cpu(), 8);
    const tern::placement plan = tern::first_fit{}.place(graph, run.machine());
    run.load(plan, graph);
    std::printf("%zu tensors and %zu calls recorded; all weights placed: %s\n", graph.tensors.size(),
                graph.nodes.size(), plan.tensors.size() == graph.tensors.size() ? "yes" : "no");

    // The logits with a part on the accelerator are those with all of it on the host, bit for bit.
    tern::batch b;
    b.add(std::vector<std::int32_t>{1, 5, 9, 2, 6}, 0);
    const auto logits = [&](tern::runtime& where, const my_decoder& decoder) {
        tern::contiguous_cache cache(where.ram(), decoder.config().cache_for(8));
        tern::activation y = where.loop().run(decoder.forward(where.ctx(), b, cache));
        y = where.loop().run(where.ctx().bring(std::move(y), where.cpu()));
        return std::vector<float>(y.data(), y.data() + y.cols());
    };
    tern::runtime host({.threads = 2});
    tern::weights<weight> host_weights(file, host.store());
    const my_decoder host_model(host_weights, tern::read_config(file));
    std::printf("same logits on the host alone: %s\n", logits(run, model) == logits(host, host_model) ? "yes" : "no");
} catch (const tern::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
