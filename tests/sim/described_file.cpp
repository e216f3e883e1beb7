#include <tern/sim/described_file.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <support/data.hpp>

namespace test = tern::test;

TEST_CASE("sim/described_file: tensors by name with their shapes and bytes, one behind the other") {
    const auto m = tern::read_description(test::source_file("examples/models/qwen3-30b-a3b-int4.json"));
    const tern::checkpoint file = tern::described_file(m);
    const tern::stored_tensor& gate = file.at("blk.47.ffn_gate_exps.weight");
    CHECK(gate.shape == std::vector<std::uint64_t>{128, 768, 2048});
    CHECK(gate.format == "q4_k");
    CHECK(gate.bytes == 128ull * 768 * 2048 / 256 * 144);
    CHECK(file.at("blk.0.attn_q.weight").shape == std::vector<std::uint64_t>{4096, 2048});
    CHECK(file.at("output.weight").format == "q6_k");
    std::uint64_t end = 0;
    for (const tern::stored_tensor& t : file.tensors()) {
        CHECK(t.offset == end);
        end += t.bytes;
    }
    CHECK(file.source(0).size() == end);
    CHECK(file.mapping(0).size() == end);
    CHECK(file.mapped(gate).data() == file.mapping(0).data() + gate.offset);
    std::byte one[1];
    CHECK_THROWS_AS(static_cast<void>(file.source(0).read_some(0, one)), tern::io_error);
}

TEST_CASE("sim/described_file: the tensors of every committed model are its published parameters") {
    for (const auto& entry : std::filesystem::directory_iterator(test::source_file("examples/models"))) {
        CAPTURE(entry.path().string());
        const auto m = tern::read_description(entry.path().string());
        const tern::checkpoint file = tern::described_file(m);
        double numbers = 0;
        for (const tern::stored_tensor& t : file.tensors()) {
            double n = 1;
            for (const std::uint64_t d : t.shape) n *= static_cast<double>(d);
            numbers += n;
        }
        CHECK(numbers == doctest::Approx(m.parameters).epsilon(0.05));
    }
}

TEST_CASE("sim/described_file: rows that are no whole blocks are refused") {
    auto m = tern::read_description(test::source_file("examples/models/qwen3-30b-a3b-int4.json"));
    m.width = 2000;
    try {
        static_cast<void>(tern::described_file(m));
        FAIL("2000 is no multiple of 256");
    } catch (const tern::parse_error& e) {
        CHECK(e.tensor() == "token_embd.weight");
        CHECK(std::string(e.what()).find("2000") != std::string::npos);
    }
}
