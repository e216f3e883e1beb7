// Root mean square normalisation on a CUDA device, fused with the residual sum before it.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tern/cuda/launch.hpp>

namespace tern::cuda {

/// sum = x + residual; y = sum / sqrt(mean(sum^2) + eps) * weight.
/// Shapes: x, y [rows, cols] f32; residual [rows, cols] or null for none, and then takes the sum; weight [cols] f32 or
/// null. In place is allowed: y == x with equal strides. All addresses are of the device.
struct rms_norm_args {
    const float* x;
    std::size_t x_stride; // floats between rows
    float* residual;
    std::size_t residual_stride;
    std::size_t rows;
    std::size_t cols;
    const float* weight;
    float eps;
    float* y;
    std::size_t y_stride;
};

namespace detail {

inline constexpr unsigned norm_threads = 256;

/// One block a row. Each thread sums its columns, a warp its threads, the first warp the warps: a fixed order.
template <class = void> __global__ void rms_norm_row(rms_norm_args a) {
    __shared__ shared_array<float, norm_threads / 32> partial;
    const std::size_t row = blockIdx.x;
    const float* x = a.x + row * a.x_stride;
    float* r = a.residual ? a.residual + row * a.residual_stride : nullptr;
    float* y = a.y + row * a.y_stride;
    float squares = 0;
    for (std::size_t i = threadIdx.x; i < a.cols; i += norm_threads) {
        const float v = r ? x[i] + r[i] : x[i];
        if (r) r[i] = v;
        squares = fmaf(v, v, squares);
    }
    for (int d = 1; d < 32; d *= 2) squares += __shfl_xor_sync(0xFFFFFFFFu, squares, d);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = squares;
    __syncthreads();
    float sum = 0;
    for (unsigned w = 0; w < norm_threads / 32; ++w) sum += partial[w];
    const float factor = 1.0f / sqrtf(sum / static_cast<float>(a.cols) + a.eps);
    for (std::size_t i = threadIdx.x; i < a.cols; i += norm_threads) {
        const float v = (r ? r[i] : x[i]) * factor; // the thread's own columns: no barrier is needed
        y[i] = a.weight ? v * a.weight[i] : v;
    }
}

} // namespace detail

///     tern::cuda::rms_norm({.x = x, .x_stride = n, .residual = h, .residual_stride = n, .rows = 1, ...}, stream);
template <class = void> void rms_norm(const rms_norm_args& a, cudaStream_t stream = nullptr) {
    if (a.rows == 0 || a.cols == 0) return;
    launch({.blocks = blocks_for(a.rows, 1), .threads = detail::norm_threads, .stream = stream, .name = "rms_norm"},
           detail::rms_norm_row<>, a);
}

} // namespace tern::cuda
