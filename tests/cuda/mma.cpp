// Fragments of mma against a product by three loops.
#include <vector>

#include <doctest/doctest.h>

#include <cuda/mma_kernel.hpp>

TEST_CASE("cuda/mma: a product of whole numbers is exact") {
    tern::cuda::emulation::configure({});
    std::vector<unsigned short> a(256), b(128);
    std::vector<float> got(128);
    for (unsigned i = 0; i < 256; ++i)
        a[i] = __half_as_ushort(__float2half_rn(static_cast<float>(int(i * 7 % 23) - 11)));
    for (unsigned i = 0; i < 128; ++i)
        b[i] = __half_as_ushort(__float2half_rn(static_cast<float>(int(i * 5 % 19) - 9)));
    unsigned short *da = nullptr, *db = nullptr;
    float* dd = nullptr;
    cudaMalloc(&da, 512), cudaMalloc(&db, 256), cudaMalloc(&dd, 512);
    cudaMemcpy(da, a.data(), 512, cudaMemcpyHostToDevice);
    cudaMemcpy(db, b.data(), 256, cudaMemcpyHostToDevice);
    tern::cuda::launch({.blocks = 1, .threads = 32, .shared = 512, .name = "multiply"}, multiply<>, da, db, dd);
    cudaMemcpy(got.data(), dd, 512, cudaMemcpyDeviceToHost);
    cudaFree(da), cudaFree(db), cudaFree(dd);
    for (unsigned r = 0; r < 16; ++r)
        for (unsigned c = 0; c < 8; ++c) {
            int sum = 0;
            for (unsigned k = 0; k < 16; ++k)
                sum += (int((r * 16 + k) * 7 % 23) - 11) * (int((k * 8 + c) * 5 % 19) - 9);
            CHECK(got[r * 8 + c] == static_cast<float>(sum));
        }
}
