#include <tern/file/open_checkpoint.hpp>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tern/file/gguf_writer.hpp>
#include <tern/format/formats.hpp>

#include "file/bytes.hpp"
#include "support/data.hpp"

using namespace tern;
using namespace tern::test;

namespace {

std::string gguf_file() {
    memory_sink sink;
    gguf_writer writer(sink);
    writer.set("general.architecture", "llama");
    writer.add("token_embd.weight", {2, 3, 32}, "q4_0");
    writer.add("rare", {256}, "iq2_xxs");
    writer.write("token_embd.weight", std::vector<std::byte>(108, std::byte{5}));
    writer.write("rare", std::vector<std::byte>(66, std::byte{6}));
    writer.finish();
    return {reinterpret_cast<const char*>(sink.bytes().data()), sink.bytes().size()};
}

std::string safetensors_file() {
    return safetensors_bytes(R"({"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})", std::string(8, '\1'));
}

} // namespace

TEST_CASE("file/open_checkpoint: one view over both containers, told by content") {
    temporary_folder folder;
    const checkpoint gguf = open_checkpoint(folder.write("a.bin", gguf_file()));
    CHECK(gguf.container() == "gguf");
    CHECK(gguf.metadata().get<std::string>("general.architecture") == "llama");
    CHECK(gguf.at("token_embd.weight").shape == std::vector<std::uint64_t>{2, 3, 32}); // experts, rows, cols
    CHECK(gguf.at("token_embd.weight").format == "q4_0");
    CHECK(gguf.tensors().size() == 2);
    CHECK(gguf.shard_count() == 1);

    const checkpoint safe = open_checkpoint(folder.write("b.bin", safetensors_file()));
    CHECK(safe.container() == "safetensors");
    CHECK(safe.at("w").shape == std::vector<std::uint64_t>{1, 2});
    CHECK(safe.at("w").format == "f32");

    const checkpoint set = open_checkpoint(folder.write("c.bin", R"({"weight_map":{"w":"b.bin"}})"));
    CHECK(set.container() == "safetensors");
    CHECK(set.path() == folder.path() + "/b.bin");
}

TEST_CASE("file/open_checkpoint: five faults, five errors with path, tensor and numbers") {
    temporary_folder folder;
    const std::string missing = folder.path() + "/missing";
    CHECK(contains(message_of<io_error>([&] { open_checkpoint(missing); }), missing + ": cannot open"));
    const std::string magic = folder.write("magic", std::string(100, 'x'));
    CHECK(contains(message_of<parse_error>([&] { open_checkpoint(magic); }), magic + ": is neither a GGUF file nor"));
    for (const std::string& text : {std::string("GGUF"), std::string("{\"a\""), std::string("PK\3\4"), std::string()})
        CHECK_THROWS_AS(open_checkpoint(folder.write("short", text)), parse_error);
    const std::string cut = folder.write("cut", gguf_file().substr(0, gguf_file().size() - 100));
    const std::string what = message_of<parse_error>([&] { open_checkpoint(cut); });
    CHECK(contains(what, cut + ": tensor \"rare\": its data goes past the end of the file"));
    CHECK(contains(what, "(needed "));
    const std::string type =
        folder.write("type", byte_builder{}.header(1, 0).tensor("t", {4}, 77, 0).pad().zeros(16).out);
    CHECK(contains(message_of<parse_error>([&] { open_checkpoint(type); }), "tensor \"t\": its type id 77 is unknown"));
    CHECK_THROWS_AS(open_checkpoint(folder.path()), io_error);
}

TEST_CASE("file/open_checkpoint: a format without implementation is listed, and refused when used") {
    temporary_folder folder;
    const std::string path = folder.write("a.gguf", gguf_file());
    const checkpoint model = open_gguf(path);
    CHECK(model.format_index<all_formats>(model.at("token_embd.weight")) == all_formats::index_of<q4_0>);
    CHECK(contains(message_of<unsupported_error>([&] { model.format_index<all_formats>(model.at("rare")); }),
                   path + ": tensor \"rare\": has the format iq2_xxs"));
}

TEST_CASE("file/open_checkpoint: bytes are mapped and read, and stay where they are through a move") {
    temporary_folder folder;
    checkpoint model = open_gguf(folder.write("a.gguf", gguf_file()));
    const stored_tensor& rare = model.at("rare");
    const std::span<const std::byte> mapped = model.mapped(rare);
    REQUIRE(mapped.size() == 66);
    CHECK(mapped[65] == std::byte{6});
    CHECK(model.mapping(0).size() == gguf_file().size());
    const checkpoint moved = std::move(model);
    CHECK(moved.mapped(moved.at("rare")).data() == mapped.data());
    CHECK(&moved.at("rare") == &rare);
    std::vector<std::byte> read(66);
    moved.read(rare, read);
    CHECK(std::memcmp(read.data(), mapped.data(), 66) == 0);
    CHECK_THROWS_AS(moved.read(rare, std::span(read).first(65)), shape_error);
    CHECK_THROWS_AS(moved.source(1), shape_error);
    CHECK_THROWS_AS(moved.mapping(1), shape_error);
    CHECK_THROWS_WITH_AS(moved.at("nothing"), doctest::Contains("tensor \"nothing\": is not in the file"), parse_error);
}

