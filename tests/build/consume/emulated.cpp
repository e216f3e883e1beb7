#include <tern/cuda/launch.hpp>

__global__ void twice(int* data) { data[threadIdx.x] *= 2; }

int main() {
    int numbers[4] = {1, 2, 3, 4}, *device = nullptr;
    cudaMalloc(&device, sizeof numbers);
    cudaMemcpy(device, numbers, sizeof numbers, cudaMemcpyHostToDevice);
    tern::cuda::launch({.blocks = 1, .threads = 4}, twice, device);
    cudaMemcpy(numbers, device, sizeof numbers, cudaMemcpyDeviceToHost);
    cudaFree(device);
    return numbers[0] + numbers[3] == 10 ? 0 : 1;
}
