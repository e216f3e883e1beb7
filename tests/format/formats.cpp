#include <tern/format/formats.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "golden.hpp"
#include "own_format.hpp"

namespace {

using two = tern::formats<tern::q4_k, own::halves>;
static_assert(two::size == 2);
static_assert(two::index_of<tern::q4_k> == 0 && two::index_of<own::halves> == 1);
static_assert(two::contains<own::halves> && !two::contains<tern::f32>);
static_assert(two::infos[1].name == "halves");
static_assert(two::index_of_gguf_type(12) == 0 && two::index_of_gguf_type(0) == two::size);
static_assert(two::index_of_name("halves") == 1 && two::index_of_name("half") == two::size);
static_assert(tern::all_formats::size == 15);

} // namespace

TEST_CASE("format/formats: decoding is bit-equal to, and encoding no worse than, other programs (committed blocks)") {
    tern::all_formats::for_each([]<class F>(std::type_identity<F>) { tern::test::check_against_gguf_package<F>(); });
}

TEST_CASE("format/formats: the same with the shared blocks") {
    tern::all_formats::for_each([]<class F>(std::type_identity<F>) {
        if constexpr (F::block_size > 1) tern::test::check_against_libggml<F>();
    });
}

TEST_CASE("format/formats: zeros, constants, NaN, infinities and huge numbers encode without harm") {
    tern::all_formats::for_each([]<class F>(std::type_identity<F>) {
        static_assert(tern::format_encodable<F>);
        tern::test::check_hostile_input<F>();
    });
}

TEST_CASE("format/formats: what was decoded encodes to the same numbers again") {
    tern::all_formats::for_each([]<class F>(std::type_identity<F>) {
        CAPTURE(std::string(F::name));
        std::uint32_t state = 1;
        int exact = 0;
        for (int trial = 0; trial < 50; ++trial) {
            std::vector<float> x(F::block_size);
            for (float& v : x) {
                state = state * 1664525u + 1013904223u;
                v = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f;
            }
            const std::vector<float> once = tern::test::through<F>(x);
            exact += tern::test::largest_error(once, tern::test::through<F>(once)) <= 1e-6;
        }
        // A block whose codes miss both ends of the range or of its scales may settle elsewhere.
        CHECK(exact >= (F::block_size == 256 ? 40 : 50));
    });
}

TEST_CASE("format/formats: the run-time twin by type id") {
    const tern::format_info* info = tern::find_by_gguf_type(12);
    REQUIRE(info != nullptr);
    CHECK(info->name == "q4_k");
    CHECK(info->block_size == 256);
    CHECK(info->block_bytes == 144);
    CHECK(info->gguf_type == 12u);
    CHECK(tern::find_by_gguf_type(17) == nullptr);
    CHECK(tern::find_by_gguf_type(9999) == nullptr);
}

TEST_CASE("format/formats: every format agrees with the table of GGUF types") {
    tern::all_formats::for_each([]<class F>(std::type_identity<F>) {
        const tern::gguf_type_info* type = tern::find_gguf_type(F::gguf_type);
        REQUIRE(type != nullptr);
        CHECK(type->name == F::name);
        CHECK(type->block_size == F::block_size);
        CHECK(type->block_bytes == sizeof(typename F::block));
        CHECK(tern::find_by_gguf_type(F::gguf_type)->name == F::name);
    });
}
