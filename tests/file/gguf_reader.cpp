#include <tern/file/gguf_reader.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "file/bytes.hpp"

using namespace tern;
using namespace tern::test;

namespace {

using vt = gguf_value_type;

gguf_header read(const std::string& bytes, std::size_t most = ~std::size_t{0}) {
    short_source source(bytes, most, "x.gguf");
    return read_gguf_header(source);
}

/// What the reader says of a file that it must refuse as unparsable; "no error" where it does not.
std::string refusal(const std::string& bytes) {
    return message_of<parse_error>([&] { read(bytes); });
}

std::string refusal(const byte_builder& b) { return refusal(b.out); }

bool refuses(const byte_builder& b, std::string_view part) {
    const std::string what = refusal(b);
    INFO(what);
    CHECK(contains(what, "x.gguf: "));
    return contains(what, part);
}

/// One tensor, with 64 bytes of data.
byte_builder one_tensor(const std::vector<std::uint64_t>& dims, std::uint32_t type, std::uint64_t offset = 0) {
    return byte_builder{}.header(1, 0).tensor("t", dims, type, offset).pad().zeros(64);
}

byte_builder with_alignment(std::uint32_t alignment, std::size_t pad) {
    return byte_builder{}
        .header(1, 1)
        .key("general.alignment", vt::uint32)
        .number(alignment)
        .tensor("t", {4}, 0, 0)
        .pad(pad)
        .zeros(16);
}

std::string all_kinds() {
    byte_builder b;
    b.header(3, 14);
    b.key("u8", vt::uint8).number<std::uint8_t>(200);
    b.key("i8", vt::int8).number<std::int8_t>(-2);
    b.key("u16", vt::uint16).number<std::uint16_t>(60000);
    b.key("i16", vt::int16).number<std::int16_t>(-3);
    b.key("u32", vt::uint32).number<std::uint32_t>(4000000000u);
    b.key("i32", vt::int32).number<std::int32_t>(-4);
    b.key("f32", vt::float32).number(1.5f);
    b.key("bool", vt::boolean).number<std::uint8_t>(1);
    b.key("string", vt::string).string("text");
    b.key("u64", vt::uint64).number<std::uint64_t>(~std::uint64_t{0});
    b.key("i64", vt::int64).number<std::int64_t>(-5);
    b.key("f64", vt::float64).number(2.5);
    b.key("strings", vt::array).type(vt::string).number<std::uint64_t>(2).string("a").string("");
    b.key("nested", vt::array).type(vt::array).number<std::uint64_t>(2);
    b.type(vt::int16).number<std::uint64_t>(1).number<std::int16_t>(-9);
    b.type(vt::boolean).number<std::uint64_t>(2).number<std::uint8_t>(0).number<std::uint8_t>(1);
    b.tensor("a", {4}, 0, 0).tensor("b", {32, 2}, 2, 32).tensor("empty", {4, 0}, 0, 0);
    return b.pad().zeros(68).out; // b, of 36 bytes, ends exactly at the end of the file
}

} // namespace

TEST_CASE("file/gguf_reader: every value type, over short reads too") {
    for (const std::size_t most : {~std::size_t{0}, std::size_t{4097}, std::size_t{7}, std::size_t{1}}) {
        const gguf_header header = read(all_kinds(), most);
        const model_metadata& m = header.metadata;
        CHECK(header.version == 3);
        CHECK(m.get<int>("u8") == 200);
        CHECK(m.get<int>("i8") == -2);
        CHECK(m.get<int>("u16") == 60000);
        CHECK(m.get<int>("i16") == -3);
        CHECK(m.get<std::uint32_t>("u32") == 4000000000u);
        CHECK(m.get<int>("i32") == -4);
        CHECK(m.get<float>("f32") == 1.5f);
        CHECK(m.get<bool>("bool"));
        CHECK(m.get<std::string>("string") == "text");
        CHECK(m.get<std::uint64_t>("u64") == ~std::uint64_t{0});
        CHECK(m.get<int>("i64") == -5);
        CHECK(m.get<double>("f64") == 2.5);
        CHECK(m.strings("strings") == std::vector<std::string>{"a", ""});
        const gguf_array nested = m.get<gguf_array>("nested");
        REQUIRE(nested.size() == 2);
        CHECK(nested.arrays[0].to_vector<int>() == std::vector<int>{-9});
        CHECK(nested.arrays[1].to_vector<bool>() == std::vector<bool>{false, true});
    }
}

