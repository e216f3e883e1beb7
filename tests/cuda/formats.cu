// Every format compiles in device code without experimental flags, a user's own too; on a device the numbers equal the
// host's bit for bit.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tern/format/formats.hpp>
#include <tern/kernel/cuda/dequantize.cuh>

#include <format/own_format.hpp>

namespace {

/// A block that does not fit into shared memory.
struct long_block {
    static constexpr std::string_view name = "long_block";
    static constexpr std::size_t block_size = 2048;
    struct block { signed char q[2048]; };
    TERN_HOST_DEVICE static void decode(const block& b, float* out) noexcept {
        for (int i = 0; i < 2048; ++i) out[i] = static_cast<float>(b.q[i]);
    }
};

template <class F>
void compare(std::uint64_t count) {
    CAPTURE(std::string(F::name));
    using block = typename F::block;
    std::vector<block> blocks(count);
    auto* bytes = reinterpret_cast<unsigned char*>(blocks.data());
    std::uint32_t state = 7;
    for (std::size_t i = 0; i < count * sizeof(block); ++i) {
        state = state * 1664525u + 1013904223u;
        bytes[i] = static_cast<unsigned char>(state >> 24);
    }
    std::vector<float> expected(count * F::block_size), got(expected.size());
    for (std::uint64_t i = 0; i < count; ++i) F::decode(blocks[i], expected.data() + i * F::block_size);

    unsigned char* device = nullptr;
    float* out = nullptr;
    REQUIRE(cudaMalloc(&device, count * sizeof(block) + 1) == cudaSuccess);
    REQUIRE(cudaMalloc(&out, got.size() * sizeof(float)) == cudaSuccess);
    REQUIRE(cudaMemcpy(device + 1, bytes, count * sizeof(block), cudaMemcpyHostToDevice) == cudaSuccess);
    tern::cuda::dequantize<F>(device + 1, count, out); // an odd address
    REQUIRE(cudaMemcpy(got.data(), out, got.size() * sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess);
    cudaFree(device);
    cudaFree(out);
    std::size_t different = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        if (std::isnan(expected[i])) different += !std::isnan(got[i]);
        else different += std::memcmp(&got[i], &expected[i], sizeof(float)) != 0;
    }
    CHECK(different == 0);
}

template <class F>
void compare_sizes() {
    for (const std::uint64_t count : {1, 31, 257, 1000}) compare<F>(count);
}

} // namespace

TEST_CASE("cuda/formats: every format decodes on the device as on the host") {
    int devices = 0;
    const bool present = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
    if (!present) {
        MESSAGE("skipped: no device");
        return;
    }
    tern::all_formats::for_each([]<class F>(std::type_identity<F>) { compare_sizes<F>(); });
    compare_sizes<own::halves>();
    compare_sizes<long_block>();
}
