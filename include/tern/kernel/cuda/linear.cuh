// Matrix-vector products on a CUDA device: y = x W^T + b for a few tokens, weights of any format.
//
// Shapes as in kernel::linear and kernel::linear_q8; all addresses are of the device.
//
//     | format                       | a row is summed by                     | loads                        |
//     | f32, f16, bf16               | a warp, 16 bytes a lane                | 16 bytes where aligned       |
//     | blocks of 32 and 256 numbers | 8 lanes, 32 numbers each, 16 rows a block of threads | as wide as alignment
//     allows | | any other                    | a warp, a block of numbers a lane      | the format's own decode      |
//
// The order of a row's sum is fixed: it depends on cols and the format alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tern/cuda/launch.hpp>
#include <tern/format/plain.hpp>
#include <tern/kernel/cuda/parts.cuh>
#include <tern/kernel/linear.hpp>
#include <tern/kernel/linear_q8.hpp>

namespace tern::cuda {

namespace detail {

inline constexpr unsigned all_lanes = 0xFFFFFFFFu;

/// The sum over groups of Lanes lanes, in pairs: every lane gets it.
template <int Lanes> __device__ inline float lanes_sum(float value) {
    for (int d = 1; d < Lanes; d *= 2) value += __shfl_xor_sync(all_lanes, value, d);
    return value;
}

/// Eight lanes a row: lane c sums parts c, c + 8, ...
template <class F> __global__ void linear_parts(kernel::linear::args a) {
    const std::size_t row = std::size_t{blockIdx.x} * (blockDim.x / 8) + threadIdx.x / 8;
    const std::size_t token = blockIdx.y;
    const bool inside = row < a.rows; // all lanes stay for the shuffles
    const auto* blocks =
        reinterpret_cast<const typename F::block*>(a.weights) + (inside ? row : 0) * (a.cols / F::block_size);
    const float* x = a.x + token * a.x_stride;
    float sum = 0;
    for (std::size_t p = threadIdx.x % 8; p < a.cols / 32; p += 8) {
        packed_part w;
        part_of<F>::read(blocks, p, w);
        for (int h = 0; h < 2; ++h) {
            float dot = 0, plain = 0;
            for (int i = 0; i < 16; ++i) {
                const float v = x[32 * p + static_cast<std::size_t>(16 * h + i)];
                const auto code = static_cast<std::int8_t>(w.words[4 * h + i / 4] >> (8 * (i % 4)));
                dot = fmaf(static_cast<float>(code), v, dot);
                plain += v;
            }
            sum = fmaf(w.scale * static_cast<float>(w.factor[h]), dot, sum);
            if constexpr (part_of<F>::lows != 0) sum = fmaf(-(w.low * static_cast<float>(w.low_code[h])), plain, sum);
        }
    }
    sum = lanes_sum<8>(sum);
    if (inside && threadIdx.x % 8 == 0) a.y[token * a.y_stride + row] = a.bias ? sum + a.bias[row] : sum;
}

/// A warp a row: lane l sums blocks l, l + 32, ...
template <class F> __global__ void linear_decoded(kernel::linear::args a) {
    const std::size_t row = std::size_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
    const std::size_t token = blockIdx.y;
    if (row >= a.rows) return; // the whole warp
    const std::size_t count = a.cols / F::block_size;
    const auto* blocks = reinterpret_cast<const typename F::block*>(a.weights) + row * count;
    const float* x = a.x + token * a.x_stride;
    const std::size_t lane = threadIdx.x % 32;
    float sum = 0;
    if constexpr (F::block_size == 1 && (sizeof(typename F::block) == 2 || sizeof(typename F::block) == 4)) {
        constexpr std::size_t each = 16 / sizeof(typename F::block);
        const std::size_t chunks = count / each;
        for (std::size_t c = lane; c < chunks; c += 32) {
            unsigned words[4];
            load_words(blocks + c * each, words);
            for (std::size_t i = 0; i < each; ++i) {
                typename F::block one;
                memcpy(&one, reinterpret_cast<const unsigned char*>(words) + i * sizeof(one), sizeof(one));
                float w = 0;
                F::decode(one, &w);
                sum = fmaf(w, x[c * each + i], sum);
            }
        }
        for (std::size_t i = chunks * each + lane; i < count; i += 32) {
            float w = 0;
            F::decode(blocks[i], &w);
            sum = fmaf(w, x[i], sum);
        }
    } else {
        for (std::size_t b = lane; b < count; b += 32) {
            float w[F::block_size];
            F::decode(blocks[b], w);
            for (std::size_t i = 0; i < F::block_size; ++i) sum = fmaf(w[i], x[b * F::block_size + i], sum);
        }
    }
    sum = lanes_sum<32>(sum);
    if (lane == 0) a.y[token * a.y_stride + row] = a.bias ? sum + a.bias[row] : sum;
}

/// Eight lanes a row: lane c is chain c of kernel::linear_q8, whose bits the result has.
template <class F> __global__ void linear_q8_parts(kernel::linear_q8::args a) {
    const std::size_t row = std::size_t{blockIdx.x} * (blockDim.x / 8) + threadIdx.x / 8;
    const std::size_t token = blockIdx.y;
    const bool inside = row < a.rows;
    const auto* blocks =
        reinterpret_cast<const typename F::block*>(a.weights) + (inside ? row : 0) * (a.cols / F::block_size);
    const kernel::q8_block* x = a.x + token * ((a.cols + 255) / 256);
    float chain = 0;
    for (std::size_t p = threadIdx.x % 8; p < a.cols / 32; p += 8) {
        packed_part w;
        part_of<F>::read(blocks, p, w);
        const kernel::q8_block& b = x[p / 8];
        const std::size_t g = p % 8;
        unsigned codes[8];
        load_words(b.codes + 32 * g, codes);
        int sum = 0;
        for (int h = 0; h < 2; ++h) {
            int dot = 0;
            for (int i = 4 * h; i < 4 * h + 4; ++i)
                dot = __dp4a(static_cast<int>(w.words[i]), static_cast<int>(codes[i]), dot);
            sum += w.factor[h] * dot;
        }
        chain = fmaf(w.scale * b.scale[g], static_cast<float>(sum), chain);
        if constexpr (part_of<F>::lows == 1) {
            chain = fmaf(-w.low, b.scaled_sum[g], chain);
        } else if constexpr (part_of<F>::lows == 2) {
            const int lows = w.low_code[0] * b.sums[2 * g] + w.low_code[1] * b.sums[2 * g + 1];
            chain = fmaf(-(w.low * b.scale[g]), static_cast<float>(lows), chain);
        }
    }
    chain = lanes_sum<8>(chain);
    if (inside && threadIdx.x % 8 == 0) a.y[token * a.y_stride + row] = a.bias ? chain + a.bias[row] : chain;
}

inline grid rows_grid(std::size_t rows, std::size_t each, std::size_t tokens, cudaStream_t stream,
                      std::string_view name) {
    if (tokens > 65535) throw shape_error(std::to_string(tokens) + " tokens are too many for one launch");
    return {.blocks = dim3(blocks_for(rows, each), static_cast<unsigned>(tokens)),
            .threads = 128,
            .stream = stream,
            .name = name};
}

} // namespace detail

/// y = x W^T + b, in f32. Error against the exact product: (cols / 8 + 8) * 2^-24 of the sum of the sizes of its terms.
///
///     tern::cuda::linear<tern::q4_k>({.weights = w, .rows = 4096, .cols = 4096, ...}, stream);
template <format F> void linear(const kernel::linear::args& a, cudaStream_t stream = nullptr) {
    if (a.rows == 0 || a.tokens == 0) return;
    row_bytes<F>(a.cols); // throws where cols is no multiple of the block
    if constexpr (has_parts<F>)
        launch(detail::rows_grid(a.rows, 16, a.tokens, stream, "linear"), detail::linear_parts<F>, a);
    else
        launch(detail::rows_grid(a.rows, 4, a.tokens, stream, "linear"), detail::linear_decoded<F>, a);
}

/// The same with activations in 8 bits: the bits of kernel::linear_q8.
template <format F>
    requires has_parts<F>
void linear_q8(const kernel::linear_q8::args& a, cudaStream_t stream = nullptr) {
    if (a.rows == 0 || a.tokens == 0) return;
    row_bytes<F>(a.cols);
    launch(detail::rows_grid(a.rows, 16, a.tokens, stream, "linear_q8"), detail::linear_q8_parts<F>, a);
}

} // namespace tern::cuda
