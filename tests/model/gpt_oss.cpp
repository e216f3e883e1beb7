// GPT-OSS beyond its golden logits: every cache, placement and batch gives the same bits, and hostile files are
// refused.
#include <tern/model/gpt_oss.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tern/file/open_checkpoint.hpp>
#include <tern/op/paged_cache.hpp>
#include <tern/plan/expert_offload.hpp>
#include <tern/plan/first_fit.hpp>
#include <tern/plan/layer_split.hpp>
#include <tern/plan/layer_stream.hpp>

#include <support/data.hpp>
#include <support/model.hpp>

#include "files.hpp"

namespace {

namespace test = tern::test;
using namespace tern::literals;

constexpr std::size_t tokens = 40; // six windows long, and beyond the 16 tokens of yarn's original context

std::string file(const char* name = "gpt_oss") {
    return test::source_file(std::string("tests/data/logits/") + name + ".gguf");
}

std::vector<std::int32_t> text() {
    std::vector<std::int32_t> ids;
    for (std::size_t i = 0; i < tokens; ++i) ids.push_back(static_cast<std::int32_t>((i * i + 7 * i + 3) % 128));
    return ids;
}

/// The logits of every token, fed in pieces of `piece`.
template <tern::kv_cache Cache> std::vector<float> in_pieces(test::model& m, Cache& kv, std::size_t piece) {
    const std::vector<std::int32_t> all = text();
    std::vector<float> rows;
    for (std::size_t at = 0; at < tokens; at += piece) {
        const std::size_t size = piece < tokens - at ? piece : tokens - at;
        const std::vector<float> some = m.logits(std::span(all).subspan(at, size), kv);
        rows.insert(rows.end(), some.begin(), some.end());
    }
    return rows;
}

std::vector<float> answer(test::model& m, std::size_t piece = 9) {
    tern::contiguous_cache kv = m.cache(tokens);
    return in_pieces(m, kv, piece);
}

const tern::location vram{tern::tier_of<tern::vram>, 0, 0};
const tern::location pageable{tern::tier_of<tern::pageable>, 0, 0};
const tern::location mapped{tern::tier_of<tern::mapped>, 0, 0};

/// A file of one layer: width 32, 4 heads of 4, 2 key heads, 3 experts of 64, 2 used.
test::model_file small() {
    test::model_file f = test::model_file::llama("gpt-oss");
    f.set("gpt-oss.attention.sliding_window", std::uint32_t{8}).set("gpt-oss.embedding_length", std::uint32_t{32});
    f.set("gpt-oss.expert_count", std::uint32_t{3}).set("gpt-oss.expert_used_count", std::uint32_t{2});
    f.set("gpt-oss.expert_feed_forward_length", std::uint32_t{64})
        .set("gpt-oss.attention.key_length", std::uint32_t{4});
    const std::string blk = "blk.0.";
    f.tensors = {{"token_embd.weight", {{128, 32}}},
                 {"output_norm.weight", {{32}}},
                 {"output.weight", {{128, 32}}},
                 {blk + "attn_norm.weight", {{32}}},
                 {blk + "attn_q.weight", {{16, 32}}},
                 {blk + "attn_q.bias", {{16}}},
                 {blk + "attn_k.weight", {{8, 32}}},
                 {blk + "attn_k.bias", {{8}}},
                 {blk + "attn_v.weight", {{8, 32}}},
                 {blk + "attn_v.bias", {{8}}},
                 {blk + "attn_output.weight", {{32, 16}}},
                 {blk + "attn_output.bias", {{32}}},
                 {blk + "attn_sinks.weight", {{4}}},
                 {blk + "post_attention_norm.weight", {{32}}},
                 {blk + "ffn_gate_inp.weight", {{3, 32}}},
                 {blk + "ffn_gate_inp.bias", {{3}}},
                 {blk + "ffn_gate_exps.weight", {{3, 64, 32}}},
                 {blk + "ffn_gate_exps.bias", {{3, 64}}},
                 {blk + "ffn_up_exps.weight", {{3, 64, 32}}},
                 {blk + "ffn_up_exps.bias", {{3, 64}}},
                 {blk + "ffn_down_exps.weight", {{3, 32, 64}}},
                 {blk + "ffn_down_exps.bias", {{3, 32}}}};
    return f;
}

template <class E> void refused(const test::model_file& f, const std::string& part) {
    CAPTURE(part);
    test::temporary_folder folder;
    std::string said;
    try {
        const tern::checkpoint opened = tern::open_gguf(f.write(folder.file("m.gguf")));
        tern::runtime run({.threads = 1});
        test::open(opened, run.store());
    } catch (const E& e) { said = e.what(); }
    CAPTURE(said);
    CHECK(said.find("m.gguf") != std::string::npos);
    CHECK(said.find(part) != std::string::npos);
}

} // namespace

