// Mixture of experts: which experts a token goes to, and moving rows to their experts and back.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include <tern/kernel/slot.hpp>

namespace tern::kernel {

/// Whether the softmax goes over all experts before the best are taken, or over the best alone.
enum class router_softmax { before_top_k, after_top_k };

/// What makes a weight of a logit. With sigmoid each expert is weighed by itself and `router_softmax` has no meaning.
enum class router_gate { softmax, sigmoid };

/// The k experts of each token and their weights, best first; equal ones in order of id, so the choice is the same on
/// every device.
/// Shapes: logits [tokens, experts] f32 -> ids int32 [tokens, k], weights f32 [tokens, k]. One item is one token.
/// Requires 1 <= k <= experts. A NaN counts as a logit of -infinity: it comes after every number and has weight 0.
/// Where all are NaN, the ids are 0 .. k-1 and the weights of a softmax are NaN.
///
/// Logits [2, 1, 0], k = 2: before_top_k gives .6652 and .2447 (.7311 and .2689 normalised), after_top_k .7311 and
/// .2689.
struct route {
    struct args {
        const float* logits;
        std::size_t logits_stride; // floats between tokens
        std::size_t tokens;
        std::size_t experts;
        std::size_t k;
        router_softmax softmax;
        bool normalise; // divide the k weights by their sum
        float scale;    // multiplies the weights at the end
        std::int32_t* ids;
        float* weights;
        router_gate gate = router_gate::softmax;
        const float* selection_bias = nullptr; // [experts]: added to the weights for the choice only, or null
    };

    static constexpr std::string_view name = "route";
    static std::size_t items(const args& a) noexcept { return a.tokens; }
    static amount work(const args& a) noexcept {
        const double numbers = double(a.tokens) * double(a.experts);
        return {
            .tokens = a.tokens, .operations = (10 + double(a.k)) * numbers, .weights = 0, .other_bytes = 4 * numbers};
    }

    template <class> static void reference(const args& a, std::size_t begin, std::size_t end) {
        for (std::size_t t = begin; t < end; ++t)
            one(a, a.logits + t * a.logits_stride, a.ids + t * a.k, a.weights + t * a.k);
    }

private:
    static constexpr double none = -std::numeric_limits<double>::infinity();

    static double number(float logit) { return logit == logit ? double(logit) : none; }

    static void one(const args& a, const float* logits, std::int32_t* ids, float* weights) {
        double greatest = none;
        for (std::size_t e = 0; e < a.experts; ++e)
            if (number(logits[e]) > greatest) greatest = number(logits[e]);
        const auto raised = [&](std::size_t e) { return std::exp(number(logits[e]) - greatest); };
        double all = 0;
        for (std::size_t e = 0; e < a.experts; ++e) all += raised(e);
        const auto weight = [&](std::size_t e) {
            return a.gate == router_gate::softmax ? raised(e) / all : 1 / (1 + std::exp(-number(logits[e])));
        };
        const auto key = [&](std::size_t e) {
            if (!a.selection_bias) return number(logits[e]);
            const double biased = weight(e) + double(a.selection_bias[e]);
            return biased == biased ? biased : none;
        };

        // Each rank takes the best of those that come after the rank before it, in the order (key down, id up).
        double last_key = 0, chosen = 0;
        for (std::size_t r = 0; r < a.k; ++r) {
            std::size_t best = a.experts;
            double best_key = none;
            for (std::size_t e = 0; e < a.experts; ++e) {
                const double k = key(e);
                const bool free = r == 0 || k < last_key || (k == last_key && e > static_cast<std::size_t>(ids[r - 1]));
                if (free && (best == a.experts || k > best_key)) best = e, best_key = k;
            }
            ids[r] = static_cast<std::int32_t>(best);
            last_key = best_key;
            chosen += a.gate == router_gate::softmax && a.softmax == router_softmax::after_top_k ? raised(best)
                                                                                                 : weight(best);
        }
        for (std::size_t r = 0; r < a.k; ++r) {
            const std::size_t e = static_cast<std::size_t>(ids[r]);
            const bool after = a.gate == router_gate::softmax && a.softmax == router_softmax::after_top_k;
            double w = after ? raised(e) / chosen : weight(e);
            if (!after && a.normalise) w /= chosen;
            weights[r] = static_cast<float>(w * double(a.scale));
        }
    }
};

/// A counting sort of (token, rank) pairs by expert, stable: rows of one expert keep the order of the pairs.
/// Shapes: ids int32 [pairs] (pair = token * k + rank) -> offsets int32 [experts + 1], order int32 [pairs] (the pair in
/// each row), row_of int32 [pairs] (the row of each pair). Expert e has the rows offsets[e] .. offsets[e + 1] - 1.
/// The whole sort is one item. Requires 0 <= ids[i] < experts.
struct group_by_expert {
    struct args {
        const std::int32_t* ids;
        std::size_t pairs;
        std::size_t experts;
        std::int32_t* offsets;
        std::int32_t* order;
        std::int32_t* row_of;
    };