TEST_CASE("file/gguf_reader: tensors that end exactly at the end of the file, and empty ones, are placed") {
    const std::string bytes = all_kinds();
    const gguf_header header = read(bytes);
    REQUIRE(header.tensors.size() == 3);
    const gguf_tensor& b = header.tensors[1];
    CHECK(b.name == "b");
    CHECK(b.format == "q4_0");
    CHECK(b.dims == std::vector<std::uint64_t>{32, 2});
    CHECK(b.bytes == 36);
    CHECK(b.offset == header.data_offset + 32);
    CHECK(b.offset + b.bytes == bytes.size());
    CHECK(header.data_offset % 32 == 0);
    CHECK(header.tensors[2].bytes == 0);
}

TEST_CASE("file/gguf_reader: tensor data is not read") {
    const std::string header = byte_builder{}.header(1, 0).tensor("t", {1u << 20}, 0, 0).pad().out;
    short_source source(header + std::string(4u << 20, 'x'));
    read_gguf_header(source);
    CHECK(source.furthest <= header.size() + (1u << 16));
}

TEST_CASE("file/gguf_reader: a file cut at any byte is an error with numbers") {
    const std::string bytes = all_kinds();
    for (std::size_t n = 0; n < bytes.size(); ++n) {
        short_source source(bytes.substr(0, n), ~std::size_t{0}, "x.gguf");
        try {
            read_gguf_header(source);
            FAIL("a file cut to ", n, " bytes was read");
        } catch (const parse_error& e) {
            CHECK_MESSAGE(e.needed().has_value(), e.what());
            CHECK_MESSAGE(e.needed() > e.available(), e.what());
        }
    }
}

TEST_CASE("file/gguf_reader: a source that is shorter than it says is an io_error") {
    const std::string bytes = all_kinds();
    for (std::size_t n = 0; n < bytes.size(); n += 13) {
        short_source source(bytes.substr(0, n), ~std::size_t{0}, "x.gguf");
        source.claimed = bytes.size();
        CHECK_THROWS_AS(read_gguf_header(source), io_error);
    }
}

TEST_CASE("file/gguf_reader: magic, version, byte order") {
    CHECK(contains(refusal(std::string(40, 'x')), "no GGUF file"));
    const auto unsupported = [](std::string_view four) {
        return message_of<unsupported_error>(
            [&] { read(std::string("GGUF") + std::string(four) + std::string(16, '\0')); });
    };
    CHECK(contains(unsupported(std::string_view("\0\0\0\3", 4)), "big-endian file"));
    CHECK(contains(unsupported(std::string_view("\0\0\0\2", 4)), "big-endian file"));
    CHECK(contains(unsupported(std::string_view("\1\0\0\0", 4)), "version 1,"));
    CHECK(contains(unsupported(std::string_view("\4\0\0\0", 4)), "version 4,"));
    CHECK(contains(unsupported(std::string_view("\0\0\0\0", 4)), "version 0,"));
    CHECK(read(byte_builder{}.header(0, 0, 2).out).version == 2);
}

TEST_CASE("file/gguf_reader: shapes whose products overflow name the tensor") {
    const std::uint64_t big = ~std::uint64_t{0} >> 1;
    CHECK(refuses(one_tensor({big, 2}, 24), "tensor \"t\": its shape has more elements"));
    CHECK(refuses(one_tensor({big, 2, 0}, 24), "tensor \"t\": its shape has more elements"));
    CHECK(refuses(one_tensor({~std::uint64_t{0}}, 24), "tensor \"t\": its shape has more elements"));
    CHECK(refuses(one_tensor({1ull << 32, 1ull << 32}, 24), "tensor \"t\": its shape has more elements"));
    CHECK(refuses(one_tensor({1ull << 62}, 27), "tensor \"t\": its size in bytes does not fit"));
    CHECK(refuses(one_tensor({big}, 24, 32), "tensor \"t\": its data goes past the end of the file"));
    CHECK(refuses(one_tensor({1ull << 60}, 27, (1ull << 63) + 32), "tensor \"t\": its offset"));
}

TEST_CASE("file/gguf_reader: offsets beyond the file") {
    try {
        read(one_tensor({4}, 0, 1ull << 40).out);
        FAIL("no error");
    } catch (const parse_error& e) {
        CHECK(e.tensor() == "t");
        CHECK(e.path() == "x.gguf");
        CHECK(*e.needed() > (1ull << 40));
        CHECK(*e.available() < 200);
    }
    CHECK(refuses(one_tensor({4}, 0, 0 - std::uint64_t{64}), "overflow"));
    CHECK(refuses(one_tensor({4}, 0, 4), "not a multiple of the alignment 32"));
    CHECK(refuses(one_tensor({17}, 0), "past the end of the file"));
    CHECK(refusal(one_tensor({16}, 0)) == "no error");
}

