#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <tern/format/plain.hpp>
#include <tern/kernel/cuda/dequantize.cuh>

#include <kernel/cuda/support.hpp>

using cuda_test::numbers;
using cuda_test::on_device;

TEST_CASE("kernel/cuda/dequantize: blocks decode as on the host") {
    tern::cuda::emulation::configure({});
    for (const std::size_t count : {1, 31, 257}) {
        const std::vector<float> x = numbers(count);
        std::vector<tern::f16::block> blocks(count);
        std::vector<float> want(count);
        for (std::size_t i = 0; i < count; ++i) {
            tern::f16::encode(&x[i], blocks[i]);
            tern::f16::decode(blocks[i], &want[i]);
        }
        const on_device<tern::f16::block> d(blocks);
        const on_device<float> out(count);
        tern::cuda::dequantize<tern::f16>(d.get(), count, out.get());
        CHECK(out.read() == want);
    }
}
