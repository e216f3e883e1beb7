#include <doctest/doctest.h>

#include "support.hpp"
#include <tern/kernel/cpu/ceilings.hpp>

using namespace tern;
using namespace tern::test;
using kernel::cpu::read_way;

TEST_CASE("kernel/cpu/ceilings: every way of reading reads every word once") {
    for (const std::size_t words : {0, 1, 15, 16, 64, 65, 1000}) {
        numbers from{words};
        std::vector<std::uint64_t> data(words);
        std::uint64_t expected = 0;
        for (std::uint64_t& w : data) expected += w = std::uint64_t{from.bits()} << 20;
        for (const read_way way : {read_way::plain, read_way::prefetched, read_way::four_streams})
            CHECK(kernel::cpu::read_all(bytes_of(data.data()), 8 * words, way) == expected);
    }
}

TEST_CASE("kernel/cpu/ceilings: operations are counted") {
    if (!has_avx2()) return;
    CHECK(kernel::cpu::run_float_operations(3) == 480); // ten of eight lanes, two operations each
    CHECK(kernel::cpu::run_byte_operations(3) == 1920); // ten of thirty-two bytes
}
