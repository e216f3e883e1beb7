// Decoding blocks to f32 on a CUDA device, for every format that a user can write.
//
//     blocks   count blocks of F, contiguous, at any alignment
//     out      count * F::block_size floats, aligned as floats are
#pragma once

#include <cstddef>
#include <cstdint>

#include <tern/base/error.hpp>
#include <tern/cuda/launch.hpp>
#include <tern/format/format.hpp>

namespace tern::cuda {

namespace detail {

/// Blocks that one thread block decodes into shared memory: as many as 32 KiB hold, a multiple of a warp, at most 256;
/// 0 where not even a warp's fit.
template <format F>
inline constexpr unsigned dequantize_tile = [] {
    constexpr std::size_t stride = F::block_size | 1;
    constexpr std::size_t fitting = 8192 / stride / 32 * 32;
    return static_cast<unsigned>(fitting > 256 ? 256 : fitting);
}();

/// One thread decodes one block into shared memory, whose odd stride keeps the threads on different banks; then all
/// write the numbers out side by side.
template <format F, unsigned Tile>
__global__ void dequantize_tiled(const typename F::block* blocks, std::uint64_t count, float* out) {
    constexpr unsigned size = static_cast<unsigned>(F::block_size);
    constexpr unsigned stride = size | 1u;
    __shared__ shared_array<float, Tile * stride> tile;
    const std::uint64_t first = static_cast<std::uint64_t>(blockIdx.x) * Tile;
    const std::uint64_t left = count - first;
    const unsigned here = left < Tile ? static_cast<unsigned>(left) : Tile;
    if (threadIdx.x < here) F::decode(blocks[first + threadIdx.x], &tile[threadIdx.x * stride]);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < here * size; i += Tile)
        out[first * size + i] = tile[i / size * stride + i % size];
}

/// One thread decodes one block straight into the result: for blocks too large to gather.
template <format F> __global__ void dequantize_plain(const typename F::block* blocks, std::uint64_t count, float* out) {
    const std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) F::decode(blocks[i], out + i * F::block_size);
}

} // namespace detail

/// Decodes `count` blocks on `stream`; returns before the work is done. `blocks` and `out` are device addresses that
/// live until it is. Throws shape_error where the count exceeds one launch, tern::error where the launch fails.
///
///     tern::cuda::dequantize<tern::q4_k>(weights, rows * cols / 256, out, stream);
template <format F>
void dequantize(const void* blocks, std::uint64_t count, float* out, cudaStream_t stream = nullptr) {
    if (count == 0) return;
    constexpr unsigned tile = detail::dequantize_tile<F>;
    constexpr unsigned threads = tile != 0 ? tile : 64;
    const grid where{.blocks = blocks_for(count, threads), .threads = threads, .stream = stream, .name = "dequantize"};
    const auto* typed = static_cast<const typename F::block*>(blocks);
    if constexpr (tile != 0)
        launch(where, detail::dequantize_tiled<F, tile>, typed, count, out);
    else
        launch(where, detail::dequantize_plain<F>, typed, count, out);
}

} // namespace tern::cuda