TEST_CASE("file/gguf_reader: alignment is a power of two from 8 to 2 MiB") {
    for (const std::uint32_t bad : {0u, 1u, 3u, 4u, 24u, 1u << 22, 1u << 31})
        CHECK(refuses(with_alignment(bad, 32), "general.alignment is " + std::to_string(bad)));
    for (const std::uint32_t good : {8u, 16u, 64u, 4096u}) {
        const gguf_header header = read(with_alignment(good, good).out);
        CHECK(header.alignment == good);
        CHECK(header.data_offset % good == 0);
    }
    CHECK(refuses(byte_builder{}.header(0, 1).key("general.alignment", vt::string).string("32"), "general.alignment"));
}

TEST_CASE("file/gguf_reader: types, ranks and rows that make no sense") {
    CHECK(refuses(one_tensor({4}, 9999), "tensor \"t\": its type id 9999 is unknown"));
    CHECK(refuses(one_tensor({4}, 4), "unknown")); // withdrawn
    const auto rank = [](std::uint32_t n) { return byte_builder{}.header(1, 0).string("t").number(n).zeros(200); };
    CHECK(refuses(rank(9), "tensor \"t\": it has 9 dimensions"));
    CHECK(refuses(rank(~0u), "tensor \"t\": it has 4294967295 dimensions"));
    CHECK(refuses(one_tensor({64, 4}, 12), "tensor \"t\": its row length 64 is not a multiple of 256"));
    CHECK(refusal(one_tensor({}, 0)) == "no error"); // one number
    CHECK(refusal(one_tensor({4, 0}, 0)) == "no error");
    CHECK(refusal(one_tensor({0}, 2)) == "no error");
    CHECK(refuses(byte_builder{}.header(1, 0).tensor("", {4}, 0, 0).pad().zeros(64), "no name"));
}

TEST_CASE("file/gguf_reader: overlapping tensors are refused, gaps are not") {
    const auto two = [](std::uint64_t second) {
        return byte_builder{}.header(2, 0).tensor("late", {4}, 0, second).tensor("early", {9}, 0, 0).pad().zeros(256);
    };
    CHECK(refuses(two(32), "tensor \"late\": its data overlaps that of \"early\""));
    CHECK(refuses(two(0), "overlaps"));
    CHECK(refusal(two(64)) == "no error");
    CHECK(refusal(two(128)) == "no error");
}

TEST_CASE("file/gguf_reader: lengths that lie") {
    CHECK(refuses(byte_builder{}.header(0, 1).number<std::uint64_t>(0xFFFFFFFFFFFF).raw("abcdabcd"),
                  "longer than the rest"));
    CHECK(refuses(byte_builder{}.header(0, 1).number<std::uint64_t>(70000).zeros(80000), "a length of 70000"));
    CHECK(refuses(byte_builder{}.header(1, 0).number<std::uint64_t>(70000).zeros(80000), "a length of 70000"));
    CHECK(refuses(byte_builder{}.header(0, 1).key("", vt::uint8).number<std::uint8_t>(1), "key is empty"));
    CHECK(refuses(byte_builder{}.header(0, ~std::uint64_t{0}).zeros(100), "the metadata at byte 24 is longer"));
    CHECK(refuses(byte_builder{}.header(~std::uint64_t{0}, 0).zeros(100), "the list of tensors at byte 24 is longer"));
    for (const vt element : {vt::uint8, vt::float64, vt::string, vt::array})
        CHECK(refuses(byte_builder{}.header(0, 1).key("k", vt::array).type(element).number(1ull << 58).zeros(64),
                      "an array at byte"));
    byte_builder nested;
    nested.header(0, 1).key("k", vt::array);
    for (int i = 0; i < 100000; ++i) nested.type(vt::array).number<std::uint64_t>(1);
    CHECK(refuses(nested, "nested more than 8 deep"));
    CHECK(refuses(byte_builder{}.header(0, 1).key("k", static_cast<vt>(13)).zeros(8), "unknown type id 13"));
    CHECK(refuses(byte_builder{}.header(0, 1).key("k", vt::array).number<std::uint32_t>(99).zeros(8),
                  "unknown type id 99"));
    CHECK(refuses(byte_builder{}.header(0, 1).key("k", vt::boolean).number<std::uint8_t>(2), "neither 0 nor 1"));
    CHECK(refuses(byte_builder{}.header(0, 1).key("k", vt::array).type(vt::boolean).number(1ull).raw("\7"), "neither"));
    CHECK(refuses(byte_builder{}
                      .header(0, 2)
                      .key("k", vt::uint8)
                      .number<std::uint8_t>(1)
                      .key("k", vt::uint8)
                      .number<std::uint8_t>(1),
                  "\"k\" is there twice"));
}

TEST_CASE("file/gguf_reader: metadata above the limit is refused before it is stored") {
    gguf_limits limits;
    limits.metadata_bytes = 1000;
    short_source source(byte_builder{}.header(0, 1).key("k", vt::string).string(std::string(2000, 'x')).out);
    CHECK(contains(message_of<parse_error>([&] { read_gguf_header(source, limits); }), "metadata is too large"));
}
