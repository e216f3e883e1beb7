// Opening decoders: missing, misshapen and unsupported tensors, tied outputs, shards.
#include <tern/model/weights.hpp>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/file/open_checkpoint.hpp>
#include <tern/model/decoder.hpp>
#include <tern/model/llama.hpp>
#include <tern/model/read_config.hpp>
#include <tern/plan/all_cpu.hpp>
#include <tern/plan/first_fit.hpp>
#include <tern/plan/layer_stream.hpp>
#include <tern/transfer/repacked.hpp>

#include <support/model.hpp>

#include "files.hpp"

namespace test = tern::test;
using namespace tern::literals;

namespace {

template <class E = tern::error> void refused(const test::model_file& f, const std::string& part) {
    CAPTURE(part);
    test::temporary_folder folder;
    std::string text;
    try {
        const tern::checkpoint file = tern::open_gguf(f.write(folder.file("m.gguf")));
        tern::runtime run({.threads = 1});
        test::open(file, run.store());
    } catch (const E& e) { text = e.what(); }
    CAPTURE(text);
    CHECK(text.find("m.gguf") != std::string::npos);
    CHECK(text.find(part) != std::string::npos);
}

std::vector<float> logits_of(const std::string& path) {
    test::model m(path, {.threads = 1});
    tern::contiguous_cache kv = m.cache(4);
    return m.logits(std::vector<std::int32_t>{1, 2, 3}, kv);
}

} // namespace

TEST_CASE("model/weights: a tensor that is missing, of another shape or of a format without a decoder is named") {
    const test::model_file plain = test::model_file::llama();
    for (const auto& [name, tensor] : plain.tensors) {
        test::model_file f = plain;
        f.tensors.erase(name);
        refused<tern::parse_error>(f, name);
        f.tensors[name] = {{5, 7}};
        refused<tern::parse_error>(f, name);
    }
    test::model_file f = test::model_file::llama();
    f.set("llama.embedding_length", std::uint32_t{256}).set("llama.attention.head_count", std::uint32_t{64});
    f.tensors["token_embd.weight"] = {{32, 256}, "iq2_xs"};
    refused<tern::unsupported_error>(f, "iq2_xs");
    refused<tern::unsupported_error>(f, "token_embd.weight");
    f = test::model_file::llama();
    f.set("llama.block_count", std::uint32_t{0xffffffff});
    refused<tern::parse_error>(f, "blk.1.attn_norm.weight");
    f = test::model_file::llama();
    f.set("llama.feed_forward_length", std::uint32_t{0});
    refused<tern::parse_error>(f, "blk.0.ffn_gate.weight");
}

TEST_CASE("model/weights: an unknown architecture is said to be so, whatever its keys are; gemma3 needs a pattern") {
    test::model_file f;
    f.set("general.architecture", std::string("mamba"));
    f.tensors["x"] = {{4}};
    refused<tern::unsupported_error>(f, "mamba");
    f = test::model_file::llama("gemma3");
    f.set("gemma3.attention.sliding_window_pattern", std::uint32_t{0});
    refused<tern::parse_error>(f, "sliding_window_pattern");
}

TEST_CASE("model/weights: without output.weight the embedding is the output, with it in another shard it is not") {
    test::temporary_folder folder;
    test::model_file f = test::model_file::llama();
    const std::vector<float> tied = logits_of(f.write(folder.file("tied.gguf")));
    REQUIRE(tied.size() == 3 * 32);

    test::model_file first = f, second;
    for (test::model_file* part : {&first, &second}) {
        part->set("split.count", std::uint16_t{2});
        part->set("split.tensors.count", static_cast<std::int32_t>(f.tensors.size() + 1));
    }
    first.set("split.no", std::uint16_t{0});
    second.set("split.no", std::uint16_t{1});
    second.tensors["output.weight"] = {{32, 16}};
    first.write(folder.file("m-00001-of-00002.gguf"));
    second.write(folder.file("m-00002-of-00002.gguf"));
    const std::string path = folder.file("m-00001-of-00002.gguf");
    test::model m(path, {.threads = 1});
    const tern::graph g = m.record();
    CHECK(g.tensors.back().name == "output.weight");
    CHECK(g.tensors.size() == f.tensors.size() + 1);
    CHECK(!test::same_bits(logits_of(path), tied));
}

TEST_CASE("model/weights: a vector may be stored with a leading 1, and packed experts are slices") {
    test::temporary_folder folder;
    test::model_file f = test::model_file::llama();
    f.tensors["blk.0.attn_norm.weight"] = {{1, 16}};
    f.set("llama.expert_count", std::uint32_t{3}).set("llama.expert_used_count", std::uint32_t{2});
    for (const char* dense : {"gate", "up", "down"}) f.tensors.erase(std::string("blk.0.ffn_") + dense + ".weight");
    f.tensors["blk.0.ffn_gate_inp.weight"] = {{3, 16}};
    f.tensors["blk.0.ffn_gate_exps.weight"] = {{3, 24, 16}};
    f.tensors["blk.0.ffn_up_exps.weight"] = {{3, 24, 16}};
    f.tensors["blk.0.ffn_down_exps.weight"] = {{3, 16, 24}};
    const std::string path = f.write(folder.file("moe.gguf"));
    test::model m(path, {.threads = 1});
    for (const tern::planned_tensor& t : m.record().tensors) {
        const bool packed = t.name.find("_exps") != std::string::npos;
        CHECK(t.shape.experts == (packed ? 3 : 1));
        if (packed) CHECK(m.run().store().name(t.first + 2) == t.name + "[2]");
    }
    CHECK(logits_of(path).size() == 3 * 32);
}

