// Rotary position embedding on a CUDA device, which writes keys and values straight into their cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tern/cuda/launch.hpp>
#include <tern/kernel/rope.hpp>

namespace tern::cuda {

/// Rotates queries in place, and keys on their way into the cache; values go there as they are.
/// Shapes: q [tokens, heads * head_dim], k and v [tokens, kv_heads * head_dim] f32, contiguous; cos and sin
/// [tokens, dims / 2]; slots [tokens]: the row of k_cache and v_cache [.., kv_heads * head_dim] that a token takes, no
/// two the same; a negative one is not written. All addresses are of the device. Requires dims even, at most head_dim.
struct rope_cache_args {
    float* q;
    const float* k;
    const float* v;
    std::size_t tokens;
    std::size_t heads;
    std::size_t kv_heads;
    std::size_t head_dim;
    std::size_t dims;
    kernel::stated_pairing pairing;
    const float* cos;
    const float* sin;
    const std::int64_t* slots;
    float* k_cache;
    float* v_cache;
};

namespace detail {

/// Rotates a head by all threads of a block.
__device__ inline void rotate_head(const rope_cache_args& a, const float* x, float* y, std::size_t token) {
    const std::size_t pairs = a.dims / 2;
    const bool adjacent = a.pairing.value == kernel::rope_pairing::adjacent;
    for (std::size_t i = threadIdx.x; i < pairs; i += blockDim.x) {
        const std::size_t first = adjacent ? 2 * i : i, second = adjacent ? 2 * i + 1 : i + pairs;
        const float c = a.cos[token * pairs + i], s = a.sin[token * pairs + i];
        const float u = x[first], w = x[second];
        y[first] = u * c - w * s;
        y[second] = w * c + u * s;
    }
    for (std::size_t i = a.dims + threadIdx.x; i < a.head_dim; i += blockDim.x) y[i] = x[i];
}

/// One block a head of a token: first the heads of q, then those of k, then those of v.
template <class = void> __global__ void rope_into_cache(rope_cache_args a) {
    const std::size_t token = blockIdx.y, head = blockIdx.x, kv_width = a.kv_heads * a.head_dim;
    if (head < a.heads) {
        float* q = a.q + (token * a.heads + head) * a.head_dim;
        rotate_head(a, q, q, token);
        return;
    }
    if (a.slots[token] < 0) return;
    const auto slot = static_cast<std::size_t>(a.slots[token]);
    const bool is_key = head < a.heads + a.kv_heads;
    const std::size_t at = (head - a.heads - (is_key ? 0 : a.kv_heads)) * a.head_dim;
    if (is_key) {
        rotate_head(a, a.k + token * kv_width + at, a.k_cache + slot * kv_width + at, token);
    } else {
        for (std::size_t i = threadIdx.x; i < a.head_dim; i += blockDim.x)
            a.v_cache[slot * kv_width + at + i] = a.v[token * kv_width + at + i];
    }
}

} // namespace detail

/// Throws shape_error where dims is odd or above head_dim, or where a launch has no room for the tokens.
template <class = void> void rope_into_cache(const rope_cache_args& a, cudaStream_t stream = nullptr) {
    if (a.dims % 2 != 0 || a.dims > a.head_dim)
        throw shape_error("rope turns " + std::to_string(a.dims) + " numbers of a head of " +
                          std::to_string(a.head_dim));
    if (a.tokens > 65535) throw shape_error(std::to_string(a.tokens) + " tokens are too many for one launch");
    if (a.tokens == 0 || a.head_dim == 0) return;
    const grid where{.blocks = dim3(blocks_for(a.heads + 2 * a.kv_heads, 1), static_cast<unsigned>(a.tokens)),
                     .threads = 64,
                     .stream = stream,
                     .name = "rope_into_cache"};
    launch(where, detail::rope_into_cache<>, a);
}

} // namespace tern::cuda
