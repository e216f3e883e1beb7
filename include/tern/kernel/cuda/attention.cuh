// Attention for decoding on a CUDA device: the context of each token is split over blocks, whose parts a second kernel
// joins.
//
// A part is 256 keys, whatever the length, the batch or the device: so the order of sums depends on the position alone.
// Source of the joining: Dao and others, "Flash-Decoding for long-context inference", 2023.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tern/cuda/launch.hpp>

namespace tern::cuda {

inline constexpr std::size_t attention_part = 256; ///< keys of one block
inline constexpr std::size_t attention_head_most = 256;

/// out = softmax(cap(scale * q k^T)) v over the keys that each token sees, as in kernel::attention.
/// Shapes: q, out [tokens, heads * head_dim] f32; a token's keys lie in pages of `page_tokens` rows: key j of token t
/// is row j % page_tokens of k_pages[t * pages_stride + j / page_tokens], [page_tokens, kv_heads * head_dim] f32.
/// positions [tokens]: token t sees the keys 0 .. positions[t], with a window the last `window` of them; none if it is
/// negative, and then the result is 0. `longest` is at least every position + 1.
/// scratch: attention_scratch(...) floats. All addresses, the pages' too, are of the device.
struct attention_args {
    const float* q;
    std::size_t tokens, heads, kv_heads, head_dim;
    float scale;
    float soft_cap;     // 0 for none
    std::size_t window; // 0 for all
    const float* sinks; // [heads], or null
    const float* const* k_pages;
    const float* const* v_pages;
    std::size_t pages_stride, page_tokens;
    const std::int32_t* positions;
    std::size_t longest;
    float* scratch;
    float* out;
};

/// Floats of scratch.
constexpr std::size_t attention_scratch(std::size_t tokens, std::size_t heads, std::size_t head_dim,
                                        std::size_t longest) {
    return tokens * heads * ((longest + attention_part - 1) / attention_part) * (head_dim + 2);
}

namespace detail {

inline constexpr unsigned attention_warps = 4;

/// The keys first .. last - 1 that part `part` of a token has.
struct key_range {
    std::size_t first, last;
};
__device__ inline key_range keys_of(const attention_args& a, std::size_t token, std::size_t part) {
    const std::int32_t position = a.positions[token];
    const std::size_t end = position < 0 ? 0 : static_cast<std::size_t>(position) + 1;
    const std::size_t begin = a.window != 0 && a.window < end ? end - a.window : 0;
    const std::size_t first = part * attention_part > begin ? part * attention_part : begin;
    const std::size_t last = (part + 1) * attention_part < end ? (part + 1) * attention_part : end;
    return {first, last < first ? first : last};
}

/// Joins (greatest, weights, sum) of two parts; sums are scaled by the caller.
__device__ inline float rescale(float from, float to) { return from == -INFINITY ? 0.0f : expf(from - to); }

/// One block: one head of one token over one part of its keys. Warp w takes keys first + w, first + w + 4, ...; a lane
/// holds every 32nd number of the head. Scratch gets the greatest score, the sum of weights, and head_dim numbers.
template <class = void> __global__ void attention_parts(attention_args a, std::size_t parts) {
    constexpr std::size_t slots = attention_head_most / 32;
    __shared__ shared_array<float, attention_warps * 2> totals;
    __shared__ shared_array<float, attention_warps * attention_head_most> sums;
    const std::size_t head = blockIdx.x, part = blockIdx.y, token = blockIdx.z;
    const std::size_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const std::size_t kv_head = head / (a.heads / a.kv_heads), width = a.kv_heads * a.head_dim;
    const float* q = a.q + (token * a.heads + head) * a.head_dim;
    const key_range keys = keys_of(a, token, part);
    float greatest = -INFINITY, weights = 0, acc[slots] = {};
    for (std::size_t j = keys.first + warp; j < keys.last; j += attention_warps) {
        const std::size_t page = token * a.pages_stride + j / a.page_tokens;
        const std::size_t at = j % a.page_tokens * width + kv_head * a.head_dim;
        const float* k = a.k_pages[page] + at;
        const float* v = a.v_pages[page] + at;
        float score = 0;
        for (std::size_t s = 0; s < slots; ++s)
            if (s * 32 + lane < a.head_dim) score = fmaf(q[s * 32 + lane], k[s * 32 + lane], score);
        for (int d = 1; d < 32; d *= 2) score += __shfl_xor_sync(0xFFFFFFFFu, score, d);
        score *= a.scale;
        if (a.soft_cap != 0) score = a.soft_cap * tanhf(score / a.soft_cap);
        const float top = score > greatest || score != score ? score : greatest;
        const float old = rescale(greatest, top), weight = rescale(score, top);
        weights = fmaf(weights, old, weight);
        for (std::size_t s = 0; s < slots; ++s)
            if (s * 32 + lane < a.head_dim) acc[s] = fmaf(acc[s], old, weight * v[s * 32 + lane]);
        greatest = top;
    }
    if (lane == 0) totals[2 * warp] = greatest, totals[2 * warp + 1] = weights;
    for (std::size_t s = 0; s < slots; ++s)
        if (s * 32 + lane < a.head_dim) sums[warp * attention_head_most + s * 32 + lane] = acc[s];
    __syncthreads();
    float top = -INFINITY, total = 0;
    for (unsigned w = 0; w < attention_warps; ++w)
        top = totals[2 * w] > top || totals[2 * w] != totals[2 * w] ? totals[2 * w] : top;
    for (unsigned w = 0; w < attention_warps; ++w) total += rescale(totals[2 * w], top) * totals[2 * w + 1];
    float* out = a.scratch + ((token * a.heads + head) * parts + part) * (a.head_dim + 2);
    if (threadIdx.x == 0) out[0] = top, out[1] = total;
    for (std::size_t i = threadIdx.x; i < a.head_dim; i += blockDim.x) {
        float sum = 0;
        for (unsigned w = 0; w < attention_warps; ++w)
            sum = fmaf(rescale(totals[2 * w], top), sums[w * attention_head_most + i], sum);
        out[2 + i] = sum;
    }
}

/// One block: one head of one token; joins its parts in order.
template <class = void> __global__ void attention_join(attention_args a, std::size_t parts) {
    const std::size_t head = blockIdx.x, token = blockIdx.z, size = a.head_dim + 2;
    const float* in = a.scratch + (token * a.heads + head) * parts * size;
    float top = a.sinks ? a.sinks[head] : -INFINITY;
    for (std::size_t p = 0; p < parts; ++p)
        top = in[p * size] > top || in[p * size] != in[p * size] ? in[p * size] : top;
    float total = a.sinks ? rescale(a.sinks[head], top) : 0.0f;
    for (std::size_t p = 0; p < parts; ++p) total = fmaf(rescale(in[p * size], top), in[p * size + 1], total);
    for (std::size_t i = threadIdx.x; i < a.head_dim; i += blockDim.x) {
        float sum = 0;
        for (std::size_t p = 0; p < parts; ++p) sum = fmaf(rescale(in[p * size], top), in[p * size + 2 + i], sum);
        a.out[(token * a.heads + head) * a.head_dim + i] = total != 0 ? sum / total : 0.0f;
    }
}

} // namespace detail

/// Two launches on `stream`. Throws shape_error for heads that are no multiple of kv_heads, a head of over 256 numbers,
/// or more than a launch takes.
template <class = void> void attention(const attention_args& a, cudaStream_t stream = nullptr) {
    if (a.tokens == 0 || a.heads == 0) return;
    if (a.kv_heads == 0 || a.heads % a.kv_heads != 0 || a.head_dim > attention_head_most || a.page_tokens == 0)
        throw shape_error("attention of " + std::to_string(a.heads) + " heads of " + std::to_string(a.head_dim) +
                          " numbers over " + std::to_string(a.kv_heads) + " key heads");
    const std::size_t parts = (a.longest + attention_part - 1) / attention_part;
    if (a.tokens > 65535 || parts > 65535) throw shape_error("too many tokens or keys for one launch");
    const auto tokens = static_cast<unsigned>(a.tokens);
    grid where{.blocks = dim3(blocks_for(a.heads, 1), static_cast<unsigned>(parts), tokens),
               .threads = 32 * detail::attention_warps,
               .stream = stream,
               .name = "attention_parts"};
    if (parts != 0) launch(where, detail::attention_parts<>, a, parts);
    where.blocks.y = 1, where.name = "attention_join";
    launch(where, detail::attention_join<>, a, parts);
}

} // namespace tern::cuda
