// Decoding k-quants with AVX2. The values are those of F::decode, bit for bit.
#pragma once

#if defined(__x86_64__)

#include <tern/format/k_quants.hpp>
#include <tern/kernel/cpu/decode.hpp>

namespace tern::kernel::cpu {

namespace detail {

/// Group number `Group` of q2_k and q3_k's low bits: 16 codes of 2 bits.
template <int Group>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m128i two_bits(const unsigned char* qs) {
    return bits_from<Group % 8 / 2 * 2>(load16(qs + Group / 8 * 32 + Group % 2 * 16), 3);
}

template <int Group>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void q2_group(const q2_k::block& b, __m256 d, __m256 dmin,
                                                                          float* out) {
    const __m256 scale = _mm256_mul_ps(d, _mm256_set1_ps(static_cast<float>(b.scales[Group] & 15)));
    const __m256 minimum = _mm256_mul_ps(dmin, _mm256_set1_ps(static_cast<float>(b.scales[Group] >> 4)));
    scale_offset(two_bits<Group>(b.qs), scale, _mm256_xor_ps(minimum, _mm256_set1_ps(-0.0f)), out + Group * 16);
    if constexpr (Group < 15) q2_group<Group + 1>(b, d, dmin, out);
}

template <int Group>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void q3_group(const q3_k::block& b, __m256 d, float* out) {
    const __m256 scale = _mm256_mul_ps(d, _mm256_set1_ps(static_cast<float>(q3_k::scale(b, Group))));
    // Where the third bit is missing the code is 4 lower.
    const __m128i third =
        _mm_and_si128(load16(b.hmask + Group % 2 * 16), _mm_set1_epi8(static_cast<char>(1 << (Group / 2))));
    const __m128i missing = _mm_and_si128(_mm_cmpeq_epi8(third, _mm_setzero_si128()), _mm_set1_epi8(4));
    scale_signed(_mm_sub_epi8(two_bits<Group>(b.qs), missing), scale, out + Group * 16);
    if constexpr (Group < 15) q3_group<Group + 1>(b, d, out);
}

/// Eight bytes as floats.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256 eight_floats(std::uint32_t low, std::uint32_t high) {
    const std::uint64_t both = low | (static_cast<std::uint64_t>(high) << 32);
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(both))));
}

/// The scales and minima of the eight groups of a q4_k or q5_k.
struct group_floats {
    float scale[8];
    float minimum[8]; // negated
};

[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void
unpack(const tern::detail::packed_scales& packed, std::uint16_t d, std::uint16_t dmin, group_floats& out) {
    std::uint32_t a, b, c;
    __builtin_memcpy(&a, packed.raw, 4);
    __builtin_memcpy(&b, packed.raw + 4, 4);
    __builtin_memcpy(&c, packed.raw + 8, 4);
    const std::uint32_t later = (c & 0x0F0F0F0Fu) | ((a >> 2) & 0x30303030u);
    const std::uint32_t later_minima = ((c >> 4) & 0x0F0F0F0Fu) | ((b >> 2) & 0x30303030u);
    _mm256_storeu_ps(out.scale, _mm256_mul_ps(broadcast_half(d), eight_floats(a & 0x3F3F3F3Fu, later)));
    const __m256 minima = _mm256_mul_ps(broadcast_half(dmin), eight_floats(b & 0x3F3F3F3Fu, later_minima));
    _mm256_storeu_ps(out.minimum, _mm256_xor_ps(minima, _mm256_set1_ps(-0.0f)));
}

/// Groups 2 * Pair and 2 * Pair + 1 of q5_k: the fifth bits are bits 2 * Pair and 2 * Pair + 1 of qh.
template <int Pair>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void q5_pair(const q5_k::block& b, const group_floats& g,
                                                                         float* out) {
    const __m256 s0 = _mm256_broadcast_ss(g.scale + 2 * Pair), m0 = _mm256_broadcast_ss(g.minimum + 2 * Pair);
    const __m256 s1 = _mm256_broadcast_ss(g.scale + 2 * Pair + 1), m1 = _mm256_broadcast_ss(g.minimum + 2 * Pair + 1);
    for (int half = 0; half < 2; ++half) {
        const __m128i qs = load16(b.qs + Pair * 32 + half * 16), qh = load16(b.qh + half * 16);
        const __m128i first = _mm_slli_epi16(bits_from<2 * Pair>(qh, 1), 4);
        const __m128i second = _mm_slli_epi16(bits_from<2 * Pair + 1>(qh, 1), 4);
        scale_offset(_mm_or_si128(bits_from<0>(qs, 15), first), s0, m0, out + Pair * 64 + half * 16);
        scale_offset(_mm_or_si128(bits_from<4>(qs, 15), second), s1, m1, out + Pair * 64 + 32 + half * 16);
    }
    if constexpr (Pair < 3) q5_pair<Pair + 1>(b, g, out);
}

template <int Group>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void q6_group(const q6_k::block& b, __m256 d, float* out) {
    const __m256 scale = _mm256_mul_ps(d, _mm256_set1_ps(static_cast<float>(b.scales[Group])));
    const __m128i low = bits_from<Group % 8 / 4 * 4>(load16(b.ql + Group / 8 * 64 + Group % 4 * 16), 15);
    const __m128i high = bits_from<Group % 8 / 2 * 2>(load16(b.qh + Group / 8 * 32 + Group % 2 * 16), 3);
    const __m128i codes = _mm_or_si128(low, _mm_slli_epi16(high, 4));
    scale_signed(_mm_sub_epi8(codes, _mm_set1_epi8(32)), scale, out + Group * 16);
    if constexpr (Group < 15) q6_group<Group + 1>(b, d, out);
}

} // namespace detail

