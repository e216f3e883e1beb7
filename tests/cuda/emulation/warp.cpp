// Warp operations, half types and integer intrinsics against their definitions.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tern/cuda/launch.hpp>

namespace {

__global__ void shuffles(int* out, int width) {
    const int lane = static_cast<int>(threadIdx.x);
    out[lane] = __shfl_sync(0xFFFFFFFFu, lane, 5, width);
    out[32 + lane] = __shfl_up_sync(0xFFFFFFFFu, lane, 3, width);
    out[64 + lane] = __shfl_down_sync(0xFFFFFFFFu, lane, 3, width);
    out[96 + lane] = __shfl_xor_sync(0xFFFFFFFFu, lane, 6, width);
}

__global__ void votes(unsigned* out) {
    const bool odd = threadIdx.x % 2 != 0;
    const unsigned ballot = __ballot_sync(0xFFFFFFFFu, odd);
    const int any = __any_sync(0xFFFFFFFFu, threadIdx.x == 9), all = __all_sync(0xFFFFFFFFu, threadIdx.x < 31);
    const unsigned sum = __reduce_add_sync(0xFFFFFFFFu, threadIdx.x),
                   same = __match_any_sync(0xFFFFFFFFu, threadIdx.x / 8);
    // Half a warp by itself, in a branch.
    unsigned upper = 0;
    if (threadIdx.x >= 16) upper = __ballot_sync(0xFFFF0000u, odd);
    const int count = __syncthreads_count(threadIdx.x < 7);
    unsigned* mine = out + 8 * threadIdx.x;
    mine[0] = ballot, mine[1] = static_cast<unsigned>(any), mine[2] = static_cast<unsigned>(all), mine[3] = sum;
    mine[4] = same, mine[5] = upper, mine[6] = static_cast<unsigned>(count), mine[7] = __activemask();
}

/// A warp with 20 threads: the mask may name lanes that are not there.
__global__ void part_of_a_warp(int* out) {
    out[threadIdx.x] = __shfl_down_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x), 1);
}

template <class T> std::vector<T> run(std::size_t count, unsigned threads, auto kernel, auto... more) {
    tern::cuda::emulation::configure({});
    T* out = nullptr;
    std::vector<T> got(count);
    REQUIRE(cudaMalloc(&out, count * sizeof(T)) == cudaSuccess);
    tern::cuda::launch({.blocks = 1, .threads = threads}, kernel, out, more...);
    cudaMemcpy(got.data(), out, count * sizeof(T), cudaMemcpyDeviceToHost);
    cudaFree(out);
    return got;
}

} // namespace

TEST_CASE("cuda/emulation/warp: shuffles in groups") {
    for (const int width : {32, 8}) {
        const std::vector<int> got = run<int>(128, 32, shuffles, width);
        for (int lane = 0; lane < 32; ++lane) {
            const auto i = static_cast<std::size_t>(lane);
            const int inside = lane % width, first = lane - inside;
            CHECK(got[i] == first + 5);
            CHECK(got[32 + i] == (inside < 3 ? lane : lane - 3));
            CHECK(got[64 + i] == (inside + 3 >= width ? lane : lane + 3));
            CHECK(got[96 + i] == (lane ^ 6));
        }
    }
}

TEST_CASE("cuda/emulation/warp: votes, reductions, and half a warp") {
    const std::vector<unsigned> got = run<unsigned>(256, 32, votes);
    for (unsigned lane = 0; lane < 32; ++lane) {
        const unsigned* mine = got.data() + 8 * lane;
        CHECK(mine[0] == 0xAAAAAAAAu);
        CHECK(mine[1] == 1);
        CHECK(mine[2] == 0);
        CHECK(mine[3] == 496);
        CHECK(mine[4] == 0xFFu << (lane / 8 * 8));
        CHECK(mine[5] == (lane < 16 ? 0 : 0xAAAA0000u));
        CHECK(mine[6] == 7);
        CHECK(mine[7] == 1u << lane);
    }
}

TEST_CASE("cuda/emulation/warp: a warp that is not full reads poison past its end") {
    try {
        run<int>(20, 20, part_of_a_warp);
        FAIL("no report");
    } catch (const tern::cuda::emulation::fault& f) {
        CHECK(f.kind() == tern::cuda::emulation::fault_kind::unwritten); // poison went to the output as it was
    }
}

TEST_CASE("cuda/emulation/half: every binary16 converts there and back, and rounding goes to even") {
    for (unsigned bits = 0; bits < 0x10000u; ++bits) {
        const auto h = static_cast<unsigned short>(bits);
        const float f = __half2float(__ushort_as_half(h));
        const int exponent = static_cast<int>((bits >> 10) & 31u), fraction = static_cast<int>(bits & 0x3FFu);
        if (exponent == 31) {
            CHECK((fraction != 0 ? std::isnan(f) : std::isinf(f)));
            continue;
        }
        const double value =
            std::ldexp(exponent == 0 ? fraction : 1024 + fraction, (exponent == 0 ? 1 : exponent) - 25);
        if (double{std::fabs(f)} != value || __half_as_ushort(__float2half_rn(f)) != h) FAIL(bits);
    }
    CHECK(__half_as_ushort(__float2half_rn(1.0f + 0x1p-11f)) == 0x3C00); // a tie
    CHECK(__half_as_ushort(__float2half_rn(1.0f + 0x3p-11f)) == 0x3C02);
    CHECK(__half_as_ushort(__float2half_rn(65519.0f)) == 0x7BFF);
    CHECK(__half_as_ushort(__float2half_rn(65520.0f)) == 0x7C00);
    CHECK(__half_as_ushort(__float2half_rn(-0x1p-25f)) == 0x8000);
    CHECK(__half_as_ushort(__float2half_rn(0x3p-26f)) == 0x0001);
    CHECK(__bfloat16_as_ushort(__float2bfloat16_rn(1.0f + 0x1p-8f)) == 0x3F80);
    CHECK(__bfloat16_as_ushort(__float2bfloat16_rn(1.0f + 0x3p-8f)) == 0x3F82);
    // 1.5 * 2049/2048 ... one rounding: 1 + 2^-10 times itself is 1 + 2^-9 + 2^-20; less 1 that is 2^-9 + 2^-20.
    const __half a = __ushort_as_half(0x3C01), one = __ushort_as_half(0xBC00);
    CHECK(__half2float(__hfma(a, a, one)) == __half2float(__float2half_rn(0x1p-9f + 0x1p-20f)));
}

TEST_CASE("cuda/emulation/intrinsics: bytes and bits") {
    CHECK(__dp4a(0x01020304, 0x05060708, 100) == 100 + 1 * 5 + 2 * 6 + 3 * 7 + 4 * 8);
    CHECK(__dp4a(static_cast<int>(0xFF80FF01u), 0x7F7F0102, 0) == -127 - 128 * 127 - 1 + 2);
    CHECK(__dp4a(0xFFFFFFFFu, 0x01010101u, 0u) == 4u * 255u);
    CHECK(__vsub4(0x00102030u, 0x01010101u) == 0xFF0F1F2Fu);
    CHECK(__byte_perm(0x33221100u, 0x77665544u, 0x7531u) == 0x77553311u);
    CHECK(__byte_perm(0x80u, 0u, 0x0008u) == 0x808080FFu);
    CHECK(__brev(1u) == 0x80000000u);
    CHECK(__ffs(8) == 4);
    CHECK(__clz(1) == 31);
    CHECK(__popc(0xF0F0u) == 8);
}