    static constexpr std::string_view name = "group_by_expert";
    static std::size_t items(const args&) noexcept { return 1; }
    static amount work(const args& a) noexcept {
        const double numbers = double(a.pairs) + double(a.experts);
        return {.tokens = a.pairs, .operations = 4 * numbers, .weights = 0, .other_bytes = 16 * numbers};
    }

    template <class> static void reference(const args& a, std::size_t begin, std::size_t end) {
        if (begin == end) return;
        for (std::size_t e = 0; e <= a.experts; ++e) a.offsets[e] = 0;
        for (std::size_t p = 0; p < a.pairs; ++p) ++a.offsets[a.ids[p] + 1];
        for (std::size_t e = 0; e < a.experts; ++e) a.offsets[e + 1] += a.offsets[e];
        // Placing moves each expert's offset to its end, which is the next one's start: shifted back below.
        for (std::size_t p = 0; p < a.pairs; ++p) {
            const std::int32_t row = a.offsets[a.ids[p]]++;
            a.order[row] = static_cast<std::int32_t>(p);
            a.row_of[p] = row;
        }
        for (std::size_t e = a.experts; e > 0; --e) a.offsets[e] = a.offsets[e - 1];
        a.offsets[0] = 0;
    }
};

/// y[i] = x[index[i] / divisor]. With index = order and divisor = k the rows of the tokens in the order of the experts.
/// Shapes: x [*, cols] f32, index int32 [rows], y [rows, cols] f32. One item is one row of y. y must not overlap x.
struct gather_rows {
    struct args {
        const float* x;
        std::size_t x_stride;
        std::size_t cols;
        const std::int32_t* index;
        std::size_t divisor;
        std::size_t rows;
        float* y;
        std::size_t y_stride;
    };

    static constexpr std::string_view name = "gather_rows";
    static std::size_t items(const args& a) noexcept { return a.rows; }
    static amount work(const args& a) noexcept {
        const double numbers = double(a.rows) * double(a.cols);
        return {.tokens = a.rows, .operations = 0 * numbers, .weights = 0, .other_bytes = 8 * numbers};
    }

    template <class> static void reference(const args& a, std::size_t begin, std::size_t end) {
        for (std::size_t r = begin; r < end; ++r) {
            const float* from = a.x + static_cast<std::size_t>(a.index[r]) / a.divisor * a.x_stride;
            for (std::size_t i = 0; i < a.cols; ++i) a.y[r * a.y_stride + i] = from[i];
        }
    }
};

/// out[t] = sum over the ranks r, in that order, of weights[t, r] * y[row_of[t, r]].
/// Shapes: y [*, cols] f32, row_of int32 [tokens, k], weights f32 [tokens, k], out [tokens, cols] f32. One item is one
/// token. The order of the sum is that of the ranks, wherever and whenever the experts ran. out must not overlap y.
struct combine {
    struct args {
        const float* y;
        std::size_t y_stride;
        std::size_t tokens;
        std::size_t k;
        std::size_t cols;
        const std::int32_t* row_of;
        const float* weights;
        float* out;
        std::size_t out_stride;
    };

    static constexpr std::string_view name = "combine";
    static std::size_t items(const args& a) noexcept { return a.tokens; }
    static amount work(const args& a) noexcept {
        const double numbers = double(a.tokens) * double(a.cols);
        return {.tokens = a.tokens,
                .operations = 2 * numbers * double(a.k),
                .weights = 0,
                .other_bytes = 4 * numbers * (double(a.k) + 1)};
    }

    template <class> static void reference(const args& a, std::size_t begin, std::size_t end) {
        for (std::size_t t = begin; t < end; ++t)
            for (std::size_t i = 0; i < a.cols; ++i) {
                double sum = 0;
                for (std::size_t r = 0; r < a.k; ++r) {
                    const std::size_t row = static_cast<std::size_t>(a.row_of[t * a.k + r]);
                    sum += double(a.weights[t * a.k + r]) * double(a.y[row * a.y_stride + i]);
                }
                a.out[t * a.out_stride + i] = static_cast<float>(sum);
            }
    }
};

} // namespace tern::kernel
