#include <tern/file/safetensors.hpp>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "file/bytes.hpp"

using namespace tern;
using namespace tern::test;

namespace {

safetensors_header read(const std::string& bytes, std::size_t most = ~std::size_t{0}) {
    short_source source(bytes, most, "x.safetensors");
    return read_safetensors_header(source);
}

bool refuses(const std::string& bytes, std::string_view part) {
    const std::string what = message_of<parse_error>([&] { read(bytes); });
    INFO(what);
    CHECK(contains(what, "x.safetensors: "));
    return contains(what, part);
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
    return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

std::string file(const std::string& entries, std::size_t data) {
    return safetensors_bytes("{" + entries + "}", std::string(data, '\0'));
}

/// U8[1] then F32[3] = 1, 2, 3, behind a header whose length is 2 modulo 4.
std::string misaligned() {
    std::string header = "{" + entry("b", "F32", "[3]", "[1,13]") + "," + entry("a", "U8", "[1]", "[0,1]") +
                         ",\"__metadata__\":{\"format\":\"pt\"}}";
    while (header.size() % 4 != 2) header += ' ';
    const float values[] = {1, 2, 3};
    std::string data(13, '\7');
    std::memcpy(data.data() + 1, values, 12);
    return safetensors_bytes(header, data);
}

} // namespace

TEST_CASE("file/safetensors: data at odd addresses reads right") {
    const std::string bytes = misaligned();
    const safetensors_header header = read(bytes, 5);
    REQUIRE(header.tensors.size() == 2);
    CHECK(header.tensors[0].name == "a"); // in the order of the data
    const stored_tensor& b = header.tensors[1];
    CHECK(b.name == "b");
    CHECK(b.format == "f32");
    CHECK(b.shape == std::vector<std::uint64_t>{3});
    CHECK(b.offset % 4 != 0);
    float values[3] = {};
    short_source source(bytes, 3);
    read_exact(source, b.offset, std::as_writable_bytes(std::span(values)));
    CHECK(values[0] == 1);
    CHECK(values[1] == 2);
    CHECK(values[2] == 3);
    CHECK(header.metadata.get<std::string>("format") == "pt");
}

TEST_CASE("file/safetensors: every dtype has its size") {
    const std::pair<const char*, int> dtypes[] = {{"F64", 8},     {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1},
                                                  {"F8_E5M2", 1}, {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},
                                                  {"U64", 8},     {"U32", 4}, {"U16", 2}, {"U8", 1},   {"BOOL", 1}};
    for (const auto& [name, size] : dtypes) {
        const std::string bytes =
            file(entry("t", name, "[2,3]", "[0," + std::to_string(6 * size) + "]"), static_cast<std::size_t>(6 * size));
        CHECK(read(bytes).tensors.at(0).bytes == static_cast<std::uint64_t>(6 * size));
    }
    CHECK(refuses(file(entry("t", "F33", "[1]", "[0,4]"), 4), "tensor \"t\": its dtype \"F33\" is unknown"));
}

TEST_CASE("file/safetensors: overlap, gap and trailing bytes are refused, empty tensors are not") {
    const std::string a = entry("a", "F32", "[4]", "[0,16]");
    CHECK(refuses(file(a + "," + entry("b", "F32", "[4]", "[0,16]"), 16), "overlaps"));
    CHECK(refuses(file(a + "," + entry("b", "F32", "[4]", "[12,28]"), 28), "tensor \"b\": its data overlaps"));
    CHECK(refuses(file(a + "," + entry("b", "F32", "[4]", "[20,36]"), 36), "tensor \"b\": there is a gap of 4 bytes"));
    CHECK(refuses(file(entry("a", "F32", "[4]", "[4,20]"), 20), "tensor \"a\": there is a gap of 4 bytes"));
    CHECK(refuses(file(a, 17), "1 bytes follow"));
    const safetensors_header header =
        read(file(a + "," + entry("e", "F32", "[0]", "[16,16]") + "," + entry("f", "F32", "[2,0]", "[0,0]"), 16));
    CHECK(header.tensors.size() == 3);
    CHECK(read(file(entry("s", "F32", "[]", "[0,4]"), 4)).tensors[0].shape.empty());
    CHECK(read(file("", 0)).tensors.empty());
}

TEST_CASE("file/safetensors: four faults, four errors") {
    CHECK(refuses(file(entry("w", "F32", "[1000,1000]", "[0,4]"), 4),
                  "its shape and dtype do not fit its data_offsets (needed 4000000 bytes, available 4 bytes)"));
    CHECK(refuses(file(entry("w", "F32", "[1]", "[4,0]"), 4), "its data begins at 4, after its end at 0"));
    CHECK(refuses(byte_builder{}.number(1ull << 63).raw("{}").out, "header length is 9223372036854775808"));
    CHECK(refuses(file(entry("w", "U8", "[1]", "[0,1]") + "," + entry("w", "U8", "[1]", "[1,2]"), 2),
                  "\"w\" is there twice"));
}

TEST_CASE("file/safetensors: lengths, numbers and kinds") {
    CHECK(refuses("1234567", "too short"));
    CHECK(refuses(byte_builder{}.number<std::uint64_t>(100'000'001).raw("{}").out, "the limit is 100000000"));
    CHECK(refuses(byte_builder{}.number<std::uint64_t>(100'000'000).raw("{}").out, "past the end of the file"));
    CHECK(refuses(byte_builder{}.number<std::uint64_t>(3).raw("{}").out, "past the end of the file"));
    CHECK(refuses(safetensors_bytes(" {}", ""), "does not begin with '{'"));
    CHECK(refuses(safetensors_bytes("", ""), "does not begin with '{'"));
    CHECK(refuses(file(entry("w", "F64", "[4294967296,4294967296]", "[0,4]"), 4), "does not fit in 64 bits"));
    CHECK(refuses(file(entry("w", "U8", "[-1]", "[0,1]"), 1), "tensor \"w\": expected an integer"));
    CHECK(refuses(file(entry("w", "U8", "[1.0]", "[0,1]"), 1), "expected an integer"));
    CHECK(refuses(file(entry("w", "U8", "[1]", "[0,1,2]"), 1), "3 data_offsets"));
    CHECK(refuses(file(entry("w", "U8", "[1]", "[18446744073709551614,18446744073709551615]"), 1), "gap"));
    CHECK(refuses(file(entry("w", "U8", "[18446744073709551615]", "[0,18446744073709551615]"), 1), "past the end"));
    CHECK(refuses(file("\"w\":{}", 0), "tensor \"w\": the JSON key \"dtype\" is absent"));
    CHECK(refuses(file("\"w\":1", 0), "tensor \"w\": expected an object"));
    CHECK(refuses(file("\"__metadata__\":1", 0), "__metadata__ is no object"));
    CHECK(refuses(file("\"__metadata__\":{\"k\":1}", 0), "\"k\" is no string"));
}

TEST_CASE("file/safetensors: a file cut at any byte is an error") {
    const std::string bytes = misaligned();
    for (std::size_t n = 0; n < bytes.size(); ++n) {
        const std::string what = message_of<parse_error>([&] { read(bytes.substr(0, n)); });
        CHECK_MESSAGE(contains(what, "needed"), n, what);
    }
}

TEST_CASE("file/safetensors: a sharded set by its index") {
    const std::string one = file(entry("a", "U8", "[1]", "[0,1]") + ",\"__metadata__\":{\"format\":\"pt\"}", 1);
    const std::string two = file(entry("b", "U8", "[2]", "[0,2]"), 2);
    const auto open = [&](const std::string& index) {
        return open_memory{{{"dir/index.json", index}, {"dir/m-1.safetensors", one}, {"dir/m-2.safetensors", two}}};
    };
    const std::string good =
        R"({"metadata":{"total_size":3},"weight_map":{"b":"m-2.safetensors","a":"m-1.safetensors"}})";
    const safetensors_set set = read_safetensors("dir/index.json", open(good));
    REQUIRE(set.shards.size() == 2);
    REQUIRE(set.tensors.size() == 2);
    CHECK(set.tensors[1].name == "b");
    CHECK(set.tensors[1].shard == 1);
    CHECK(set.shards[1]->path() == "dir/m-2.safetensors");
    CHECK(set.metadata.get<int>("total_size") == 3);
    CHECK(set.metadata.get<std::string>("format") == "pt");

    const auto refuses_index = [&](const std::string& index, std::string_view part) {
        const std::string what = message_of<parse_error>([&] { read_safetensors("dir/index.json", open(index)); });
        INFO(what);
        return contains(what, part) && contains(what, "dir/");
    };
    for (const char* name : {"../x", "a/b", "/etc/passwd", "..", ".", "", "a\\\\b", "a\\u0000b"})
        CHECK_MESSAGE(refuses_index("{\"weight_map\":{\"a\":\"" + std::string(name) + "\"}}", "no plain file name"),
                      name);
    CHECK(refuses_index(R"({"weight_map":{"a":"m-2.safetensors"}})", "tensor \"a\": is not in its shard"));
    CHECK(refuses_index(R"({"weight_map":{}})", "lists no tensors"));
    CHECK(refuses_index(R"({"weight_map":{"a":1}})", "expected a string"));
    CHECK(refuses_index(R"({"weights":{"a":1}})", "\"weight_map\" is absent"));
    CHECK(refuses_index(R"({"weight_map":{"a":"x"},"weight_map":{}})", "twice"));
    try {
        read_safetensors("dir/index.json", open(R"({"weight_map":{"a":"m-3.safetensors"}})"));
        FAIL("no error");
    } catch (const io_error& e) { CHECK(e.path() == "dir/m-3.safetensors"); }
    const open_memory twice{{{"i", R"({"weight_map":{"a":"x","b":"y"}})"}, {"x", one}, {"y", one}}};
    CHECK(contains(message_of<parse_error>([&] { read_safetensors("i", twice); }),
                   "tensor \"a\": is listed twice, first in x"));
}
