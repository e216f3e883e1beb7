#include <doctest/doctest.h>

#include <string>
#include <type_traits>

#include <tern/tensor/visit.hpp>

namespace {

using three = tern::formats<tern::q8_0, tern::f32, tern::q4_0>;
using one = tern::formats<tern::q4_0>;

struct name_of {
    template <tern::format F> std::string operator()() { return std::string(F::name); }
};
// Its result's type is the format's own: with one entry there is no common type to agree on.
struct block_of {
    template <tern::format F> typename F::block operator()() const { return {}; }
};
struct reference_to {
    int& value;
    template <tern::format F> int& operator()() const { return value; }
};
struct only_here {
    only_here() = default;
    only_here(const only_here&) = delete;
    int calls = 0;
    template <tern::format F> void operator()() { ++calls; }
};

// A list of one is decided at compile time: the call gives the format's own type, and is a constant.
static_assert(std::is_same_v<decltype(tern::visit_format<one>(0, block_of{})), tern::q4_0::block>);
struct size_of_block {
    template <tern::format F> constexpr std::size_t operator()() const { return sizeof(typename F::block); }
};

} // namespace

TEST_CASE("tensor/visit: the index picks the format of the list") {
    CHECK(tern::visit_format<three>(0, name_of{}) == "q8_0");
    CHECK(tern::visit_format<three>(1, name_of{}) == "f32");
    CHECK(tern::visit_format<three>(2, name_of{}) == "q4_0");
    CHECK(tern::visit_format<three>(2, size_of_block{}) == sizeof(tern::q4_0::block));
    for (std::size_t i = 0; i < tern::all_formats::size; ++i)
        CHECK(tern::visit_format<tern::all_formats>(i, name_of{}) == tern::all_formats::infos[i].name);
}

TEST_CASE("tensor/visit: an index past the list is an error, and a list of one has no choice") {
    CHECK_THROWS_AS(static_cast<void>(tern::visit_format<three>(3, name_of{})), tern::shape_error);
    CHECK_THROWS_AS(static_cast<void>(tern::visit_format<three>(std::size_t(-1), name_of{})), tern::shape_error);
    CHECK(tern::visit_format<one>(0, name_of{}) == "q4_0");
    CHECK(tern::visit_format<one>(99, name_of{}) == "q4_0");
}

TEST_CASE("tensor/visit: references come back as such, and the function is not copied") {
    int value = 0;
    tern::visit_format<three>(1, reference_to{value}) = 5;
    CHECK(value == 5);
    only_here counter;
    tern::visit_format<three>(2, counter);
    tern::visit_format<one>(0, counter);
    CHECK(counter.calls == 2);
}
