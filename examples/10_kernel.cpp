// A CUDA kernel of one's own, run and checked without a GPU. Under nvcc the same source runs on a device.
#include <iostream>
#include <vector>

#include <tern/cuda/launch.hpp>

constexpr unsigned width = 64;

// The sum of each row of a matrix: a block a row, halved again and again in shared memory.
__global__ void row_sums(const float* x, float* sums) {
    __shared__ tern::cuda::shared_array<float, width> part;
    part[threadIdx.x] = x[blockIdx.x * width + threadIdx.x];
    for (unsigned half = width / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

// A barrier is missing here between the write and the read: a fault that a device shows now and then, and never in a
// debugger.
__global__ void neighbours(const float* x, float* sums) {
    __shared__ tern::cuda::shared_array<float, width> part;
    part[threadIdx.x] = x[blockIdx.x * width + threadIdx.x];
    sums[blockIdx.x * width + threadIdx.x] = part[threadIdx.x] + part[(threadIdx.x + 1) % width];
}

int main() {
    constexpr unsigned rows = 3;
    std::vector<float> x(rows * width), sums(rows);
    for (unsigned i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 10);
    float *on_device = nullptr, *result = nullptr;
    cudaMalloc(&on_device, x.size() * sizeof(float));
    cudaMalloc(&result, x.size() * sizeof(float));
    cudaMemcpy(on_device, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);

    tern::cuda::launch({.blocks = rows, .threads = width, .name = "row_sums"}, row_sums, on_device, result);
    cudaMemcpy(sums.data(), result, rows * sizeof(float), cudaMemcpyDeviceToHost);
    for (const float sum : sums) std::cout << sum << '\n';

    try { // the emulation ran the threads in several orders, and compares
        tern::cuda::launch({.blocks = rows, .threads = width, .name = "neighbours"}, neighbours, on_device, result);
        cudaDeviceSynchronize();
    } catch (const tern::error& e) { std::cout << e.what() << '\n'; }
    cudaFree(on_device);
    cudaFree(result);
}
