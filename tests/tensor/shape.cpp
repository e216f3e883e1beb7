#include <doctest/doctest.h>

#include <limits>

#include <tern/tensor/shape.hpp>

TEST_CASE("tensor/shape: numbers and names") {
    const tern::tensor_shape matrix{.rows = 3, .cols = 64};
    CHECK(matrix.count() == 192);
    CHECK(to_string(matrix) == "[3, 64]");
    const tern::tensor_shape packed{.rows = 3, .cols = 64, .experts = 8};
    CHECK(packed.count() == 1536);
    CHECK(to_string(packed) == "[8, 3, 64]");
    CHECK(tern::tensor_shape{}.count() == 1);
    CHECK(tern::tensor_shape{.rows = 4, .cols = 0}.count() == 0);
    CHECK(matrix == tern::tensor_shape{3, 64, 1});
    CHECK(matrix != packed);
}

TEST_CASE("tensor/shape: a count that overflows is an error") {
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    CHECK_THROWS_AS(static_cast<void>(tern::tensor_shape{.rows = most / 2 + 1, .cols = 2}.count()), tern::shape_error);
    CHECK_THROWS_AS(static_cast<void>(tern::tensor_shape{most / 4, 2, 3}.count()), tern::shape_error);
    CHECK(tern::tensor_shape{.rows = most, .cols = 1}.count() == most);
}
