#include <tern/format/gguf_types.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>

#include <doctest/doctest.h>

#include "golden.hpp"

static_assert(tern::find_gguf_type(17)->name == "iq2_xs");
static_assert(tern::find_gguf_type(17)->block_size == 256 && tern::find_gguf_type(17)->block_bytes == 74);
static_assert(tern::find_gguf_type(28)->block_bytes == 8);

TEST_CASE("format/gguf_types: ids ascend, and withdrawn and unknown ids are not found") {
    std::uint32_t last = 0;
    for (const auto& type : tern::gguf_types) {
        CHECK((type.id > last || type.id == 0));
        CHECK(tern::find_gguf_type(type.id) == &type);
        last = type.id;
    }
    for (const std::uint32_t id : {4u, 5u, 31u, 33u, 36u, 38u, 43u, 9999u, 0xFFFFFFFFu})
        CHECK(tern::find_gguf_type(id) == nullptr);
}

TEST_CASE("format/gguf_types: the table agrees with libggml's") {
    const auto path = tern::test::shared_file("quant/index.json");
    if (!path) return;
    const std::string index = tern::test::read_text(*path);
    int found = 0;
    for (const auto& type : tern::gguf_types) {
        std::string name(type.name);
        if (name.ends_with("_k")) name.back() = 'K';
        if (index.find('"' + name + '"') == index.npos) continue;
        CAPTURE(name);
        ++found;
        CHECK(tern::test::index_number(index, name, "type") == type.id);
        CHECK(tern::test::index_number(index, name, "block") == type.block_size);
        CHECK(tern::test::index_number(index, name, "bytes") == type.block_bytes);
    }
    CHECK(found == 25);
}
