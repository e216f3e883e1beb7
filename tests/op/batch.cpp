#include <tern/op/batch.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

using ints = std::vector<std::int32_t>;

TEST_CASE("op/batch: runs and single tokens of several sequences, and whose logits are wanted") {
    tern::batch b;
    const ints run{5, 6, 7};
    b.add(run);
    b.add(9, 17, 1);
    b.add(8, 2, 3, false);
    b.add(run, 10, 2, true);
    CHECK(b.size() == 8);
    CHECK(b.tokens == ints{5, 6, 7, 9, 8, 5, 6, 7});
    CHECK(b.positions == ints{0, 1, 2, 17, 2, 10, 11, 12});
    CHECK(b.sequences == ints{0, 0, 0, 1, 3, 2, 2, 2});
    CHECK(b.outputs == ints{2, 3, 5, 6, 7});
    b.clear();
    CHECK(b.size() == 0);
    CHECK(b.outputs.empty());
}

TEST_CASE("op/batch: positions and sequences beyond an int are refused, and nothing is added") {
    tern::batch b;
    CHECK_THROWS_AS(b.add(1, std::size_t{1} << 31), tern::shape_error);
    CHECK_THROWS_AS(b.add(1, 0, std::size_t{1} << 40), tern::shape_error);
    CHECK(b.size() == 0);
    CHECK(b.positions.empty());
    b.add(1, (std::size_t{1} << 31) - 1);
    CHECK(b.positions[0] == 0x7fffffff);
}
