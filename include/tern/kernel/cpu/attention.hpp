// Causal attention with AVX2: an online softmax over blocks of keys.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <limits>

#include <tern/kernel/attention.hpp>
#include <tern/kernel/cpu/elementwise.hpp>
#include <tern/kernel/cpu/linear.hpp>
#include <tern/kernel/cpu/math.hpp>

namespace tern::kernel::cpu {

namespace detail {

constexpr std::size_t key_block = 32; // keys that go through one step of the softmax

/// A block of the keys and values that a token sees, for one key head.
struct keys_seen {
    const float* k[key_block];
    const float* v[key_block];
    std::size_t count = 0;
};

/// The softmax of one head so far.
struct softmax_state {
    float greatest;
    float sum;
};

/// s[j] = q . k[j] for eight keys.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256 dots(const float* q, const float* const* k,
                                                                        std::size_t dim) {
    __m256 sums[8];
#pragma GCC unroll 8
    for (std::size_t j = 0; j < 8; ++j) sums[j] = _mm256_setzero_ps();
    for (std::size_t i = 0; i < dim; i += 8) {
        const part p = part_at(i, dim);
        const __m256 qs = p.load(q);
#pragma GCC unroll 8
        for (std::size_t j = 0; j < 8; ++j) sums[j] = _mm256_fmadd_ps(qs, p.load(k[j]), sums[j]);
    }
    return _mm256_set_m128(sum_lanes(sums[4], sums[5], sums[6], sums[7]),
                           sum_lanes(sums[0], sums[1], sums[2], sums[3]));
}

[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline float greatest_lane(__m256 a) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
}

/// out = out * keep + sum over the keys, in order, of w[j] v[j].
[[gnu::target("avx2,fma,f16c")]] inline void add_values(const keys_seen& keys, const float* w, float keep,
                                                        std::size_t dim, float* out) {
    const __m256 factor = _mm256_set1_ps(keep);
    std::size_t i = 0;
    for (; i + 64 <= dim; i += 64) {
        __m256 sums[8];
#pragma GCC unroll 8
        for (std::size_t d = 0; d < 8; ++d) sums[d] = _mm256_mul_ps(_mm256_loadu_ps(out + i + 8 * d), factor);
        for (std::size_t j = 0; j < keys.count; ++j) {
            const __m256 weight = _mm256_broadcast_ss(w + j);
            const float* v = keys.v[j] + i;
#pragma GCC unroll 8
            for (std::size_t d = 0; d < 8; ++d) sums[d] = _mm256_fmadd_ps(weight, _mm256_loadu_ps(v + 8 * d), sums[d]);
        }
#pragma GCC unroll 8
        for (std::size_t d = 0; d < 8; ++d) _mm256_storeu_ps(out + i + 8 * d, sums[d]);
    }
    for (; i < dim; i += 8) {
        const part p = part_at(i, dim);
        __m256 sum = _mm256_mul_ps(p.load(out), factor);
        for (std::size_t j = 0; j < keys.count; ++j)
            sum = _mm256_fmadd_ps(_mm256_broadcast_ss(w + j), p.load(keys.v[j]), sum);
        p.store(out, sum);
    }
}

/// One step of the online softmax. Requires keys.count > 0; the pointers up to a multiple of eight are valid.
[[gnu::target("avx2,fma,f16c")]] inline void attend(const attention::args& a, const float* q, const keys_seen& keys,
                                                    softmax_state& state, float* out) {
    constexpr float none = -std::numeric_limits<float>::infinity();
    alignas(32) float weights[key_block];
    const __m256 scale = _mm256_set1_ps(a.scale), cap = _mm256_set1_ps(a.soft_cap);
    __m256 most = _mm256_set1_ps(state.greatest);
    for (std::size_t j = 0; j < keys.count; j += 8) {
        __m256 scores = _mm256_mul_ps(dots(q, keys.k + j, a.head_dim), scale);
        if (a.soft_cap != 0) scores = _mm256_mul_ps(cap, tanh8(_mm256_div_ps(scores, cap)));
        if (keys.count - j < 8)
            scores = _mm256_blendv_ps(_mm256_set1_ps(none), scores, _mm256_castsi256_ps(first_lanes(keys.count - j)));
        most = _mm256_max_ps(scores, most); // a NaN leaves `most` as it is, and comes through in its weight
        _mm256_store_ps(weights + j, scores);
    }
    const float greatest = greatest_lane(most);
    const float base = greatest == none ? 0.0f : greatest; // no -infinity minus itself
    __m256 sums = _mm256_setzero_ps();
    for (std::size_t j = 0; j < keys.count; j += 8) {
        const __m256 w = exp8(_mm256_sub_ps(_mm256_load_ps(weights + j), _mm256_set1_ps(base)));
        sums = _mm256_add_ps(sums, w);
        _mm256_store_ps(weights + j, w);
    }
    const float keep = _mm256_cvtss_f32(exp8(_mm256_set1_ps(state.greatest - base)));
    state.sum = __builtin_fmaf(state.sum, keep, _mm_cvtss_f32(sum_lanes(sums, sums, sums, sums)));
    state.greatest = greatest;
    add_values(keys, weights, keep, a.head_dim, out);
}

/// Heads h .. h + count - 1 of a token, which share key head `kv_head`: each block of keys is read once for all of
/// them.
[[gnu::target("avx2,fma,f16c")]] inline void attend_heads(const attention::args& a, std::size_t t, std::size_t h,
                                                          std::size_t count, std::size_t kv_head) {
    constexpr float none = -std::numeric_limits<float>::infinity();
    constexpr std::size_t most = 8;
    softmax_state states[most];
    const float* q = a.q + t * a.q_stride + h * a.head_dim;
    float* out = a.out + t * a.out_stride + h * a.head_dim;
    for (std::size_t i = 0; i < count; ++i) {
        const float sink = a.sinks ? a.sinks[h + i] : none;
        states[i] = {sink, sink == none ? 0.0f : 1.0f};
    }
    for (std::size_t i = 0; i < count * a.head_dim; ++i) out[i] = 0;

    keys_seen keys;
    const auto flush = [&] {
        for (std::size_t j = keys.count; j % 8 != 0; ++j) keys.k[j] = keys.k[keys.count - 1];
        for (std::size_t i = 0; i < count; ++i) attend(a, q + i * a.head_dim, keys, states[i], out + i * a.head_dim);
        keys.count = 0;
    };
    attention::each_key(a, t, kv_head, [&](const float* k, const float* v) {
        keys.k[keys.count] = k;
        keys.v[keys.count] = v;
        if (++keys.count == key_block) flush();
    });
    if (keys.count > 0) flush();
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t d = 0; d < a.head_dim; ++d)
            out[i * a.head_dim + d] = states[i].sum != 0 ? out[i * a.head_dim + d] / states[i].sum : 0.0f;
}

} // namespace detail

/// The blocks of keys begin at the first key that a token sees, so they depend on its position and the window alone.
/// Error: about 1e-6 of the largest |v| for scores of size 1; a score of size s is known to about 1e-7 s (times the sum
/// of |q k| over |q . k|), and so is the logarithm of its weight.
[[gnu::target("avx2,fma,f16c")]] inline void attention_avx2(const attention::args& a, std::size_t begin,
                                                            std::size_t end) {
    const std::size_t group = a.heads / a.kv_heads;
    for (std::size_t item = begin; item < end;) {
        const std::size_t t = item / a.heads, h = item % a.heads;
        std::size_t count = group - h % group; // heads left that share this key head
        if (count > end - item) count = end - item;
        if (count > 8) count = 8;
        detail::attend_heads(a, t, h, count, h / group);
        item += count;
    }
}

} // namespace tern::kernel::cpu

#endif
