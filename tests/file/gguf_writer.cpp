#include <tern/file/gguf_writer.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/file/gguf_reader.hpp>

#include "file/bytes.hpp"

using namespace tern;
using namespace tern::test;

TEST_CASE("file/gguf_writer: what is written reads back") {
    memory_sink sink;
    gguf_writer writer(sink, 64);
    writer.set("general.architecture", "llama");
    writer.set("n", std::uint32_t{7});
    writer.set("eps", 1e-5f);
    writer.set("flag", true);
    writer.set("tokens", std::vector<std::string>{"a", "bc"});
    writer.set("scores", std::vector<float>{1.5f, -2.0f});
    gguf_array nested;
    nested.element = gguf_value_type::array;
    nested.arrays.push_back(make_gguf_array(std::vector<std::int8_t>{-1}));
    writer.set("nested", nested);
    const std::vector<float> values = {0, 1, 2, 3, 4, 5};
    writer.add("w", {2, 3}, "f32");
    writer.add("none", {0, 32}, "q4_0");
    writer.add("q", {2, 32}, "q4_0");
    writer.write("w", std::as_bytes(std::span(values)).first(10));
    writer.write("w", std::as_bytes(std::span(values)).subspan(10));
    writer.write("none", {});
    writer.write("q", std::vector<std::byte>(36, std::byte{9}));
    writer.finish();

    memory_source source(sink.bytes());
    const gguf_header header = read_gguf_header(source);
    CHECK(header.alignment == 64);
    CHECK(header.metadata.get<std::string>("general.architecture") == "llama");
    CHECK(header.metadata.find("n")->type() == gguf_value_type::uint32);
    CHECK(header.metadata.get<float>("eps") == 1e-5f);
    CHECK(header.metadata.get<bool>("flag"));
    CHECK(header.metadata.strings("tokens") == std::vector<std::string>{"a", "bc"});
    CHECK(header.metadata.get<std::vector<float>>("scores") == std::vector<float>{1.5f, -2.0f});
    CHECK(header.metadata.get<gguf_array>("nested").arrays[0].to_vector<int>() == std::vector<int>{-1});
    REQUIRE(header.tensors.size() == 3);
    CHECK(header.tensors[0].dims == std::vector<std::uint64_t>{3, 2}); // as the file has them: rows innermost
    std::vector<float> read(6);
    read_exact(source, header.tensors[0].offset, std::as_writable_bytes(std::span(read)));
    CHECK(read == values);
    CHECK(header.tensors[2].bytes == 36);
    CHECK(header.tensors[2].offset % 64 == 0);
    CHECK(source.resident()[static_cast<std::size_t>(header.tensors[2].offset) + 35] == std::byte{9});
    CHECK(source.size() % 64 == 0);
}

TEST_CASE("file/gguf_writer: an empty file is a file") {
    memory_sink sink;
    gguf_writer(sink).finish();
    memory_source source(sink.bytes());
    CHECK(read_gguf_header(source).tensors.empty());
}

TEST_CASE("file/gguf_writer: declarations that cannot be are refused") {
    memory_sink sink;
    CHECK_THROWS_AS(gguf_writer(sink, 24), config_error);
    CHECK_THROWS_AS(gguf_writer(sink, 0), config_error);
    gguf_writer writer(sink);
    writer.set("k", 1);
    CHECK_THROWS_AS(writer.set("k", 1), config_error);
    CHECK_THROWS_AS(writer.set("", 1), config_error);
    CHECK_THROWS_AS(writer.set("general.alignment", 64u), config_error);
    writer.add("t", {4}, "f32");
    CHECK_THROWS_AS(writer.add("t", {4}, "f32"), config_error);
    CHECK_THROWS_AS(writer.add("", {4}, "f32"), config_error);
    CHECK_THROWS_AS(writer.add("u", {4}, "f33"), config_error);
    CHECK_THROWS_AS(writer.add("u", {1, 1, 1, 1, 1}, "f32"), shape_error);
    CHECK(contains(message_of<shape_error>([&] {
                       writer.add("u", {4, 64}, "q4_k");
                   }),
                   "tensor \"u\": its row length 64"));
    CHECK_THROWS_AS(writer.add("u", {1ull << 40, 1ull << 40}, "f32"), shape_error);
}

TEST_CASE("file/gguf_writer: data must come whole and in order") {
    memory_sink sink;
    gguf_writer writer(sink);
    writer.add("a", {4}, "f32");
    writer.add("b", {4}, "f32");
    const std::vector<std::byte> half(8), more(17), whole(16);
    CHECK_THROWS_AS(writer.write("b", whole), shape_error);
    CHECK_THROWS_AS(writer.write("a", more), shape_error);
    writer.write("a", half);
    CHECK_THROWS_AS(writer.write("b", whole), shape_error);
    CHECK_THROWS_AS(writer.add("c", {4}, "f32"), config_error);
    CHECK_THROWS_AS(writer.set("k", 1), config_error);
    CHECK(contains(message_of<shape_error>([&] { writer.finish(); }), "tensor \"a\": lacks data"));
    writer.write("a", half);
    writer.write("b", whole);
    CHECK_THROWS_AS(writer.write("b", half), shape_error);
    writer.finish();
    CHECK_THROWS_AS(writer.write("b", half), config_error);
}
