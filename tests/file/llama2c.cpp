#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/file/llama2c.hpp>

#include "support/data.hpp"

namespace {

/// A model file of width 4, hidden 6, 1 layer, 2 heads, 1 key head, 3 tokens, context 5.
std::string model_bytes(std::vector<std::int32_t> header = {4, 6, 1, 2, 1, 3, 5}) {
    const std::size_t floats = 3 * 4 + 4 + 16 + 8 + 8 + 16 + 4 + 24 + 24 + 24 + 4 + 2 * 5 * 1;
    std::string bytes(header.size() * 4 + floats * 4, '\0');
    std::memcpy(bytes.data(), header.data(), header.size() * 4);
    for (std::size_t i = 0; i < floats; ++i) {
        const auto value = static_cast<float>(i);
        std::memcpy(bytes.data() + header.size() * 4 + i * 4, &value, 4);
    }
    return bytes;
}

struct written {
    std::string path;
    explicit written(const std::string& bytes) {
        char name[] = "/tmp/tern-llama2c-XXXXXX";
        const int fd = mkstemp(name);
        path = name;
        FILE* file = fdopen(fd, "wb");
        fwrite(bytes.data(), 1, bytes.size(), file);
        fclose(file);
    }
    ~written() { std::remove(path.c_str()); }
};

} // namespace

TEST_CASE("file/llama2c: tensors lie where the format says") {
    const written file(model_bytes());
    const tern::checkpoint model = tern::open_llama2c(file.path);
    CHECK(model.tensors().size() == 11);
    CHECK(model.find("output.weight") == nullptr);
    float first = -1;
    const auto at = [&](const char* name) {
        std::memcpy(&first, model.mapped(model.at(name)).data(), 4);
        return first;
    };
    CHECK(at("token_embd.weight") == 0);
    CHECK(at("blk.0.attn_norm.weight") == 12);
    CHECK(at("blk.0.attn_q.weight") == 16);
    CHECK(at("blk.0.attn_k.weight") == 32);
    CHECK(at("blk.0.attn_v.weight") == 40);
    CHECK(at("blk.0.attn_output.weight") == 48);
    CHECK(at("blk.0.ffn_norm.weight") == 64);
    CHECK(at("blk.0.ffn_gate.weight") == 68);
    CHECK(at("blk.0.ffn_down.weight") == 92);
    CHECK(at("blk.0.ffn_up.weight") == 116);
    CHECK(at("output_norm.weight") == 140);
    CHECK(model.at("blk.0.ffn_down.weight").shape == std::vector<std::uint64_t>{4, 6});
    CHECK(model.metadata().get<std::uint32_t>("llama.attention.head_count_kv") == 1);
}

TEST_CASE("file/llama2c: what does not fit is refused with the file's name") {
    const auto refused = [](const std::string& bytes) {
        const written file(bytes);
        try {
            tern::open_llama2c(file.path);
        } catch (const tern::error& e) { return std::string(e.what()).find(file.path) != std::string::npos; }
        return false;
    };
    const std::string good = model_bytes();
    for (std::size_t cut = 0; cut < good.size(); cut += 3) CHECK(refused(good.substr(0, cut)));
    CHECK(refused(good + "x"));
    CHECK(refused(model_bytes({4, 6, 1, 3, 1, 3, 5})));
    CHECK(refused(model_bytes({4, 6, 1, 2, 1, 0, 5})));
    CHECK(refused(model_bytes({4, 6, 1, 2, 1, INT32_MIN, 5})));
    CHECK(refused(model_bytes({4, 6, 1, 2, 1, -3, 5})));
    const std::int32_t huge = 0x7ffffffe;
    CHECK(refused(model_bytes({huge, huge, huge, 2, 1, huge, huge})));
}

TEST_CASE("file/llama2c: the tokenizer's tokens, types and spaces") {
    std::string words(4, '\0');
    for (const std::string text : {"<unk>", "\n<s>\n", "<0x0A>"}) {
        const float score = -1;
        const auto length = static_cast<std::int32_t>(text.size());
        words.append(reinterpret_cast<const char*>(&score), 4);
        words.append(reinterpret_cast<const char*>(&length), 4);
        words += text;
    }
    const written model(model_bytes());
    const written tokenizer(words);
    const tern::checkpoint file = tern::open_llama2c(model.path, tokenizer.path);
    CHECK(file.metadata().strings("tokenizer.ggml.tokens") == std::vector<std::string>{"<unk>", "<s>", "</s>"});
    const written cut(words.substr(0, words.size() - 1));
    CHECK_THROWS_AS(tern::open_llama2c(model.path, cut.path), tern::error);
}

TEST_CASE("file/llama2c: stories260K equals its GGUF twin") {
    const auto bin = tern::test::shared_file("stories260K/stories260K.bin");
    const auto tok = tern::test::shared_file("stories260K/tok512.bin");
    if (!bin || !tok) return;
    const tern::checkpoint file = tern::open_llama2c(*bin, *tok);
    CHECK(file.metadata().strings("tokenizer.ggml.tokens").size() == 512);
    CHECK(file.metadata().strings("tokenizer.ggml.tokens")[403] == "\u2581Once");
    CHECK(file.at("blk.4.ffn_down.weight").shape == std::vector<std::uint64_t>{64, 172});
}
