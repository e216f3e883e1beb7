// Kernels and programs with a fault each, which the emulation must report.
#pragma once

#include <tern/cuda/launch.hpp>

namespace broken {

using tern::cuda::shared_array;

/// Right: each block reverses 64 numbers through shared memory.
inline __global__ void reverse(const int* in, int* out) {
    __shared__ shared_array<int, 64> tile;
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
}
/// The barrier is missing.
inline __global__ void missing_barrier(const int* in, int* out) {
    __shared__ shared_array<int, 64> tile;
    tile[threadIdx.x] = in[threadIdx.x];
    out[threadIdx.x] = tile[63 - threadIdx.x];
}
/// The second barrier is missing: the tile of the second half is written while the first is read.
inline __global__ void missing_second_barrier(const int* in, int* out) {
    __shared__ shared_array<int, 64> tile;
    for (int half = 0; half < 2; ++half) {
        tile[threadIdx.x] = in[64 * half + threadIdx.x];
        __syncthreads();
        out[64 * half + threadIdx.x] = tile[63 - threadIdx.x];
    }
}
/// Right: a sum over a warp.
inline __global__ void warp_sum(const int* in, int* out) {
    int sum = in[threadIdx.x];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, d);
    if (threadIdx.x == 0) *out = sum;
}
/// The mask names half of the lanes that call.
inline __global__ void mask_too_small(const int* in, int* out) {
    int sum = in[threadIdx.x];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xFFFFu, sum, d);
    if (threadIdx.x == 0) *out = sum;
}
/// The mask names lanes that do not come.
inline __global__ void mask_too_large(const int* in, int* out) {
    int sum = in[threadIdx.x];
    if (threadIdx.x < 16)
        for (int d = 8; d > 0; d /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, d);
    __syncthreads();
    if (threadIdx.x == 0) *out = sum;
}
/// A lane reads one that is outside of the mask.
inline __global__ void source_outside_mask(const int* in, int* out) {
    if (threadIdx.x < 8) {
        auto sum = static_cast<unsigned>(in[threadIdx.x]);
        for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xFFu, sum, d);
        if (threadIdx.x == 0) *out = static_cast<int>(sum);
    }
}
/// One element past a shared array, by its operator.
inline __global__ void shared_overflow(const int* in, int* out) {
    __shared__ shared_array<int, 64> tile;
    tile[threadIdx.x + 1] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}
/// The same by a plain pointer: a guard zone, or AddressSanitizer, finds it.
inline __global__ void shared_overflow_by_pointer(const int* in, int* out) {
    __shared__ shared_array<int, 63> tile;
    int* p = tile.data();
    p[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = threadIdx.x < 63 ? p[threadIdx.x] : 0;
}
/// The last element is not written.
inline __global__ void unwritten_output(const int* in, int* out) {
    if (threadIdx.x < 63) out[threadIdx.x] = in[threadIdx.x];
}
/// Reads shared memory that nobody wrote.
inline __global__ void uninitialised_shared(const int* in, int* out) {
    __shared__ shared_array<int, 1> sum;
    __syncthreads();
    atomicAdd(&sum[0], in[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) *out = sum[0];
}
/// Half of the block waits at a barrier of its own.
inline __global__ void divergent_barrier(const int* in, int* out) {
    if (threadIdx.x < 32) {
        out[threadIdx.x] = in[threadIdx.x];
        __syncthreads();
    } else {
        out[threadIdx.x] = -in[threadIdx.x];
        __syncthreads();
    }
}
/// Threads return before a barrier.
inline __global__ void early_return(const int* in, int* out) {
    if (threadIdx.x >= 60) return;
    out[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
}
/// The copy is not waited for.
inline __global__ void missing_wait(const int* in, int* out) {
    __shared__ shared_array<int, 64> tile;
    __pipeline_memcpy_async(&tile[threadIdx.x], in + threadIdx.x, 4);
    __pipeline_commit();
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}
/// One element past an allocation.
inline __global__ void global_overflow(const int* in, int* out) { out[threadIdx.x + 1] = in[threadIdx.x]; }
/// A float sum whose order nobody fixes.
inline __global__ void unordered_sum(const int* in, float* out) {
    atomicAdd(out, 1e8f * static_cast<float>(in[threadIdx.x] % 7 - 3) + 0.3f * static_cast<float>(threadIdx.x));
}
/// Blocks hand results on as if they ran in order.
inline __global__ void ordered_blocks(const int*, int* out) {
    out[blockIdx.x] = blockIdx.x ? out[blockIdx.x - 1] + 1 : 0;
}

inline __global__ void add_one(int* data) { data[threadIdx.x] += 1; }

} // namespace broken
