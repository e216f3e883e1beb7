// The concept of a key-value cache: what attention needs of it, and what a generator needs of it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <tern/base/error.hpp>
#include <tern/kernel/attention.hpp>
#include <tern/op/batch.hpp>

namespace tern {

class device; // device/device.hpp

/// The size of a cache. All layers have the same shape.
struct kv_shape {
    std::size_t layers = 0;
    std::size_t width = 0;     ///< kv_heads * head_dim: floats of one key, or one value
    std::size_t context = 0;   ///< tokens of one sequence at most
    std::size_t sequences = 1; ///< how many may be kept at once
};

/// Half one: what a forward pass does. `reserve` makes room for the tokens of a batch and checks that each token's
/// position continues its sequence; it changes nothing when it throws. `append` writes keys and values [tokens, width]
/// of one layer into that room; `pages` shows all keys of a sequence up to its last reserved token.
template <class C>
concept kv_cache_writable = requires(C& cache, const C& seen, const batch& b, std::size_t layer, const float* rows) {
    { seen.shape() } -> std::convertible_to<kv_shape>;
    cache.reserve(b);
    cache.append(layer, b, rows, rows);
    { seen.pages(layer, std::size_t{}) } -> std::same_as<kernel::sequence_pages>;
};

/// Half two: what a generator does. `truncate` forgets the tokens from a position on, `copy` makes sequence `to` equal
/// to `from`.
template <class C>
concept kv_cache_editable = requires(C& cache, const C& seen, std::size_t sequence) {
    { seen.length(sequence) } -> std::convertible_to<std::size_t>;
    cache.truncate(sequence, std::size_t{});
    cache.copy(sequence, sequence);
};

/// One that says where it keeps a layer, and so where attention is computed: in that device's memory; null is the host.
template <class C>
concept placed_cache = requires(const C& seen, std::size_t layer) {
    { seen.computes_on(layer) } -> std::same_as<device*>;
};

/// Keys and values of the tokens so far. contiguous_cache and paged_cache are two; a user's own may be a third.
template <class C>
concept kv_cache = kv_cache_writable<C> && kv_cache_editable<C>;

namespace detail {

inline void check_sequence(const kv_shape& shape, std::size_t sequence) {
    if (sequence >= shape.sequences)
        throw shape_error("sequence " + std::to_string(sequence) + " was asked of a cache for " +
                          std::to_string(shape.sequences));
}

/// Checks that each token of a batch continues its sequence and fits, and calls `grow(sequence)` for each in order.
template <class Length, class Grow>
void continue_sequences(const kv_shape& shape, const batch& b, Length length, Grow grow) {
    if (b.positions.size() != b.size() || b.sequences.size() != b.size())
        throw shape_error("a batch of " + std::to_string(b.size()) + " tokens has " +
                          std::to_string(b.positions.size()) + " positions and " + std::to_string(b.sequences.size()) +
                          " sequences");
    for (std::size_t i = 0; i < b.size(); ++i) {
        const auto sequence = static_cast<std::size_t>(b.sequences[i]);
        check_sequence(shape, sequence);
        const std::size_t expected = length(sequence);
        if (static_cast<std::size_t>(b.positions[i]) != expected)
            throw shape_error("a token at position " + std::to_string(b.positions[i]) + " does not continue sequence " +
                              std::to_string(sequence) + ", which has " + std::to_string(expected) +
                              " tokens: truncate it first or add the tokens between");
        if (expected >= shape.context)
            throw budget_error("sequence " + std::to_string(sequence) + " has reached the context of " +
                               std::to_string(shape.context) + " tokens: make the cache with a larger one");
        grow(sequence);
    }
}

} // namespace detail

} // namespace tern