template <> struct avx2_decoder<q2_k> {
    [[gnu::target("avx2,fma,f16c")]] static void run(const q2_k::block* blocks, std::size_t count,
                                                     float* out) noexcept {
        for (std::size_t b = 0; b < count; ++b, out += 256)
            detail::q2_group<0>(blocks[b], detail::broadcast_half(blocks[b].d.get()),
                                detail::broadcast_half(blocks[b].dmin.get()), out);
    }
};

template <> struct avx2_decoder<q3_k> {
    [[gnu::target("avx2,fma,f16c")]] static void run(const q3_k::block* blocks, std::size_t count,
                                                     float* out) noexcept {
        for (std::size_t b = 0; b < count; ++b, out += 256)
            detail::q3_group<0>(blocks[b], detail::broadcast_half(blocks[b].d.get()), out);
    }
};

template <> struct avx2_decoder<q4_k> {
    [[gnu::target("avx2,fma,f16c")]] static void run(const q4_k::block* blocks, std::size_t count,
                                                     float* out) noexcept {
        detail::group_floats g;
        for (std::size_t b = 0; b < count; ++b) {
            detail::unpack(blocks[b].scales, blocks[b].d.get(), blocks[b].dmin.get(), g);
            for (int pair = 0; pair < 4; ++pair, out += 64) {
                const __m256 s0 = _mm256_broadcast_ss(g.scale + 2 * pair),
                             m0 = _mm256_broadcast_ss(g.minimum + 2 * pair);
                const __m256 s1 = _mm256_broadcast_ss(g.scale + 2 * pair + 1),
                             m1 = _mm256_broadcast_ss(g.minimum + 2 * pair + 1);
                const __m128i first = detail::load16(blocks[b].qs + pair * 32),
                              second = detail::load16(blocks[b].qs + pair * 32 + 16);
                detail::scale_offset(detail::bits_from<0>(first, 15), s0, m0, out);
                detail::scale_offset(detail::bits_from<0>(second, 15), s0, m0, out + 16);
                detail::scale_offset(detail::bits_from<4>(first, 15), s1, m1, out + 32);
                detail::scale_offset(detail::bits_from<4>(second, 15), s1, m1, out + 48);
            }
        }
    }
};

template <> struct avx2_decoder<q5_k> {
    [[gnu::target("avx2,fma,f16c")]] static void run(const q5_k::block* blocks, std::size_t count,
                                                     float* out) noexcept {
        detail::group_floats g;
        for (std::size_t b = 0; b < count; ++b, out += 256) {
            detail::unpack(blocks[b].scales, blocks[b].d.get(), blocks[b].dmin.get(), g);
            detail::q5_pair<0>(blocks[b], g, out);
        }
    }
};

template <> struct avx2_decoder<q6_k> {
    [[gnu::target("avx2,fma,f16c")]] static void run(const q6_k::block* blocks, std::size_t count,
                                                     float* out) noexcept {
        for (std::size_t b = 0; b < count; ++b, out += 256)
            detail::q6_group<0>(blocks[b], detail::broadcast_half(blocks[b].d.get()), out);
    }
};

} // namespace tern::kernel::cpu

#endif
