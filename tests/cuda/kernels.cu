// The kernels of kernel/cuda compile for all devices that tern names, without implicit conversions of half types. On a
// device their results are those of the plain kernels.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <tern/format/formats.hpp>
#include <tern/kernel/cuda/attention.cuh>
#include <tern/kernel/cuda/dequantize.cuh>
#include <tern/kernel/cuda/elementwise.cuh>
#include <tern/kernel/cuda/linear.cuh>
#include <tern/kernel/cuda/rms_norm.cuh>
#include <tern/kernel/cuda/rope.cuh>

#include <cuda/mma_kernel.hpp>

template __global__ void multiply<>(const unsigned short*, const unsigned short*, float*);
namespace tern::cuda {

template void attention<>(const attention_args&, cudaStream_t);
template void rms_norm<>(const rms_norm_args&, cudaStream_t);
template void rope_into_cache<>(const rope_cache_args&, cudaStream_t);
template void gated<>(const kernel::gated::args&, cudaStream_t);
template void add<>(const kernel::add::args&, cudaStream_t);

template void linear<f32>(const kernel::linear::args&, cudaStream_t);
template void linear<f16>(const kernel::linear::args&, cudaStream_t);
template void linear<bf16>(const kernel::linear::args&, cudaStream_t);
template void linear<q8_0>(const kernel::linear::args&, cudaStream_t);
template void linear<q4_0>(const kernel::linear::args&, cudaStream_t);
template void linear<q4_1>(const kernel::linear::args&, cudaStream_t);
template void linear<q5_0>(const kernel::linear::args&, cudaStream_t);
template void linear<q5_1>(const kernel::linear::args&, cudaStream_t);
template void linear<q2_k>(const kernel::linear::args&, cudaStream_t);
template void linear<q3_k>(const kernel::linear::args&, cudaStream_t);
template void linear<q4_k>(const kernel::linear::args&, cudaStream_t);
template void linear<q5_k>(const kernel::linear::args&, cudaStream_t);
template void linear<q6_k>(const kernel::linear::args&, cudaStream_t);
template void linear<iq4_nl>(const kernel::linear::args&, cudaStream_t);
template void linear<mxfp4>(const kernel::linear::args&, cudaStream_t);

template void linear_q8<q8_0>(const kernel::linear_q8::args&, cudaStream_t);
template void linear_q8<q4_0>(const kernel::linear_q8::args&, cudaStream_t);
template void linear_q8<q4_1>(const kernel::linear_q8::args&, cudaStream_t);
template void linear_q8<q5_0>(const kernel::linear_q8::args&, cudaStream_t);
template void linear_q8<q5_1>(const kernel::linear_q8::args&, cudaStream_t);
template void linear_q8<q2_k>(const kernel::linear_q8::args&, cudaStream_t);
template void linear_q8<q3_k>(const kernel::linear_q8::args&, cudaStream_t);
template void linear_q8<q4_k>(const kernel::linear_q8::args&, cudaStream_t);
template void linear_q8<q5_k>(const kernel::linear_q8::args&, cudaStream_t);
template void linear_q8<q6_k>(const kernel::linear_q8::args&, cudaStream_t);
template void linear_q8<iq4_nl>(const kernel::linear_q8::args&, cudaStream_t);
template void linear_q8<mxfp4>(const kernel::linear_q8::args&, cudaStream_t);

} // namespace tern::cuda

TEST_CASE("cuda/kernels: a product on the device is that of the plain kernel") {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        MESSAGE("skipped: no device");
        return;
    }
    std::vector<tern::f32::block> w(3 * 8);
    std::vector<float> x(8, 0.5f), want(3), got(3);
    for (std::size_t i = 0; i < w.size(); ++i) w[i].value.set(static_cast<float>(i));
    tern::kernel::linear::args a{reinterpret_cast<const std::byte*>(w.data()), 3, 8, x.data(), 8, 1, want.data(), 3};
    tern::kernel::linear::reference<tern::f32>(a, 0, 3);
    std::byte* dw = nullptr;
    float *dx = nullptr, *dy = nullptr;
    REQUIRE(cudaMalloc(&dw, 96) == cudaSuccess);
    REQUIRE(cudaMalloc(&dx, 32) == cudaSuccess);
    REQUIRE(cudaMalloc(&dy, 12) == cudaSuccess);
    cudaMemcpy(dw, w.data(), 96, cudaMemcpyHostToDevice);
    cudaMemcpy(dx, x.data(), 32, cudaMemcpyHostToDevice);
    a.weights = dw, a.x = dx, a.y = dy;
    tern::cuda::linear<tern::f32>(a);
    REQUIRE(cudaMemcpy(got.data(), dy, 12, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(got == want);
    cudaFree(dw), cudaFree(dx), cudaFree(dy);
}
