// Arithmetic, atomics, fences and asynchronous copies under CUDA's names.
//
// Fast functions (__expf and its like) are the exact ones here: a device's differ in the last bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <tern/cuda/emulation/block.hpp>

namespace tern::cuda::emulation {

/// Whole numbers wrap around in atomics, as on a device.
template <class T> constexpr auto wrapping(T value) noexcept {
    if constexpr (std::is_integral_v<T>)
        return static_cast<std::make_unsigned_t<T>>(value);
    else
        return value;
}

} // namespace tern::cuda::emulation

// NOLINTBEGIN: the names are CUDA's.

// The C library declares some of these names; macros take them all the same.
#define __expf(x) ::expf(x)
#define __logf(x) ::logf(x)
#define __log2f(x) ::log2f(x)
#define __sinf(x) ::sinf(x)
#define __cosf(x) ::cosf(x)
#define __powf(x, y) ::powf(x, y)
#if !defined(__GLIBC_PREREQ) || !__GLIBC_PREREQ(2, 42)
inline float rsqrtf(float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }
#endif
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }

inline int min(int a, int b) { return b < a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline long long min(long long a, long long b) { return b < a ? b : a; }
inline long long max(long long a, long long b) { return a < b ? b : a; }
inline unsigned long long min(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
inline unsigned long long max(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline unsigned __brev(unsigned x) {
    unsigned y = 0;
    for (int i = 0; i < 32; ++i) y |= ((x >> i) & 1u) << (31 - i);
    return y;
}
/// Byte i of the result is byte (selector >> 4i) & 7 of (y, x); bit 3 of a selector repeats its sign.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const std::uint64_t both = (std::uint64_t{y} << 32) | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned pick = (selector >> (4 * i)) & 15u;
        unsigned byte = static_cast<unsigned>(both >> (8 * (pick & 7u))) & 0xFFu;
        if (pick & 8u) byte = byte & 0x80u ? 0xFFu : 0u;
        result |= byte << (8 * i);
    }
    return result;
}
/// c + the sum of four products of bytes with sign.
inline int __dp4a(int a, int b, int c) {
    auto sum = static_cast<unsigned>(c);
    for (int i = 0; i < 4; ++i)
        sum += static_cast<unsigned>(int{static_cast<std::int8_t>(a >> (8 * i))} *
                                     int{static_cast<std::int8_t>(b >> (8 * i))});
    return static_cast<int>(sum);
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; ++i) c += ((a >> (8 * i)) & 0xFFu) * ((b >> (8 * i)) & 0xFFu);
    return c;
}
/// Four subtractions of bytes, without borrow between them.
inline unsigned __vsub4(unsigned a, unsigned b) {
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= (((a >> (8 * i)) - (b >> (8 * i))) & 0xFFu) << (8 * i);
    return result;
}

template <class T> T __ldg(const T* from) { return *from; }

// Atomics: one thread of the host runs at a time, so plain operations are atomic.
#define TERN_EMULATED_ATOMIC(name, expression)                                                                         \
    template <class T> T name(T* at, std::type_identity_t<T> value) {                                                  \
        static_assert(std::is_arithmetic_v<T> && sizeof(T) >= 4);                                                      \
        const T old = *at;                                                                                             \
        *at = static_cast<T>(expression);                                                                              \
        return old;                                                                                                    \
    }
TERN_EMULATED_ATOMIC(atomicAdd, tern::cuda::emulation::wrapping(old) + tern::cuda::emulation::wrapping(value))
TERN_EMULATED_ATOMIC(atomicSub, tern::cuda::emulation::wrapping(old) - tern::cuda::emulation::wrapping(value))
TERN_EMULATED_ATOMIC(atomicExch, value)
TERN_EMULATED_ATOMIC(atomicMin, value < old ? value : old)
TERN_EMULATED_ATOMIC(atomicMax, old < value ? value : old)
TERN_EMULATED_ATOMIC(atomicAnd, old& value)
TERN_EMULATED_ATOMIC(atomicOr, old | value)
TERN_EMULATED_ATOMIC(atomicXor, old ^ value)
TERN_EMULATED_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
#undef TERN_EMULATED_ATOMIC
template <class T> T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> desired) {
    const T old = *at;
    if (old == expected) *at = desired;
    return old;
}

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
/// Lets other threads of the block run: a thread that waits for another in a loop must call it here.
inline void __nanosleep(unsigned) { tern::cuda::emulation::this_block().pause(); }
[[noreturn]] inline void __trap() {
    tern::cuda::emulation::this_block().fail({tern::cuda::emulation::fault_kind::misuse, "__trap was called"});
}

/// cp.async: what arrives may be read after a wait and, by other threads, a barrier. Until then it is poison.
inline void __pipeline_memcpy_async(void* shared, const void* global, std::size_t bytes, std::size_t zeros = 0) {
    using namespace tern::cuda::emulation;
    block_runner& block = this_block();
    const auto misaligned = [&](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % bytes != 0; };
    if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes || misaligned(shared) || misaligned(global))
        block.fail({fault_kind::misuse, "an asynchronous copy takes 4, 8 or 16 bytes at a multiple of that"});
    std::memset(shared, block.plan().poison, bytes);
    block.copies().issue(shared, global, bytes, zeros);
}
inline void __pipeline_commit() { tern::cuda::emulation::this_block().copies().commit(); }
inline void __pipeline_wait_prior(std::size_t newest) { tern::cuda::emulation::this_block().copies().wait(newest); }
// NOLINTEND
