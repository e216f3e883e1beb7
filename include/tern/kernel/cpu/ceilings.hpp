// What this processor can do at most, measured: reads from memory, fused additions of floats, products of bytes. A
// kernel's figures mean something beside these only. (Not part of cpu.hpp.)
#pragma once

#include <cstddef>
#include <cstdint>

#include <tern/kernel/cpu/features.hpp>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tern::kernel::cpu {

/// Ways of reading memory; which is the fastest depends on the machine.
enum class read_way { plain, prefetched, four_streams };

namespace detail {

inline std::uint64_t read_words(const std::byte* from, std::size_t size) noexcept {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i + 8 <= size; i += 8) {
        std::uint64_t word;
        __builtin_memcpy(&word, from + i, 8);
        sum += word;
    }
    return sum;
}

#if defined(__x86_64__)
/// `streams` stretches side by side, with 256-bit loads; `ahead` bytes are prefetched where it is not 0.
template <std::size_t Streams, std::size_t Ahead>
[[gnu::target("avx2,fma,f16c")]] std::uint64_t read_lines(const std::byte* from, std::size_t size) noexcept {
    const std::size_t each = size / Streams / 128 * 128;
    __m256i sums[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    for (std::size_t i = 0; i < each; i += 128)
#pragma GCC unroll 4
        for (std::size_t s = 0; s < Streams; ++s) {
            const std::byte* at = from + s * each + i;
            if constexpr (Ahead != 0) {
                _mm_prefetch(reinterpret_cast<const char*>(at) + Ahead, _MM_HINT_T0);
                _mm_prefetch(reinterpret_cast<const char*>(at) + Ahead + 64, _MM_HINT_T0);
            }
#pragma GCC unroll 4
            for (std::size_t k = 0; k < 4; ++k)
                sums[k] = _mm256_add_epi64(sums[k], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + k * 32)));
        }
    const __m256i all = _mm256_add_epi64(_mm256_add_epi64(sums[0], sums[1]), _mm256_add_epi64(sums[2], sums[3]));
    std::uint64_t words[4];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), all);
    return words[0] + words[1] + words[2] + words[3] + read_words(from + Streams * each, size - Streams * each);
}

/// Keeps a value in a register and the compiler from knowing it.
template <class T> [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void touch(T& v) {
    __asm__ volatile("" : "+x"(v));
}

[[gnu::target("avx2,fma,f16c")]] inline void fused_additions(std::size_t rounds) noexcept {
    __m256 a[10];
    const __m256 half = _mm256_set1_ps(0.5f);
#pragma GCC unroll 10
    for (int i = 0; i < 10; ++i) a[i] = half;
    for (std::size_t r = 0; r < rounds; ++r)
#pragma GCC unroll 10
        for (int i = 0; i < 10; ++i) {
            a[i] = _mm256_fmadd_ps(half, a[i], half);
            touch(a[i]);
        }
}

[[gnu::target("avx2,fma,f16c")]] inline void byte_products(std::size_t rounds) noexcept {
    __m256i a[10], w = _mm256_set1_epi8(3), x = _mm256_set1_epi8(-2);
#pragma GCC unroll 10
    for (int i = 0; i < 10; ++i) a[i] = w;
    for (std::size_t r = 0; r < rounds; ++r)
#pragma GCC unroll 10
        for (int i = 0; i < 10; ++i) {
            __m256i both = _mm256_maddubs_epi16(w, x);
            touch(both);
            a[i] = _mm256_add_epi16(a[i], both);
            touch(a[i]);
        }
}
#endif

} // namespace detail

/// The sum of a stretch's words of 8 bytes, read in one of the ways; the bytes past the last whole word are left out.
/// `size` is a multiple of 8.
inline std::uint64_t read_all(const std::byte* from, std::size_t size, read_way way) noexcept {
#if defined(__x86_64__)
    if (available_instructions() == instruction_set::avx2) {
        if (way == read_way::prefetched) return detail::read_lines<1, 2048>(from, size);
        if (way == read_way::four_streams) return detail::read_lines<4, 0>(from, size);
        return detail::read_lines<1, 0>(from, size);
    }
#endif
    static_cast<void>(way);
    return detail::read_words(from, size);
}

/// Does a known number of operations in registers alone and gives it, a product and an addition counting two; 0 where
/// the processor has no AVX2. Fused additions of eight floats each.
inline std::uint64_t run_float_operations(std::size_t rounds) noexcept {
#if defined(__x86_64__)
    if (available_instructions() == instruction_set::avx2) {
        detail::fused_additions(rounds);
        return std::uint64_t{rounds} * 10 * 16;
    }
#endif
    return 0 * rounds;
}

/// The same for products of bytes that are added up in 16 bits: the least that an integer product takes.
inline std::uint64_t run_byte_operations(std::size_t rounds) noexcept {
#if defined(__x86_64__)
    if (available_instructions() == instruction_set::avx2) {
        detail::byte_products(rounds);
        return std::uint64_t{rounds} * 10 * 64;
    }
#endif
    return 0 * rounds;
}

} // namespace tern::kernel::cpu
