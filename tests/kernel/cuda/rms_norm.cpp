#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <tern/format/plain.hpp>
#include <tern/kernel/cuda/rms_norm.cuh>
#include <tern/kernel/rms_norm.hpp>

#include <kernel/cuda/support.hpp>

using cuda_test::numbers;
using cuda_test::on_device;
using cuda_test::worst;
namespace kernel = tern::kernel;

TEST_CASE("kernel/cuda/rms_norm: with and without a residual") {
    tern::cuda::emulation::configure({});
    for (const std::size_t cols : {1, 31, 257, 1000})
        for (const std::size_t rows : {1, 3})
            for (const bool fused : {false, true}) {
                CAPTURE(cols);
                const std::vector<float> x = numbers(rows * cols), r = numbers(rows * cols, 5), w = numbers(cols, 9);
                std::vector<float> sum = x, want(rows * cols);
                for (std::size_t i = 0; fused && i < sum.size(); ++i) sum[i] = x[i] + r[i];
                kernel::rms_norm::reference<tern::f32>({sum.data(), cols, rows, cols,
                                                        reinterpret_cast<const std::byte*>(w.data()), 1e-5f,
                                                        want.data(), cols},
                                                       0, rows);
                const on_device<float> dx(x), dr(r), dw(w), dy(rows * cols);
                tern::cuda::rms_norm(
                    {dx.get(), cols, fused ? dr.get() : nullptr, cols, rows, cols, dw.get(), 1e-5f, dy.get(), cols});
                CHECK(worst(dy.read(), want) < 2e-6);
                if (fused) CHECK(dr.read() == sum);
            }
}
