// Hostile and unusual metadata: each is an error that names the file and the key, or is read as stated.
#include <tern/model/read_config.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include <tern/file/open_checkpoint.hpp>

#include "files.hpp"

namespace test = tern::test;

namespace {

tern::decoder_config read(const test::model_file& f) {
    test::temporary_folder folder;
    return tern::read_config(tern::open_gguf(f.write(folder.file("m.gguf"))));
}

/// Refused with a tern error that names the file and holds `part`.
void refused(const test::model_file& f, const std::string& part) {
    CAPTURE(part);
    std::string text;
    try {
        read(f);
    } catch (const tern::error& e) { text = e.what(); }
    CAPTURE(text);
    CHECK(text.find("m.gguf") != std::string::npos);
    CHECK(text.find(part) != std::string::npos);
}

test::model_file plain() { return test::model_file::llama(); }

} // namespace

TEST_CASE("model/read_config: a plain file, and what is assumed where a key is absent") {
    const tern::decoder_config c = read(plain());
    CHECK(c.architecture == "llama");
    CHECK(c.layers == 1);
    CHECK(c.width == 16);
    CHECK(c.hidden == 24);
    CHECK(c.heads == 4);
    CHECK(c.kv_heads == 2);
    CHECK(c.head_dim == 4); // 16 / 4
    CHECK(c.context == 64);
    CHECK(c.vocabulary == 32);
    CHECK(c.norm_eps == 1e-5f);
    CHECK(c.experts == 0);
    CHECK(c.window == 0);
    REQUIRE(c.rope.inv_freq.size() == 2);
    CHECK(c.rope.inv_freq[1] == doctest::Approx(0.01));
    const tern::kv_shape cache = c.cache_for(10, 3);
    CHECK(cache.layers == 1);
    CHECK(cache.width == 8);
    CHECK(cache.context == 10);
    CHECK(cache.sequences == 3);
    test::model_file f = plain();
    f.keys.erase("llama.attention.head_count_kv");
    CHECK(read(f).kv_heads == 4);
    CHECK(read(plain().set("llama.expert_weights_scale", 0.0f)).expert_scale == 1);
    CHECK(read(plain().set("llama.rope.dimension_count", std::uint32_t{2})).rope.inv_freq.size() == 1);
}

TEST_CASE("model/read_config: missing keys are named") {
    for (const char* key : {"general.architecture", "llama.block_count", "llama.embedding_length",
                            "llama.attention.head_count", "llama.context_length"}) {
        test::model_file f = plain();
        f.keys.erase(key);
        refused(f, key);
    }
    test::model_file f = plain();
    f.tensors.erase("token_embd.weight");
    refused(f, "token_embd.weight");
    refused(plain().set("llama.block_count", std::string("many")), "llama.block_count");
    refused(plain().set("llama.context_length", std::int32_t{-1}), "llama.context_length");
}

TEST_CASE("model/read_config: zeros, and heads that do not divide") {
    for (const char* key :
         {"block_count", "embedding_length", "attention.head_count", "attention.head_count_kv", "context_length"})
        refused(plain().set(std::string("llama.") + key, std::uint32_t{0}), "of 0");
    refused(plain().set("llama.attention.head_count_kv", std::uint32_t{3}), "4 heads, no multiple of its 3");
    refused(plain().set("llama.attention.head_count_kv", std::uint32_t{8}), "no multiple of its 8");
    refused(plain().set("llama.attention.head_count", std::uint32_t{64}), "heads of 0 dimensions");
    refused(plain().set("llama.attention.key_length", std::uint32_t{0}), "heads of 0 dimensions");
    refused(plain().set("llama.attention.value_length", std::uint32_t{8}), "different lengths");
    // Nothing of that size is allocated.
    refused(plain()
                .set("llama.attention.key_length", std::uint32_t{0xfffffffe})
                .set("llama.attention.value_length", std::uint32_t{0xfffffffe}),
            "key_length of 4294967294");
}