TEST_CASE("file/open_checkpoint: a model in memory needs no file") {
    const std::string bytes = gguf_file();
    const checkpoint model = open_checkpoint(
        "embedded", [&](const std::string& name) { return std::make_unique<memory_source>(as_bytes_of(bytes), name); });
    CHECK(model.mapped(model.at("rare")).data() ==
          as_bytes_of(bytes).data() + static_cast<std::ptrdiff_t>(model.at("rare").offset));
    const checkpoint unmapped = open_checkpoint("a", open_memory{{{"a", bytes}}});
    CHECK_THROWS_AS(unmapped.mapping(0), unsupported_error);
    std::vector<std::byte> read(66);
    unmapped.read(unmapped.at("rare"), read);
    CHECK(read[0] == std::byte{6});
}

TEST_CASE("file/open_checkpoint: an absent output tensor is told apart from one in the second shard") {
    const auto shard = [](int number, const char* name) {
        return byte_builder{}
            .header(1, 2)
            .key("split.no", gguf_value_type::uint16)
            .number(static_cast<std::uint16_t>(number))
            .key("split.count", gguf_value_type::uint16)
            .number<std::uint16_t>(2)
            .tensor(name, {8}, 0, 0)
            .pad()
            .zeros(32)
            .out;
    };
    const auto open = [&](const char* second) {
        return open_gguf("m-00001-of-00002.gguf", {},
                         open_memory{{{"m-00001-of-00002.gguf", shard(0, "token_embd.weight")},
                                      {"m-00002-of-00002.gguf", shard(1, second)}}});
    };
    const checkpoint tied = open("output_norm.weight");
    CHECK(tied.find("output.weight") == nullptr);
    const checkpoint untied = open("output.weight");
    REQUIRE(untied.find("output.weight") != nullptr);
    CHECK(untied.find("output.weight")->shard == 1);
}

TEST_CASE("file/open_checkpoint: real files open, and their tensors fill them") {
    const char* names[] = {"stories260K-f16",
                           "stories260K-f32",
                           "stories260K-q4_0",
                           "stories260K-q8_0",
                           "tinystories656K-bf16",
                           "tinystories656K-f16",
                           "tinystories656K-f32",
                           "tinystories656K-iq4_nl",
                           "tinystories656K-moe8x2-copies-f32",
                           "tinystories656K-moe8x2-noisy-mxfp4",
                           "tinystories656K-moe8x2-noisy-q4_0",
                           "tinystories656K-moe8x2-noisy-q8_0",
                           "tinystories656K-mxfp4",
                           "tinystories656K-q4_0",
                           "tinystories656K-q4_1",
                           "tinystories656K-q5_0",
                           "tinystories656K-q5_1",
                           "tinystories656K-q8_0"};
    for (const std::string name : names) {
        const auto path = shared_file("gguf/" + name + ".gguf");
        if (!path) return;
        CAPTURE(name);
        const checkpoint model = open_checkpoint(*path);
        CHECK(model.metadata().get<std::string>("general.architecture") == "llama");
        const auto layers = model.metadata().get<std::uint32_t>("llama.block_count");
        CHECK(model.find("blk." + std::to_string(layers - 1) + ".attn_q.weight") != nullptr);
        CHECK(model.find("output.weight") == nullptr);
        const stored_tensor& embedding = model.at("token_embd.weight");
        CHECK(embedding.shape[0] == model.metadata().strings("tokenizer.ggml.tokens").size());
        std::uint64_t end = 0;
        for (const stored_tensor& tensor : model.tensors()) end = std::max(end, tensor.offset + tensor.bytes);
        CHECK(end <= model.source(0).size());
        CHECK(end + 32 > model.source(0).size());
    }
    const checkpoint moe = open_checkpoint(*shared_file("gguf/tinystories656K-moe8x2-noisy-q4_0.gguf"));
    CHECK(moe.at("blk.0.ffn_up_exps.weight").shape == std::vector<std::uint64_t>{8, 384, 128});
}

TEST_CASE("file/open_checkpoint: real vocabularies open") {
    const std::pair<const char*, std::size_t> files[] = {{"deepseek-coder", 32256}, {"gpt-2", 50257},
                                                         {"gemma-4", 262144},       {"llama-bpe", 128256},
                                                         {"llama-spm", 32000},      {"qwen2", 151936}};
    for (const auto& [name, tokens] : files) {
        const auto path = shared_file(std::string("vocab/ggml-vocab-") + name + ".gguf");
        if (!path) return;
        CHECK(open_checkpoint(*path).metadata().strings("tokenizer.ggml.tokens").size() == tokens);
    }
}

TEST_CASE("file/open_checkpoint: a real safetensors file opens") {
    const auto path = shared_file("tinystories656K/model.safetensors");
    if (!path) return;
    const checkpoint model = open_checkpoint(*path);
    CHECK(model.tensors().size() == 20);
    CHECK(model.at("lm_head.weight").shape == std::vector<std::uint64_t>{2048, 128});
    CHECK(model.metadata().get<std::string>("format") == "pt");
    CHECK(model.mapped(model.at("model.norm.weight")).size() == 512);
}