TEST_CASE(
    "model/gpt_oss: prefill, decode and any pieces give the same bits in every cache, on the host and on a device") {
    for (const tern::activation_policy policy : {tern::activation_policy::f32, tern::activation_policy::q8}) {
        CAPTURE(name_of(policy));
        test::model m(file(), {.threads = 2, .ram = 64_MiB, .vram = 8_MiB, .activations = policy});
        const std::vector<float> expected = answer(m, tokens);
        REQUIRE(expected.size() == tokens * 128);
        for (const std::size_t piece : {1u, 5u, 6u, 7u, 23u}) CHECK(test::same_bits(answer(m, piece), expected));
        for (const std::size_t page : {1u, 4u, 32u}) {
            tern::paged_cache kv(m.run().ram(), m.config().cache_for(tokens), page);
            CHECK(test::same_bits(in_pieces(m, kv, 11), expected));
            kv.truncate(0, 17); // across a window and yarn's original context, and again
            const std::vector<std::int32_t> all = text();
            const std::vector<float> rest = m.logits(std::span(all).subspan(17), kv);
            CHECK(test::same_bits(rest, std::span<const float>(expected).subspan(17 * 128)));
        }
        tern::contiguous_cache there(*m.run().accelerator(), m.config().cache_for(tokens));
        CHECK(test::same_bits(in_pieces(m, there, 8), expected));
    }
}

TEST_CASE("model/gpt_oss: activations in 8 bits stay near the exact ones") {
    test::model exact(file()), rounded(file(), {.threads = 1, .activations = tern::activation_policy::q8});
    const std::vector<float> a = answer(rounded), b = answer(exact);
    CHECK(!test::same_bits(a, b));
    // The mean: a choice of experts may turn where two are next to each other.
    double sum = 0, size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        sum += std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
        size += std::fabs(static_cast<double>(b[i]));
    }
    CHECK(sum < 0.1 * size);
}

TEST_CASE("model/gpt_oss: no placement changes a bit: random splits, by fit, by layer, streamed, and experts cached") {
    test::model plain(file(), {.threads = 1});
    const std::vector<float> expected = answer(plain);
    const tern::graph g = plain.record(tokens);
    std::mt19937 random(7);
    for (int round = 0; round < 4; ++round) {
        test::model m(file(), {.threads = 1 + random() % 2, .ram = 64_MiB, .vram = 64_MiB});
        std::vector<tern::location> where;
        for (std::size_t i = 0; i < g.tensors.size(); ++i) {
            const tern::location choices[] = {vram, pageable, mapped};
            where.push_back(choices[random() % 3]);
        }
        m.place(where);
        CHECK(test::same_bits(answer(m), expected));
    }
    const auto run = [&](const auto& policy, tern::bytes room, tern::on_miss how) {
        CAPTURE(policy.name);
        CAPTURE(room.count);
        test::model m(file(), {.threads = 2, .ram = 64_MiB, .vram = room});
        m.run().ctx().treat_misses(tern::miss_policy(how), &m.run().time());
        m.run().load(policy.place(g, m.run().machine()), g);
        CHECK(test::same_bits(answer(m), expected));
        CHECK(m.run().accelerator()->memory().budget().peak() <= room);
        CHECK(m.run().accelerator()->traffic().to_device.count > 0);
    };
    const tern::bytes half{g.activation_room().count + g.weight_bytes().count / 2};
    for (const tern::bytes room : {half, tern::bytes{4_MiB}}) {
        run(tern::first_fit{}, room, tern::on_miss::fetch);
        run(tern::layer_stream{}, room, tern::on_miss::fetch);
        for (const tern::on_miss how : {tern::on_miss::fetch, tern::on_miss::compute, tern::on_miss::split})
            run(tern::expert_offload{}, room, how);
    }
    run(tern::layer_split{.layers = 2}, 4_MiB, tern::on_miss::fetch);
}

TEST_CASE("model/gpt_oss: experts come and go with their biases where few of them have room") {
    test::model plain(file(), {.threads = 1});
    const std::vector<float> expected = answer(plain);
    const tern::graph g = plain.record(tokens);
    std::uint64_t room = g.activation_room().count + 6 * (2176 + 3 * 4096); // an expert, each part in whole pages
    for (const tern::planned_tensor& t : g.tensors)
        if (t.shape.experts == 1) room += t.slice_size.count + 3 * 4096;
    for (const tern::on_miss how : {tern::on_miss::fetch, tern::on_miss::compute, tern::on_miss::split}) {
        test::model m(file(), {.threads = 2, .ram = 64_MiB, .vram = {room}});
        m.run().ctx().treat_misses(tern::miss_policy(how), &m.run().time());
        const tern::placement p = tern::expert_offload{}.place(g, m.run().machine());
        for (std::size_t t = 0; t < g.tensors.size(); ++t)
            CHECK(p.tensors[t].streamed() == (g.tensors[t].shape.experts == 8));
        m.run().load(p, g);
        CHECK(test::same_bits(answer(m, 1), expected));
        CHECK(test::same_bits(answer(m), expected));
        if (how == tern::on_miss::fetch) CHECK(m.run().store().counters(*m.run().accelerator()).evictions > 100);
        if (how == tern::on_miss::compute) CHECK(m.run().ctx().expert_use().on_host > 100);
    }
}

