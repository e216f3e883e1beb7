// Eight rows side by side, for products with many tokens: the codes of a few blocks are unpacked once, so that each
// register holds four columns of eight rows, and every token is multiplied with them.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include <tern/kernel/cpu/codes.hpp>
#include <tern/kernel/cpu/dot_q8.hpp>

namespace tern::kernel::cpu {

/// Eight parts (256 columns) of eight rows.
template <code_kind Kind> struct panel;

template <> struct alignas(32) panel<code_kind::small> {
    unsigned char codes[8][8][32]; ///< [part][step][row]: four columns of each row
    float scale[8][8];             ///< [part][row]
    float low[8][8];
};

template <> struct alignas(32) panel<code_kind::scaled> {
    unsigned char codes[8][8][32];
    std::int16_t factor[8][2][16]; ///< [part][half][row]: the scale of 16 columns, twice
    std::int16_t raised[8][16];    ///< [part][row]: the scales of both halves, times the offset
    std::int16_t lows[8][16];
    float scale[8];
    float low[8];
};

template <> struct alignas(32) panel<code_kind::wide> {
    std::int16_t codes[8][16][16]; ///< [part][step][row]: two columns of each row
    float scale[8][8];
};

namespace detail {

/// Eight registers of eight words, rows and columns exchanged.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void transpose(__m256i (&r)[8]) {
    __m256i a[8], b[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        a[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
        b[4 * i] = _mm256_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 1] = _mm256_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 2] = _mm256_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
        b[4 * i + 3] = _mm256_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        r[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        r[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
}

template <class T> [[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void store_words(T* to, __m256i words) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(to), words);
}

/// Eight rows of floats, transposed into to[part][row].
[[gnu::noinline, gnu::target("avx2,fma,f16c")]] inline void store_transposed(float (*to)[8], __m256i (&rows)[8]) {
    transpose(rows);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) store_words(to[i], rows[i]);
}

/// The codes of one part of eight rows, side by side. (Functions of their own, so that they are compiled once.)
[[gnu::noinline, gnu::target("avx2,fma,f16c")]] inline void store_codes(const __m256i (&rows)[8],
                                                                        unsigned char (&to)[8][32]) {
    __m256i r[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) r[i] = rows[i];
    transpose(r);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) store_words(to[i], r[i]);
}

/// The same for codes with sign, widened to 16 bits.
[[gnu::noinline, gnu::target("avx2,fma,f16c")]] inline void store_codes(const __m256i (&rows)[8],
                                                                        std::int16_t (&to)[16][16]) {
    // Widening below leaves the rows in the order 0 1 4 5 2 3 6 7: exchanged here, they come out in order.
    __m256i r[8] = {rows[0], rows[1], rows[4], rows[5], rows[2], rows[3], rows[6], rows[7]};
    transpose(r);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
        const __m256 low = _mm256_castsi256_ps(_mm256_cvtepi8_epi16(_mm256_castsi256_si128(r[i])));
        const __m256 high = _mm256_castsi256_ps(_mm256_cvtepi8_epi16(_mm256_extracti128_si256(r[i], 1)));
        store_words(to[2 * i], _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0x88)));
        store_words(to[2 * i + 1], _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0xDD)));
    }
}

/// The codes of part `Part` and of those after it, for a block of eight parts.
template <class Form, int Part, class Block>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void pack_codes(const Block* const (&b)[8],
                                                                            panel<Form::kind>& to) {
    __m256i rows[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) rows[i] = Form::template codes<Part>(b[i]);
    store_codes(rows, to.codes[Part]);
    if constexpr (Part < 7) pack_codes<Form, Part + 1>(b, to);
}

/// The scales of groups of 16, and what goes with them.
template <class Form, class Block>
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline void pack_groups(const Block* const (&b)[8],
                                                                             panel<code_kind::scaled>& to) {
    __m256i r[8];
#pragma GCC unroll 1
    for (int i = 0; i < 8; ++i) r[i] = Form::group_scales(b[i]);
    transpose(r); // now [part], and in it the two scales of each row
    const __m256i first = _mm256_set1_epi32(0x01000100);
    const __m256i each = _mm256_broadcastsi128_si256(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0C0C0C0C));
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
        store_words(to.factor[i][0], _mm256_shuffle_epi8(r[i], _mm256_add_epi8(first, each)));
        store_words(to.factor[i][1], _mm256_shuffle_epi8(r[i], _mm256_add_epi8(_mm256_set1_epi32(0x03020302), each)));
        store_words(to.raised[i], _mm256_mullo_epi16(r[i], _mm256_set1_epi16(Form::offset)));
    }
    for (int i = 0; i < 8; ++i) to.scale[i] = _mm256_cvtss_f32(broadcast_half(b[i]->d.get()));
    if constexpr (Form::lows == 2) {
#pragma GCC unroll 1
        for (int i = 0; i < 8; ++i) r[i] = Form::group_lows(b[i]);
        transpose(r);
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) store_words(to.lows[i], r[i]);
        for (int i = 0; i < 8; ++i) to.low[i] = _mm256_cvtss_f32(broadcast_half(b[i]->dmin.get()));
    }
}

/// Eight parts of eight rows, from where each row's begin.
template <format F>
[[gnu::noinline, gnu::target("avx2,fma,f16c")]] void pack_panel(const typename F::block* const (&b)[8],
                                                                panel<avx2_form<F>::kind>& to) {
    using form = avx2_form<F>;
    if constexpr (F::block_size == 32) {
        for (int part = 0; part < 8; ++part) {
            __m256i rows[8];
#pragma GCC unroll 8
            for (int i = 0; i < 8; ++i) rows[i] = form::template codes<0>(b[i] + part);
            store_codes(rows, to.codes[part]);
        }
    } else {
        pack_codes<form, 0>(b, to);
    }
    if constexpr (form::kind == code_kind::scaled) {
        pack_groups<form>(b, to);
    } else {
        __m256i scales[8];
        [[maybe_unused]] __m256i lows[8];
#pragma GCC unroll 1
        for (int i = 0; i < 8; ++i) {
            const part_scales s = form::scales(b[i]);
            scales[i] = _mm256_castps_si256(s.scale);
            lows[i] = _mm256_castps_si256(s.low);
        }
        store_transposed(to.scale, scales);
        if constexpr (form::lows != 0) store_transposed(to.low, lows);
    }
}

} // namespace detail

/// Blocks `at` .. of eight rows, of `blocks` blocks each, the first being `row`, into `count` panels. Parts past the
/// end of a row are zero.
template <format F>
void pack_panels(const typename F::block* row, std::size_t blocks, std::size_t at, std::size_t count,
                 panel<avx2_form<F>::kind>* to) {
    constexpr std::size_t step = detail::blocks_in_eight<F>;
    for (std::size_t i = 0; i < count; ++i, at += step) {
        typename F::block room[8][step];
        const typename F::block* b[8];
        for (std::size_t r = 0; r < 8; ++r) b[r] = detail::whole_eight<F>(row + r * blocks, at, blocks, room[r]);
        detail::pack_panel<F>(b, to[i]);
    }
}

} // namespace tern::kernel::cpu

#endif
