#include <tern/format/format.hpp>

#include <array>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "own_format.hpp"

namespace {

using own::halves;

static_assert(tern::format_layout<halves>);
static_assert(tern::format_decodable<halves>);
static_assert(tern::format_encodable<halves>);
static_assert(tern::format<halves>);
static_assert(tern::info_of<halves>.block_bytes == 17);
static_assert(!tern::info_of<halves>.gguf_type);

// Near misses of the layout: each differs from a format in one thing.
struct no_name : halves {
    static constexpr int name = 3;
};
struct empty_name : halves {
    static constexpr std::string_view name = "";
};
struct block_size_zero : halves {
    static constexpr std::size_t block_size = 0;
};
struct block_size_at_run_time : halves {
    static inline std::size_t block_size = 16;
};
struct block_size_fraction : halves {
    static constexpr double block_size = 16;
};
struct no_block {
    [[maybe_unused]] static constexpr std::string_view name = "x";
    [[maybe_unused]] static constexpr std::size_t block_size = 16;
};
struct aligned_block : halves {
    struct block {
        float d;
        unsigned char q[16];
    };
};
struct owning_block : halves {
    struct block {
        block(const block&);
        unsigned char q[16];
    };
};

static_assert(!tern::format_layout<no_name>);
static_assert(!tern::format_layout<empty_name>);
static_assert(!tern::format_layout<block_size_zero>);
static_assert(!tern::format_layout<block_size_at_run_time>);
static_assert(!tern::format_layout<block_size_fraction>);
static_assert(!tern::format_layout<no_block>);
static_assert(!tern::format_layout<aligned_block>);
static_assert(!tern::format_layout<owning_block>);

// Near misses of decode, whose layout is fine.
struct throwing_decode : halves {
    static void decode(const block&, float*);
};
struct decode_of_double : halves {
    static void decode(const block&, double*) noexcept;
};
struct decode_of_mutable : halves {
    static void decode(block&, float*) noexcept;
};
struct decode_returns : halves {
    static int decode(const block&, float*) noexcept;
};
struct member_decode : halves {
    void decode(const block&, float*) noexcept;
};

template <class F> constexpr bool only_decode_missing = tern::format_layout<F> && !tern::format_decodable<F>;
static_assert(only_decode_missing<throwing_decode>);
static_assert(only_decode_missing<decode_of_double>);
static_assert(only_decode_missing<decode_of_mutable>);
static_assert(only_decode_missing<decode_returns>);
static_assert(only_decode_missing<member_decode>);

// Near misses of encode: still formats, but not encodable.
struct throwing_encode : halves {
    static void encode(const float*, block&);
};
struct encode_of_mutable : halves {
    static void encode(float*, block&) noexcept;
};
struct encode_to_const : halves {
    static int encode(const float*, const block&) noexcept;
};
struct no_encode : halves {
    static constexpr int encode = 0;
};

template <class F> constexpr bool only_encode_missing = tern::format<F> && !tern::format_encodable<F>;
static_assert(only_encode_missing<throwing_encode>);
static_assert(only_encode_missing<encode_of_mutable>);
static_assert(only_encode_missing<encode_to_const>);
static_assert(only_encode_missing<no_encode>);

struct with_type : halves {
    static constexpr std::uint32_t gguf_type = 77;
};
static_assert(tern::gguf_type_of<with_type>() == 77u);
static_assert(tern::row_bytes<halves>(48) == 51);

} // namespace

TEST_CASE("format/format: a format of the user's own decodes what it encoded") {
    std::array<float, 16> in{}, out{};
    for (int i = 0; i < 16; ++i) in[static_cast<std::size_t>(i)] = 0.5f * static_cast<float>(i - 8);
    halves::block b{};
    halves::encode(in.data(), b);
    halves::decode(b, out.data());
    CHECK(in == out);
}

TEST_CASE("format/format: a row that is no multiple of the block is refused with both numbers") {
    CHECK(tern::row_bytes<halves>(0) == 0);
    CHECK_THROWS_WITH_AS(tern::row_bytes<halves>(40), "row length 40 is not a multiple of 16, the block size of halves",
                         tern::shape_error);
}

TEST_CASE("format/format: the bytes of a row are checked for overflow") {
    constexpr std::uint64_t cols = ~std::uint64_t{0} - 15;
    CHECK_THROWS_AS(tern::row_bytes<halves>(cols), tern::shape_error); // 17 / 16 of it
}
