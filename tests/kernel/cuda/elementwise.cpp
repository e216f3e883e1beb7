#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <tern/kernel/cuda/elementwise.cuh>
#include <tern/kernel/elementwise.hpp>

#include <kernel/cuda/support.hpp>

using cuda_test::numbers;
using cuda_test::on_device;
using cuda_test::worst;
namespace kernel = tern::kernel;

TEST_CASE("kernel/cuda/elementwise: gated and add") {
    tern::cuda::emulation::configure({});
    using enum kernel::activation_kind;
    for (const auto kind : {silu, gelu_tanh, gelu_erf, silu_clamped})
        for (const std::size_t cols : {1, 17, 300}) {
            const std::size_t rows = 3;
            const std::vector<float> g = numbers(rows * cols), u = numbers(rows * cols, 5);
            std::vector<float> want(rows * cols);
            kernel::gated::args a{g.data(), cols, u.data(), cols, rows, cols, kind, want.data(), cols, 1.702f, 0.7f};
            kernel::gated::reference<void>(a, 0, rows);
            const on_device<float> dg(g), du(u), dy(rows * cols);
            a.gate = dg.get(), a.up = du.get(), a.y = dy.get();
            tern::cuda::gated(a);
            CHECK(worst(dy.read(), want) < 1e-6);
            tern::cuda::add({dg.get(), cols, du.get(), cols, rows, cols, dg.get(), cols}); // in place
            for (std::size_t i = 0; i < want.size(); ++i) want[i] = g[i] + u[i];
            CHECK(dg.read() == want);
        }
}
