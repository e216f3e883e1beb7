// What a decoder is made of, in numbers: sizes, heads, rope, experts.
#pragma once

#include <cstddef>
#include <string>

#include <tern/kernel/rope_frequencies.hpp>
#include <tern/op/kv_cache.hpp>

namespace tern {

/// Sizes and constants of a decoder, checked to be usable: none is zero, the heads divide.
struct decoder_config {
    std::string architecture{};
    std::size_t layers = 0;
    std::size_t width = 0;  ///< of the residual stream
    std::size_t hidden = 0; ///< of the dense feed-forward layers
    std::size_t heads = 0;
    std::size_t kv_heads = 0;
    std::size_t head_dim = 0;
    std::size_t context = 0; ///< that the model was trained for
    std::size_t vocabulary = 0;
    float norm_eps = 0;
    kernel::rope_frequencies rope{};
    std::size_t experts = 0; ///< 0: a dense model
    std::size_t experts_used = 0;
    std::size_t expert_hidden = 0;
    bool normalise_experts = true;
    float expert_scale = 1;
    std::size_t window = 0;                ///< of sliding attention; 0: none
    std::size_t window_pattern = 0;        ///< every so many layers see all keys; 0: the decoder's own rule
    kernel::rope_frequencies local_rope{}; ///< of the layers with a window, where theirs differ
    float attention_cap = 0;
    float logits_cap = 0;

    /// The cache that `sequences` of at most `tokens` tokens need.
    kv_shape cache_for(std::size_t tokens, std::size_t sequences = 1) const {
        return {.layers = layers, .width = kv_heads * head_dim, .context = tokens, .sequences = sequences};
    }
};

} // namespace tern
