// Operators that have a price and no arithmetic yet: their shapes are declared, so that a model which needs them can be
// planned.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <tern/base/error.hpp>
#include <tern/kernel/slot.hpp>

namespace tern::kernel {

/// Latent attention of DeepSeek-V2 (2024) in the form that keeps the compressed keys: for each query and head a product
/// of kv_rank + rope_dim numbers with every key that it sees, and one of kv_rank numbers back.
struct latent_attention {
    struct args {
        std::size_t tokens;
        std::size_t seen; ///< keys that the last token sees, itself included
        std::size_t heads;
        std::size_t kv_rank;
        std::size_t rope_dim;
    };

    static constexpr std::string_view name = "latent_attention";
    static std::size_t items(const args& a) noexcept { return a.tokens; }
    static amount work(const args& a) noexcept {
        const double tokens = double(a.tokens);
        const double keys = tokens * (double(a.seen) - (tokens - 1) / 2); // seen by all tokens together
        const double row = double(a.kv_rank) + double(a.rope_dim);
        return {.tokens = a.tokens,
                .operations = 2 * double(a.heads) * (row + double(a.kv_rank)) * keys,
                .weights = 0,
                .other_bytes = 4 * (double(a.seen) * row + 2 * tokens * double(a.heads) * double(a.kv_rank))};
    }
    template <class> static void reference(const args&, std::size_t, std::size_t) {
        throw unsupported_error("latent attention is priced only: it has no arithmetic yet");
    }
};

/// Linear attention with a gated delta rule (Yang and others, 2024): for each token and value head a state of
/// key_dim x value_dim numbers decays, is read and is written.
struct delta_attention {
    struct args {
        std::size_t tokens;
        std::size_t value_heads;
        std::size_t key_dim;
        std::size_t value_dim;
    };

    static constexpr std::string_view name = "delta_attention";
    static std::size_t items(const args& a) noexcept { return a.tokens; }
    static amount work(const args& a) noexcept {
        const double state = double(a.value_heads) * double(a.key_dim) * double(a.value_dim);
        const double rows = double(a.value_heads) * (2 * double(a.key_dim) + 2 * double(a.value_dim));
        return {.tokens = a.tokens,
                .operations = 8 * state * double(a.tokens),
                .weights = 0,
                .other_bytes = 4 * (2 * state + rows * double(a.tokens))};
    }
    template <class> static void reference(const args&, std::size_t, std::size_t) {
        throw unsupported_error("linear attention is priced only: it has no arithmetic yet");
    }
};

} // namespace tern::kernel
