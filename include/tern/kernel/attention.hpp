// Causal attention over paged keys and values, for a ragged batch of tokens of several sequences.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include <tern/kernel/slot.hpp>

namespace tern::kernel {

/// A run of keys and values. Shapes: k and v [tokens, kv_heads * head_dim] f32, contiguous.
struct kv_page {
    const float* k;
    const float* v;
    std::size_t tokens;
};

/// The pages of one sequence, in order of position from 0: key j has position j. The last page may have unused slots;
/// they are never read.
struct sequence_pages {
    const kv_page* pages;
    std::size_t count;
};

/// out = softmax(cap(scale * q k^T)) v over the keys that each token sees.
/// Shapes: q and out [tokens, heads * head_dim] f32. One item is one head of one token: item = token * heads + head.
/// Head h reads key head h / (heads / kv_heads). Requires heads to be a multiple of kv_heads.
///
/// A token at position p sees the keys j with j <= p, and with a window only p - j < window; keys beyond the pages are
/// not seen. A sink is one more logit in the softmax that has no value (its share of the weight is lost). Where no key
/// is seen, or every score is -infinity, the result is 0.
///
/// Keys are taken one by one in order of position, so neither the division into pages nor the number of tokens in the
/// batch changes a bit of the result. `out` must not overlap q or the pages.
struct attention {
    struct args {
        const float* q;
        std::size_t q_stride; // floats between tokens
        std::size_t tokens;
        std::size_t heads;
        std::size_t kv_heads;
        std::size_t head_dim;
        float scale;        // usually 1 / sqrt(head_dim)
        float soft_cap;     // score = cap * tanh(score / cap); 0 for none
        std::size_t window; // how many keys a token sees, its own included; 0 for all
        const float* sinks; // [heads], or null
        const sequence_pages* sequences;
        const std::int32_t* sequence_of; // [tokens], index into sequences
        const std::int32_t* positions;   // [tokens]
        float* out;
        std::size_t out_stride;
    };

    static constexpr std::string_view name = "attention";
    static std::size_t items(const args& a) noexcept { return a.tokens * a.heads; }
    /// Each query sees its keys; what the queries of one call see together is read once.
    static amount work(const args& a) noexcept {
        double seen = 0;
        double read = 0;
        for (std::size_t t = 0; t < a.tokens; ++t) {
            const std::size_t last = a.positions[t] < 0 ? 0 : static_cast<std::size_t>(a.positions[t]) + 1;
            const double keys = double(a.window != 0 && a.window < last ? a.window : last);
            const bool continues = t > 0 && a.sequence_of[t] == a.sequence_of[t - 1];
            seen += keys;
            read += continues ? 1 : keys;
        }
        const double width = double(a.heads) * double(a.head_dim);
        const double key = 2 * double(a.kv_heads) * double(a.head_dim);
        return {.tokens = a.tokens,
                .operations = 4 * width * seen,
                .weights = 0,
                .other_bytes = 4 * (key * read + 2 * width * double(a.tokens))};
    }

    /// Two passes over the keys, the greatest score and then the weighted sum, in double precision.
    template <class> static void reference(const args& a, std::size_t begin, std::size_t end) {
        for (std::size_t item = begin; item < end; ++item) one(a, item / a.heads, item % a.heads);
    }

    /// Calls visit(k, v) for each key that token t sees, in order of position; k and v point at key head `kv_head`.
    template <class Visit> static void each_key(const args& a, std::size_t t, std::size_t kv_head, Visit visit) {
        if (a.positions[t] < 0) return;
        const sequence_pages& sequence = a.sequences[a.sequence_of[t]];
        const std::size_t last = static_cast<std::size_t>(a.positions[t]) + 1;
        const std::size_t first = a.window != 0 && a.window < last ? last - a.window : 0;
        const std::size_t row = a.kv_heads * a.head_dim;
        std::size_t start = 0; // position of the page's first key
        for (std::size_t p = 0; p < sequence.count && start < last; ++p) {
            const kv_page& page = sequence.pages[p];
            const std::size_t from = first > start ? first - start : 0;
            const std::size_t to = page.tokens < last - start ? page.tokens : last - start;
            for (std::size_t j = from; j < to; ++j)
                visit(page.k + j * row + kv_head * a.head_dim, page.v + j * row + kv_head * a.head_dim);
            start += page.tokens;
        }
    }

private:
    static void one(const args& a, std::size_t t, std::size_t h) {
        constexpr double none = -std::numeric_limits<double>::infinity();
        constexpr std::size_t chunk = 256; // of the head's numbers, summed at a time
        const std::size_t kv_head = h / (a.heads / a.kv_heads);
        const float* q = a.q + t * a.q_stride + h * a.head_dim;
        float* out = a.out + t * a.out_stride + h * a.head_dim;
        const auto score = [&](const float* k) {
            double dot = 0;
            for (std::size_t i = 0; i < a.head_dim; ++i) dot += double(q[i]) * double(k[i]);
            dot *= double(a.scale);
            return a.soft_cap != 0 ? double(a.soft_cap) * std::tanh(dot / double(a.soft_cap)) : dot;
        };

        double greatest = a.sinks ? double(a.sinks[h]) : none;
        each_key(a, t, kv_head, [&](const float* k, const float*) {
            const double s = score(k);
            if (s > greatest || s != s) greatest = s;
        });
        for (std::size_t from = 0; from < a.head_dim; from += chunk) {
            const std::size_t count = a.head_dim - from < chunk ? a.head_dim - from : chunk;
            double sum[chunk] = {};
            double weights = a.sinks && greatest != none ? std::exp(double(a.sinks[h]) - greatest) : 0;
            if (greatest != none)
                each_key(a, t, kv_head, [&](const float* k, const float* v) {
                    const double w = std::exp(score(k) - greatest);
                    weights += w;
                    for (std::size_t i = 0; i < count; ++i) sum[i] += w * double(v[from + i]);
                });
            for (std::size_t i = 0; i < count; ++i)
                out[from + i] = static_cast<float>(weights != 0 ? sum[i] / weights : 0);
        }
    }
};

} // namespace tern::kernel
