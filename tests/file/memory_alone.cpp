// What hostile and large files cost in memory, by counting what operator new gives out.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>

#include <doctest/doctest.h>

#include <tern/base/json.hpp>
#include <tern/file/gguf_reader.hpp>
#include <tern/file/safetensors.hpp>

#include "file/bytes.hpp"

namespace {

// The size of each block is kept in front of it; 16 bytes keep the alignment.
constexpr std::size_t front = 16;
std::size_t held = 0;
std::size_t peak = 0;

} // namespace

void* operator new(std::size_t size) {
    auto* block = static_cast<std::size_t*>(std::malloc(size + front));
    if (!block) throw std::bad_alloc();
    *block = size;
    held += size;
    peak = std::max(peak, held);
    return reinterpret_cast<char*>(block) + front;
}
void operator delete(void* at) noexcept {
    if (!at) return;
    auto* block = reinterpret_cast<std::size_t*>(static_cast<char*>(at) - front);
    held -= *block;
    std::free(block);
}
void operator delete(void* at, std::size_t) noexcept { operator delete(at); }

using namespace tern;
using namespace tern::test;

namespace {

/// Most bytes held at once by `f`, above what was held before.
template <class F> std::size_t cost(F&& f) {
    const std::size_t before = held;
    peak = held;
    f();
    return peak - before;
}

std::size_t cost_of_refusal(const std::string& bytes) {
    memory_source source(as_bytes_of(bytes));
    return cost([&] { CHECK_THROWS_AS(read_gguf_header(source), parse_error); });
}

constexpr std::size_t four_mib = 4u << 20;

} // namespace

TEST_CASE("file/memory: lengths that lie cost nearly nothing") {
    using vt = gguf_value_type;
    CHECK(cost([] { std::string(1000, 'x'); }) >= 1000); // the counter counts
    CHECK(cost_of_refusal(byte_builder{}.header(0, 1).number<std::uint64_t>(0xFFFFFFFFFFFF).out) < four_mib);
    CHECK(cost_of_refusal(byte_builder{}.header(~std::uint64_t{0}, ~std::uint64_t{0}).zeros(100).out) < four_mib);
    for (const vt element : {vt::uint8, vt::float64, vt::string, vt::array})
        CHECK(cost_of_refusal(
                  byte_builder{}.header(0, 1).key("k", vt::array).type(element).number(1ull << 58).zeros(64).out) <
              four_mib);
    byte_builder nested;
    nested.header(0, 1).key("k", vt::array);
    for (int i = 0; i < 100000; ++i) nested.type(vt::array).number<std::uint64_t>(1);
    CHECK(cost_of_refusal(nested.out) < four_mib);
    const std::uint64_t big = ~std::uint64_t{0} >> 1;
    CHECK(cost_of_refusal(byte_builder{}.header(1, 0).tensor("t", {big, 2}, 24, 0).pad().out) < four_mib);

    const std::string huge = byte_builder{}.number(1ull << 63).raw("{}").out;
    memory_source source(as_bytes_of(huge));
    CHECK(cost([&] { CHECK_THROWS_AS(read_safetensors_header(source), parse_error); }) < four_mib);
}

TEST_CASE("file/memory: half a million strings load in a small multiple of their size") {
    byte_builder b;
    b.header(0, 1).key("tokens", gguf_value_type::array).type(gguf_value_type::string).number<std::uint64_t>(500000);
    for (int i = 0; i < 500000; ++i) b.string("token" + std::to_string(i));
    memory_source source(as_bytes_of(b.out));
    gguf_header header;
    CHECK(cost([&] { header = read_gguf_header(source); }) < 4 * b.out.size());
    REQUIRE(header.metadata.strings("tokens").size() == 500000);
    CHECK(header.metadata.strings("tokens")[499999] == "token499999");
}

TEST_CASE("file/memory: JSON of any shape costs at most 32 times its text") {
    for (const std::string item : {"0,", "[],", "[0],", "{},", "{\"\":0},", "\"\",", "[[[0]]],"}) {
        std::string text = "[";
        for (int i = 0; i < 20000; ++i) text += item;
        text += "0]";
        CHECK_MESSAGE(cost([&] { parse_json(text); }) <= 32 * text.size(), item);
    }
}
