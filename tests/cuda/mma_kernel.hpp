// A product of two small matrices by one mma, for the emulation and for nvcc; and dynamic shared memory.
#pragma once

#include <tern/cuda/launch.hpp>
#include <tern/cuda/mma.hpp>

/// d [16, 8] = a [16, 16] b [16, 8], row after row.
template <class = void> __global__ void multiply(const unsigned short* a, const unsigned short* b, float* d) {
    auto tile = tern::cuda::dynamic_shared<unsigned short>(); // of a
    for (unsigned i = threadIdx.x; i < 256; i += 32) tile[i] = a[i];
    __syncwarp();
    const unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
    unsigned fa[4], fb[2];
    float fd[4] = {};
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned at = (g + i % 2 * 8) * 16 + 2 * t + i / 2 * 8;
        fa[i] = tile[at] | (static_cast<unsigned>(tile[at + 1]) << 16);
    }
    for (unsigned i = 0; i < 2; ++i) {
        const unsigned k = 2 * t + i * 8;
        fb[i] = b[k * 8 + g] | (static_cast<unsigned>(b[(k + 1) * 8 + g]) << 16);
    }
    tern::cuda::mma_m16n8k16_f16(fd, fa, fb);
    for (unsigned i = 0; i < 4; ++i) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = fd[i];
}
