// Element by element on a CUDA device: gated activations (swiglu, geglu) and sums.
//
// Shapes as in kernel::gated and kernel::add; all addresses are of the device. Aliasing as there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tern/cuda/launch.hpp>
#include <tern/kernel/elementwise.hpp>

namespace tern::cuda {

namespace detail {

__device__ inline float gated_one(const kernel::gated::args& a, float g, float u) {
    switch (a.activation) {
    case kernel::activation_kind::silu: return g / (1.0f + expf(-g)) * u;
    case kernel::activation_kind::gelu_tanh:
        return 0.5f * g * (1.0f + tanhf(0.797884561f * (g + 0.044715f * g * g * g))) * u;
    case kernel::activation_kind::gelu_erf: return 0.5f * g * (1.0f + erff(g * 0.707106781f)) * u;
    case kernel::activation_kind::silu_clamped: break;
    }
    const float low = g > a.limit ? a.limit : g; // a NaN stays one
    const float factor = u > a.limit ? a.limit : u < -a.limit ? -a.limit : u;
    return low / (1.0f + expf(-a.alpha * low)) * (factor + 1.0f);
}

template <class = void> __global__ void gated_elements(kernel::gated::args a) {
    const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (i >= a.cols) return;
    a.y[row * a.y_stride + i] = gated_one(a, a.gate[row * a.gate_stride + i], a.up[row * a.up_stride + i]);
}

template <class = void> __global__ void add_elements(kernel::add::args a) {
    const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (i < a.cols) a.y[row * a.y_stride + i] = a.a[row * a.a_stride + i] + a.b[row * a.b_stride + i];
}

inline grid element_grid(std::size_t rows, std::size_t cols, cudaStream_t stream, std::string_view name) {
    if (rows > 65535) throw shape_error(std::to_string(rows) + " rows are too many for one launch");
    return {.blocks = dim3(blocks_for(cols, 256), static_cast<unsigned>(rows)),
            .threads = 256,
            .stream = stream,
            .name = name};
}

} // namespace detail

/// y = act(gate) * up.
///
///     tern::cuda::gated({.gate = g, .gate_stride = n, .up = u, .up_stride = n, .rows = 1, .cols = n, ...}, stream);
template <class = void> void gated(const kernel::gated::args& a, cudaStream_t stream = nullptr) {
    if (a.rows == 0 || a.cols == 0) return;
    launch(detail::element_grid(a.rows, a.cols, stream, "gated"), detail::gated_elements<>, a);
}

/// y = a + b: the bits of kernel::add.
template <class = void> void add(const kernel::add::args& a, cudaStream_t stream = nullptr) {
    if (a.rows == 0 || a.cols == 0) return;
    launch(detail::element_grid(a.rows, a.cols, stream, "add"), detail::add_elements<>, a);
}

} // namespace tern::cuda
