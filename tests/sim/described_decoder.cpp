#include <tern/sim/described_decoder.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/cost/presets.hpp>
#include <tern/cost/roofline.hpp>
#include <tern/file/open_checkpoint.hpp>
#include <tern/plan/all_cpu.hpp>
#include <tern/plan/layer_split.hpp>
#include <tern/sim/described_file.hpp>
#include <tern/sim/simulation.hpp>

#include <support/data.hpp>
#include <support/model.hpp>

#include "support.hpp"

namespace {

namespace test = tern::test;

/// The description of the tiny mixture, as one would write it.
tern::model_description tiny_mixture(const tern::decoder_config& c) {
    tern::model_description m;
    m.path = m.name = "tiny";
    m.architecture = "llama";
    m.vocabulary = c.vocabulary;
    m.width = c.width;
    m.context = c.context;
    m.tied_output = true;
    m.attentions = {{.heads = c.heads, .kv_heads = c.kv_heads, .head_dim = c.head_dim}};
    m.ffns = {{.hidden = c.expert_hidden, .experts = c.experts, .used = c.experts_used}};
    m.layers.assign(c.layers, {});
    m.formats = {"f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32"};
    return m;
}

/// The same of a small GPT-OSS.
tern::model_description tiny_gpt_oss(const tern::decoder_config& c) {
    tern::model_description m = tiny_mixture(c);
    m.architecture = "gpt-oss";
    m.tied_output = false;
    m.attentions.push_back(m.attentions.front());
    m.attentions.front().window = c.window;
    for (std::size_t i = 0; i < c.layers; ++i) m.layers[i].attention = i % 2;
    return m;
}

/// Decode and prefill rates of a committed model on a machine.
std::pair<double, double> rates(const std::string& name, const tern::machine& machine) {
    const tern::cost_by cost{tern::roofline(machine)};
    tern::simulation sim(machine, cost);
    const auto m = tern::read_description(test::source_file("examples/models/" + name + ".json"));
    const tern::checkpoint file = tern::described_file(m);
    const auto model = tern::open_described(m, file, sim.store());
    sim.maps(file);
    const tern::graph g = tern::record(*model, sim.loop(), sim.host(), 64);
    sim.load(tern::layer_split{.layers = tern::layer_split::as_many_as_fit}.place(g, sim.machine()), g);
    return {sim.decode(*model, 64, 2).tokens_per_second(), sim.prefill(*model, 64).tokens_per_second()};
}

} // namespace

TEST_CASE("sim/described_decoder: it calls what the ready-made decoder of the same shape calls") {
    const tern::checkpoint real = tern::open_checkpoint(test::source_file("examples/data/tiny-moe.gguf"));
    const tern::cost_by<test::by_bytes> cost{test::by_bytes{}};
    tern::simulation sim(test::plain_machine(), cost);
    const auto ready = test::open(real, sim.store());
    const tern::model_description m = tiny_mixture(ready->config());
    const tern::checkpoint file = tern::described_file(m);
    const auto described = tern::open_described(m, file, sim.store());
    const tern::graph a = tern::record(*ready, sim.loop(), sim.host(), 16);
    const tern::graph b = tern::record(*described, sim.loop(), sim.host(), 16);
    REQUIRE(a.nodes.size() == b.nodes.size());
    for (std::size_t i = 0; i < a.nodes.size(); ++i) {
        CAPTURE(i);
        CHECK(a.nodes[i].op == b.nodes[i].op);
        CHECK(a.nodes[i].rows == b.nodes[i].rows);
        CHECK(a.nodes[i].cols == b.nodes[i].cols);
        CHECK(a.nodes[i].active == b.nodes[i].active);
        CHECK(a.nodes[i].layer == b.nodes[i].layer);
        REQUIRE(a.nodes[i].tensors.size() == b.nodes[i].tensors.size());
        for (std::size_t t = 0; t < a.nodes[i].tensors.size(); ++t)
            CHECK(a.tensors[a.nodes[i].tensors[t]].name == b.tensors[b.nodes[i].tensors[t]].name);
    }
    CHECK(described->config().cache_for(10).width == ready->config().cache_for(10).width);
}

TEST_CASE("sim/described_decoder: the price of GPT-OSS is that of its decoder, but for biases and sinks") {
    const tern::checkpoint real = tern::open_checkpoint(test::source_file("tests/data/logits/gpt_oss.gguf"));
    const tern::cost_by<test::by_bytes> cost{test::by_bytes{}};
    tern::simulation sim(test::plain_machine(), cost);
    const auto ready = test::open(real, sim.store());
    const tern::model_description m = tiny_gpt_oss(ready->config());
    const tern::checkpoint file = tern::described_file(m);
    const auto described = tern::open_described(m, file, sim.store());
    const tern::graph a = tern::record(*ready, sim.loop(), sim.host(), 16);
    const tern::graph b = tern::record(*described, sim.loop(), sim.host(), 16);
    REQUIRE(a.nodes.size() == b.nodes.size());
    for (std::size_t i = 0; i < a.nodes.size(); ++i) {
        CAPTURE(i);
        CHECK(a.nodes[i].op == b.nodes[i].op);
        CHECK(a.nodes[i].rows == b.nodes[i].rows);
        CHECK(a.nodes[i].cols == b.nodes[i].cols);
        CHECK(a.nodes[i].active == b.nodes[i].active);
        CHECK(a.nodes[i].layer == b.nodes[i].layer);
        REQUIRE(a.nodes[i].tensors.size() >= b.nodes[i].tensors.size()); // biases come last
        for (std::size_t t = 0; t < b.nodes[i].tensors.size(); ++t)
            CHECK(a.tensors[a.nodes[i].tensors[t]].shape == b.tensors[b.nodes[i].tensors[t]].shape);
    }
    sim.maps(real);
    sim.load(tern::layer_split{}.place(a, sim.machine()), a);
    CHECK(sim.decode(*ready, 16, 2).tokens_per_second() > 0);
}

TEST_CASE("sim/described_decoder: decoding is bound by the bytes of what a token uses") {
    // 4.6 GB in q4_k, all in the memory of a card that reads 1008 GB/s at best.
    const auto [decode, prefill] = rates("llama3.1-8b-int4", tern::machines::rtx4090_64g());
    CHECK(decode < 1008 / 4.6);
    CHECK(decode > 30);
    CHECK(prefill > 4 * decode);
}

TEST_CASE("sim/described_decoder: latent and linear attention have prices, and nothing computes them") {
    for (const char* name : {"deepseek-v3-int4", "qwen3-next-80b-a3b-int4"}) {
        CAPTURE(name);
        const auto [decode, prefill] = rates(name, tern::machines::rtx4090_64g());
        CHECK(decode > 0.5);
        CHECK(prefill > decode);
    }
    CHECK_THROWS_AS(tern::kernel::latent_attention::reference<tern::kernel::no_format>({1, 1, 1, 1, 1}, 0, 1),
                    tern::unsupported_error);
    CHECK_THROWS_AS(tern::kernel::delta_attention::reference<tern::kernel::no_format>({1, 1, 1, 1}, 0, 1),
                    tern::unsupported_error);
}
