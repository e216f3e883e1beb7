// out = scale * table[ids]: rows of an embedding table of any format, by token id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tern/format/format.hpp>
#include <tern/kernel/slot.hpp>

namespace tern::kernel {

/// Shapes: table [rows, cols] in a format, ids int32 [tokens], out [tokens, cols] f32.
/// One item is one token. Requires 0 <= ids[i] < rows: the operator above has checked it.
struct embed {
    struct args {
        const std::byte* table; // first block of row 0
        std::size_t rows;       // size of the vocabulary
        std::size_t cols;
        const std::int32_t* ids;
        std::size_t tokens;
        float scale; // 1 for most models, sqrt(cols) for some
        float* out;
        std::size_t out_stride; // floats between tokens
    };

    static constexpr std::string_view name = "embed";
    static std::size_t items(const args& a) noexcept { return a.tokens; }
    static amount work(const args& a) noexcept {
        const double numbers = double(a.tokens) * double(a.cols);
        return {.tokens = a.tokens,
                .operations = numbers,
                .weights = numbers,
                .other_bytes = 4 * numbers,
                .weight = a.table};
    }

    template <format F> static void reference(const args& a, std::size_t begin, std::size_t end) {
        const std::size_t blocks = a.cols / F::block_size;
        const auto* all = reinterpret_cast<const typename F::block*>(a.table);
        for (std::size_t t = begin; t < end; ++t) {
            const auto* row = all + static_cast<std::size_t>(a.ids[t]) * blocks;
            float* out = a.out + t * a.out_stride;
            for (std::size_t b = 0; b < blocks; ++b, out += F::block_size) {
                F::decode(row[b], out);
                for (std::size_t i = 0; i < F::block_size; ++i) out[i] *= a.scale;
            }
        }
    }
};

} // namespace tern::kernel
