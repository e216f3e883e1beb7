#include <doctest/doctest.h>

#include <tern/kernel/cpu/rope.hpp>

#include "support.hpp"

#if defined(__x86_64__)

using namespace tern;
using namespace tern::test;
using kernel::rope_pairing;

TEST_CASE("kernel/cpu/rope: both pairings, any number of turned dimensions, in place, split anywhere") {
    if (!has_avx2()) return;
    for (const auto pairing : {rope_pairing::adjacent, rope_pairing::half_split})
        for (const std::size_t dims : {2, 6, 8, 14, 16, 64, 126}) {
            numbers from{dims};
            const std::size_t tokens = 3, heads = 5, head_dim = dims + (dims > 10 ? 0 : 4),
                              stride = heads * head_dim + 1;
            const auto c = from(tokens * dims / 2, -1, 1), s = from(tokens * dims / 2, -1, 1);
            auto x = from(tokens * stride, -2, 2);
            std::vector<float> y(tokens * stride, 7), expected(y), split(y);
            kernel::rope::args args{x.data(), stride,   tokens,   heads,    head_dim, dims,
                                    pairing,  c.data(), s.data(), y.data(), stride};
            kernel::cpu::rope_avx2(args, 0, kernel::rope::items(args));
            args.y = expected.data();
            run<kernel::rope>(args);
            for (std::size_t i = 0; i < y.size(); ++i)
                REQUIRE(std::abs(double(y[i]) - double(expected[i])) <= 1.2e-7 * 4);
            args.y = split.data();
            for (std::size_t item = 0; item < kernel::rope::items(args); ++item)
                kernel::cpu::rope_avx2(args, item, item + 1);
            REQUIRE(same(split, y));
            args.y = x.data();
            kernel::cpu::rope_avx2(args, 0, kernel::rope::items(args));
            for (std::size_t i = 0; i < x.size(); ++i)
                if (i % stride != stride - 1) REQUIRE(same(x[i], y[i]));
        }
}

#endif
