#include <tern/model/read_floats.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace {

struct stored {
    std::string name = "blk.0.attn_sinks.weight";
    std::vector<std::uint64_t> shape{};
    std::string format = "f32";
    std::uint64_t bytes = 0;
};

/// A file of one tensor.
struct one_tensor {
    std::vector<std::byte> raw{};

    static std::string path() { return "m.gguf"; }
    void read(const stored&, std::span<std::byte> into) const {
        REQUIRE(into.size() == raw.size());
        std::memcpy(into.data(), raw.data(), raw.size());
    }
};

/// The text of the error, which names file and tensor.
std::string refused(const one_tensor& file, const stored& t, std::size_t count) {
    try {
        static_cast<void>(tern::detail::read_floats(file, t, count));
    } catch (const tern::parse_error& e) {
        CHECK(e.tensor() == t.name);
        CHECK(std::string(e.what()).find("m.gguf") != std::string::npos);
        return e.what();
    }
    FAIL("it was read");
    return {};
}

one_tensor of(const std::vector<float>& values) {
    one_tensor file{std::vector<std::byte>(values.size() * sizeof(float))};
    std::memcpy(file.raw.data(), values.data(), file.raw.size());
    return file;
}

} // namespace

TEST_CASE("model/read_floats: numbers of plain formats and of blocks") {
    CHECK(tern::detail::read_floats(of({1.5f, -2, 0}), stored{.shape = {3}, .bytes = 12}, 3) ==
          std::vector<float>{1.5f, -2, 0});
    one_tensor halves{{std::byte{0x80}, std::byte{0x3f}, std::byte{0x00}, std::byte{0xc0}}}; // 1 and -2
    CHECK(tern::detail::read_floats(halves, stored{.shape = {1, 2}, .format = "bf16", .bytes = 4}, 2) ==
          std::vector<float>{1, -2});
    one_tensor block{std::vector<std::byte>(17, std::byte{0x22})}; // mxfp4: 32 times 1, with a scale of 2^0
    block.raw[0] = std::byte{127};
    CHECK(tern::detail::read_floats(block, stored{.shape = {32}, .format = "mxfp4", .bytes = 17}, 32) ==
          std::vector<float>(32, 1));
}

TEST_CASE("model/read_floats: another size, an unknown format and what is no finite number are refused by name") {
    const one_tensor file = of({1, 2, 3, 4});
    CHECK(refused(file, {.shape = {4}, .bytes = 16}, 3).find("expected 3") != std::string::npos);
    CHECK(refused(file, {.shape = {2, 2}, .bytes = 16}, 5).find("has 4 numbers") != std::string::npos);
    CHECK(refused(file, {.shape = {4}, .format = "iq2_xs", .bytes = 16}, 4).find("iq2_xs") != std::string::npos);
    CHECK_THROWS_AS(
        tern::detail::read_floats(file, stored{.shape = {1ull << 40, 1ull << 40}, .format = "f32", .bytes = 16}, 4),
        tern::error);
    for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity()})
        CHECK(refused(of({1, wrong}), {.shape = {2}, .bytes = 8}, 2).find("at 1") != std::string::npos);
}
