#include <doctest/doctest.h>

#include <limits>

#include "support.hpp"
#include <tern/kernel/cpu/quantize_q8.hpp>

#if defined(__x86_64__)

using namespace tern;
using namespace tern::test;
using kernel::q8_block;
using kernel::quantize_q8;

TEST_CASE("kernel/cpu/quantize_q8: the bits of the reference, for any numbers and shapes") {
    if (!has_avx2()) return;
    numbers from{7};
    for (const std::size_t cols : {0, 32, 224, 256, 288, 1504})
        for (const float size : {1.0f, 1e-37f, 1e-42f, 3e38f})
            for (int round = 0; round < 20; ++round) {
                const std::size_t tokens = 3, stride = cols + 5;
                std::vector<float> x = from(tokens * stride, -1, 1);
                for (float& v : x) v *= size;
                if (round % 4 == 1) // any bits: NaN, infinities and denormals among them
                    for (float& v : x) v = std::bit_cast<float>(from.bits() << 1);
                if (round % 4 == 2) // halves of a step
                    for (float& v : x) v = 0.5f * static_cast<float>(static_cast<int>(from.bits() % 255) - 127);
                if (round % 4 == 3 && cols != 0) x[from.bits() % cols] = std::numeric_limits<float>::infinity();
                const std::size_t blocks = tokens * kernel::q8_blocks(cols);
                std::vector<q8_block> y(blocks + 1), expected(blocks + 1);
                std::memset(static_cast<void*>(y.data()), 1, y.size() * sizeof y[0]);
                std::memset(static_cast<void*>(expected.data()), 1, y.size() * sizeof y[0]);
                quantize_q8::reference({x.data(), stride, cols, tokens, expected.data()}, 0, tokens);
                kernel::cpu::quantize_q8_avx2({x.data(), stride, cols, tokens, y.data()}, 0, 1);
                kernel::cpu::quantize_q8_avx2({x.data(), stride, cols, tokens, y.data()}, 1, tokens);
                REQUIRE(std::memcmp(y.data(), expected.data(), y.size() * sizeof y[0]) == 0);
            }
}

#endif