TEST_CASE("model/weights: a row for each expert may be stored with or without a dimension of 1; numbers are read") {
    test::temporary_folder folder;
    test::model_file f = test::model_file::llama();
    f.tensors["flat"] = {{3, 16}};
    f.tensors["deep"] = {{3, 1, 16}};
    f.tensors["other"] = {{16, 3}};
    const tern::checkpoint file = tern::open_gguf(f.write(folder.file("m.gguf")));
    tern::runtime run({.threads = 1});
    tern::weights<tern::any_weight> from(file, run.store());
    for (const char* name : {"flat", "deep"}) {
        const tern::any_weight w = from.expert_vectors(name, 3, 16);
        CHECK(w.shape() == tern::tensor_shape{1, 16, 3});
        CHECK(w.slice_bytes() == 64_B);
        CHECK_THROWS_AS(from.expert_vectors(name, 4, 12), tern::parse_error);
    }
    CHECK_THROWS_AS(from.expert_vectors("other", 3, 16), tern::parse_error);
    CHECK_THROWS_AS(from.vector("flat", 48), tern::parse_error);
    const std::vector<float> values = from.numbers("flat", 48);
    REQUIRE(values.size() == 48);
    CHECK(std::memcmp(values.data(), file.mapped(file.at("flat")).data(), 192) == 0);
    CHECK_THROWS_AS(from.numbers("flat", 47), tern::parse_error);
    CHECK_THROWS_AS(from.numbers("absent", 1), tern::parse_error);
}

TEST_CASE("model/weights: a stored tensor that the decoder does not use is refused, not ignored") {
    test::model_file f = test::model_file::llama();
    f.tensors["blk.0.attn_output.bias"] = {{16}};
    refused<tern::unsupported_error>(f, "blk.0.attn_output.bias");
    f = test::model_file::llama();
    f.tensors["blk.1.attn_norm.weight"] = {{16}};
    refused<tern::unsupported_error>(f, "blk.1.attn_norm.weight");
}

TEST_CASE("model/weights: biases of queries, keys and values in a llama file are used") {
    test::model_file f = test::model_file::llama();
    test::temporary_folder folder;
    const std::vector<float> without = logits_of(f.write(folder.file("a.gguf")));
    f.tensors["blk.0.attn_v.bias"] = {{8}};
    CHECK(logits_of(f.write(folder.file("b.gguf"))) != without);
}

namespace {

/// Stored in f32, in half the bytes wherever it is computed.
using halved = tern::tensor<tern::formats<tern::f16, tern::f32>,
                            tern::tiers<tern::vram, tern::pageable, tern::mapped, tern::direct>,
                            tern::repacked<tern::f32, tern::f16, tern::prefetched<4>>>;

tern::task<std::vector<float>> forward(tern::context& ctx, const tern::llama<halved>& model, const tern::batch& b,
                                       tern::contiguous_cache& kv) {
    tern::activation y = co_await model.forward(ctx, b, kv);
    y = co_await ctx.bring(std::move(y), ctx.host());
    co_return std::vector<float>(y.data(), y.data() + y.rows() * y.cols());
}

} // namespace

TEST_CASE(
    "model/weights: a transfer that repacks makes the decoder's tensors of the other format, in every placement") {
    test::temporary_folder folder;
    const std::string path = test::model_file::llama().write(folder.file("m.gguf"));
    const std::vector<float> exact = logits_of(path);
    const tern::checkpoint file = tern::open_gguf(path);
    tern::runtime run({.threads = 1, .ram = 1_MiB, .vram = 1_MiB});
    tern::weights<halved> from(file, run.store());
    const tern::llama<halved> model(from, tern::read_config(file));
    const tern::graph g = tern::record(model, run.loop(), run.cpu(), 4);
    std::uint64_t stored = 0;
    for (const auto& t : file.tensors()) stored += t.bytes;
    CHECK(g.weight_bytes().count == stored / 2); // budgets count what arrives
    for (const tern::planned_tensor& t : g.tensors) {
        CHECK(t.format == "f16");
        CHECK(t.ahead == 4);
        CHECK(run.store().size(t.first) == t.slice_size);
        CHECK(run.store().where(t.first).empty()); // its mapping is none of its copies
    }
    std::vector<float> first;
    const auto check = [&](const tern::placement& p) {
        CAPTURE(p.policy);
        run.load(p, g);
        tern::batch b;
        b.add(std::vector<std::int32_t>{1, 2, 3}, 0, 0, true);
        tern::contiguous_cache kv(run.ram(), model.config().cache_for(4));
        const std::vector<float> got = run.loop().run(forward(run.ctx(), model, b, kv));
        if (first.empty()) first = got;
        CHECK(test::same_bits(got, first));
    };
    check(tern::all_cpu{}.place(g, run.machine())); // mapped, and brought for each use
    CHECK(run.store().counters().arrivals >= g.tensors.size());
    check(tern::all_cpu{tern::tier_of<tern::pageable>}.place(g, run.machine()));
    CHECK(run.ram().budget().used() >= g.weight_bytes());
    CHECK(run.ram().budget().used().count < stored);
    check(tern::first_fit{}.place(g, run.machine()));
    CHECK(run.accelerator()->memory().budget().requested().count < stored);
    check(tern::layer_stream{}.place(g, run.machine()));
    CHECK(!test::same_bits(first, exact)); // f16 is not f32
    CHECK(test::relative_error(first, exact) < 5e-3);
}