TEST_CASE(
    "model/read_config: yarn, whose attention factor is one more on top, and whose bounds gpt-oss does not round") {
    const auto yarn = [](const std::string& arch) {
        test::model_file f = test::model_file::llama(arch);
        f.set(arch + ".attention.key_length", std::uint32_t{16}).set(arch + ".rope.freq_base", 10.0f);
        f.set(arch + ".rope.scaling.type", std::string("yarn")).set(arch + ".rope.scaling.factor", 8.0f);
        f.set(arch + ".rope.scaling.original_context_length", std::uint32_t{16});
        return f.set(arch + ".rope.scaling.yarn_beta_fast", 2.0f);
    };
    const double magnitude = 0.1 * std::log(8.0) + 1;
    CHECK(read(yarn("llama")).rope.magnitude == doctest::Approx(magnitude));
    CHECK(read(yarn("llama").set("llama.rope.scaling.attn_factor", 1.0f)).rope.magnitude == doctest::Approx(magnitude));
    CHECK(read(yarn("llama").set("llama.rope.scaling.attn_factor", 0.5f)).rope.magnitude ==
          doctest::Approx(magnitude / 2));
    for (const float wrong : {0.0f, -1.0f, std::numeric_limits<float>::infinity()})
        refused(yarn("llama").set("llama.rope.scaling.attn_factor", wrong), "attn_factor");
    // Two turns at pair 0.839, one at 3.246: pair 2 lies between, at 1/2 of the way from 0 to 4.
    const double plain = std::pow(10.0, -4.0 / 16);
    const auto at = [&](double ramp) { return plain * (ramp / 8 + 1 - ramp); };
    const double low = 16 * std::log(16 / (2 * 6.283185307179586)) / (2 * std::log(10.0));
    const double high = 16 * std::log(16 / 6.283185307179586) / (2 * std::log(10.0));
    CHECK(read(yarn("llama")).rope.inv_freq[2] == doctest::Approx(at(0.5)));
    CHECK(read(yarn("gpt-oss")).rope.inv_freq[2] == doctest::Approx(at((2 - low) / (high - low))));
}

TEST_CASE("model/read_config: rope that makes no sense") {
    refused(plain().set("llama.rope.dimension_count", std::uint32_t{3}), "rotates 3 dimensions");
    refused(plain().set("llama.rope.dimension_count", std::uint32_t{0}), "rotates 0 dimensions");
    refused(plain().set("llama.rope.dimension_count", std::uint32_t{6}), "rotates 6 dimensions of heads of 4");
    refused(plain().set("llama.rope.freq_base", 0.0f), "llama.rope.");
    refused(plain().set("llama.rope.freq_base", std::numeric_limits<float>::quiet_NaN()), "llama.rope.");
    refused(plain().set("llama.rope.scaling.type", std::string("longrope")), "longrope");
    refused(plain().set("llama.rope.scaling.type", std::string("yarn")), "original_context_length");
    refused(plain().set("llama.rope.scaling.type", std::string("linear")).set("llama.rope.scaling.factor", -1.0f),
            "llama.rope.");
    test::model_file f = plain();
    f.tensors["rope_freqs.weight"] = {{3}};
    refused(f, "rope_freqs.weight");
    f.tensors["rope_freqs.weight"] = {{2}};
    refused(f, "llama.rope."); // the written numbers are not all positive
}

TEST_CASE("model/read_config: experts, epsilon and the vocabulary") {
    refused(plain().set("llama.expert_count", std::uint32_t{4}), "uses 0 of 4 experts");
    refused(plain().set("llama.expert_count", std::uint32_t{4}).set("llama.expert_used_count", std::uint32_t{5}),
            "uses 5 of 4 experts");
    refused(plain().set("llama.attention.layer_norm_rms_epsilon", -1.0f), "layer_norm_rms_epsilon");
    refused(plain().set("llama.attention.layer_norm_rms_epsilon", std::numeric_limits<float>::quiet_NaN()),
            "layer_norm_rms_epsilon");
    test::model_file f = plain();
    f.tensors["token_embd.weight"] = {{32, 8}};
    refused(f, "token_embd.weight");
    f.tensors["token_embd.weight"] = {{512}};
    refused(f, "token_embd.weight");
}