TEST_CASE(
    "model/gpt_oss: the biases of an expert are slices of it, and sinks are none: they are read when it is opened") {
    test::model m(file());
    bool biases = false;
    for (const tern::planned_tensor& t : m.record().tensors) {
        CHECK(t.name.find("sinks") == std::string::npos);
        if (t.name != "blk.3.ffn_down_exps.bias") continue;
        biases = true;
        CHECK(t.shape == tern::tensor_shape{1, 64, 8});
        CHECK(m.run().store().name(t.first + 7) == "blk.3.ffn_down_exps.bias[7]");
    }
    CHECK(biases);
    CHECK(m.record().tensors.size() + m.config().layers == m.file().tensors().size());
    for (const tern::graph_node& node : m.record().nodes)
        if (node.active != 0) CHECK(node.tensors.size() == 6);
}

TEST_CASE("model/gpt_oss: a file's own pattern of windows is followed") {
    test::temporary_folder folder;
    const auto logits = [&](test::model_file f, std::uint32_t window, std::uint32_t pattern) {
        f.set("gpt-oss.attention.sliding_window", window);
        if (pattern != 0) f.set("gpt-oss.attention.sliding_window_pattern", pattern);
        test::model m(f.write(folder.file("p.gguf")), {.threads = 1});
        tern::contiguous_cache kv = m.cache(20);
        return m.logits(std::span<const std::int32_t>(text()).first(20), kv);
    };
    const std::vector<float> slides = logits(small(), 8, 0); // layer 0 of each two
    CHECK(test::same_bits(logits(small(), 8, 2), slides));
    CHECK(!test::same_bits(logits(small(), 8, 1), slides)); // all layers see all keys
    CHECK(test::same_bits(logits(small(), 8, 1), logits(small(), 64, 2)));
    CHECK(test::same_bits(std::span<const float>(slides).first(8 * 128),
                          std::span<const float>(logits(small(), 8, 1)).first(8 * 128)));
}

TEST_CASE("model/gpt_oss: tensors that are missing, misshapen or too many are named with their file") {
    const test::model_file plain = small();
    {
        test::temporary_folder folder;
        CHECK_NOTHROW(test::model(plain.write(folder.file("m.gguf")), {.threads = 1}));
    }
    for (const auto& [name, tensor] : plain.tensors) {
        test::model_file f = plain;
        f.tensors[name] = {{5, 7}};
        refused<tern::parse_error>(f, name);
        if (name == "output.weight") continue; // without it the embedding is the output
        f.tensors.erase(name);
        refused<tern::parse_error>(f, name);
    }
    for (const std::uint64_t heads : {3u, 5u}) {
        test::model_file f = plain;
        f.tensors["blk.0.attn_sinks.weight"] = {{heads}};
        refused<tern::parse_error>(f, "blk.0.attn_sinks.weight");
    }
    test::model_file f = plain;
    f.tensors["blk.0.attn_sinks.weight"] = {{4}, "i32"};
    refused<tern::error>(f, "blk.0.attn_sinks.weight");
    f = plain;
    f.tensors["blk.0.ffn_gate_exps.bias"] = {{64, 3}}; // turned
    refused<tern::parse_error>(f, "blk.0.ffn_gate_exps.bias");
    f = plain;
    f.tensors["blk.0.attn_q_norm.weight"] = {{4}};
    refused<tern::unsupported_error>(f, "blk.0.attn_q_norm.weight");
}

TEST_CASE("model/gpt_oss: windows, experts and contexts that make no sense are named with their file") {
    for (const std::uint32_t window : {0u, 65u, 0xffffffffu})
        refused<tern::parse_error>(small().set("gpt-oss.attention.sliding_window", window),
                                   "gpt-oss.attention.sliding_window of " + std::to_string(window));
    test::model_file f = small();
    f.keys.erase("gpt-oss.attention.sliding_window");
    refused<tern::parse_error>(f, "gpt-oss.attention.sliding_window of 0");
    refused<tern::parse_error>(small().set("gpt-oss.attention.sliding_window_pattern", std::uint32_t{0}),
                               "sliding_window_pattern");
    f = small();
    f.keys.erase("gpt-oss.expert_count");
    refused<tern::parse_error>(f, "gpt-oss.expert_count");
    refused<tern::parse_error>(small().set("gpt-oss.expert_count", std::uint32_t{0xffffffff}), "ffn_gate_inp.weight");
    refused<tern::parse_error>(small().set("gpt-oss.expert_used_count", std::uint32_t{4}), "uses 4 of 3 experts");
    refused<tern::parse_error>(small().set("gpt-oss.expert_feed_forward_length", std::uint32_t{0}), "ffn_gate_exps");
    refused<tern::parse_error>(small().set("gpt-oss.rope.scaling.type", std::string("yarn")),
                               "original_context_length");
}
