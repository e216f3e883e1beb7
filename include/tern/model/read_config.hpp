// Reading a decoder's configuration from a model file.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/kernel/rope_scaling.hpp>
#include <tern/model/config.hpp>
#include <tern/model/read_floats.hpp>

namespace tern {

namespace detail {

/// Reads keys "<architecture>.<name>".
template <class File> struct config_keys {
    const File& file;
    std::string prefix;

    std::string key(std::string_view name) const { return prefix + "." + std::string(name); }
    bool has(std::string_view name) const { return file.metadata().contains(key(name)); }
    std::size_t size(std::string_view name) const { return file.metadata().template get<std::uint32_t>(key(name)); }
    std::size_t size_or(std::string_view name, std::size_t otherwise) const {
        return file.metadata().template try_get<std::uint32_t>(key(name)).value_or(
            static_cast<std::uint32_t>(otherwise));
    }
    float real_or(std::string_view name, float otherwise) const {
        return file.metadata().template try_get<float>(key(name)).value_or(otherwise);
    }
    [[noreturn]] void refuse(const std::string& why) const { throw parse_error(why, {.path = file.path()}); }
};

template <class File> kernel::rope_frequencies read_rope(const config_keys<File>& keys, std::size_t head_dim) {
    const std::size_t dims = keys.size_or("rope.dimension_count", head_dim);
    if (dims == 0 || dims % 2 != 0 || dims > head_dim)
        keys.refuse("rotates " + std::to_string(dims) + " dimensions of heads of " + std::to_string(head_dim));
    const double base = keys.real_or("rope.freq_base", 10000.0f);
    const std::string kind =
        keys.file.metadata().template try_get<std::string>(keys.key("rope.scaling.type")).value_or("none");
    const double factor = keys.real_or("rope.scaling.factor", 1.0f);
    if (const auto* listed = keys.file.find("rope_freqs.weight")) {
        const std::vector<float> factors = read_floats(keys.file, *listed, dims / 2);
        return kernel::rope_frequencies_of(dims, base, kernel::listed_rope{.factors = factors});
    }
    if (kind == "linear") return kernel::rope_frequencies_of(dims, base, kernel::linear_rope{.factor = factor});
    if (kind == "yarn") {
        kernel::yarn_rope yarn{.factor = factor,
                               .original_context =
                                   static_cast<double>(keys.size("rope.scaling.original_context_length"))};
        yarn.beta_fast = keys.real_or("rope.scaling.yarn_beta_fast", 32.0f);
        yarn.beta_slow = keys.real_or("rope.scaling.yarn_beta_slow", 1.0f);
        const double more = keys.real_or("rope.scaling.attn_factor", 1.0f); // on top of what yarn itself has
        if (!(more > 0) || !std::isfinite(more))
            keys.refuse("has a rope.scaling.attn_factor that is no positive number");
        yarn.magnitude = more * kernel::yarn_magnitude(factor);
        yarn.whole_bounds = keys.prefix != "gpt-oss"; // no file says so: it is part of the model
        return kernel::rope_frequencies_of(dims, base, yarn);
    }
    if (kind != "none") throw unsupported_error("rope scaling \"" + kind + "\"", {.path = keys.file.path()});
    return kernel::rope_frequencies_of(dims, base);
}

} // namespace detail

/// Reads the configuration of a GGUF model; `File` is tern::checkpoint, or anything with its metadata(), find(), at(),
/// read() and path(). Throws parse_error that names the file and the key or sizes that make no
/// sense.
///
///     const tern::decoder_config config = tern::read_config(file);
template <class File> decoder_config read_config(const File& file) {
    decoder_config c;
    c.architecture = file.metadata().template get<std::string>("general.architecture");
    const detail::config_keys<File> keys{file, c.architecture};
    c.layers = keys.size("block_count");
    c.width = keys.size("embedding_length");
    c.hidden = keys.size_or("feed_forward_length", 0);
    c.heads = keys.size("attention.head_count");
    c.kv_heads = keys.size_or("attention.head_count_kv", c.heads);
    c.context = keys.size("context_length");
    if (c.layers == 0 || c.width == 0 || c.heads == 0 || c.kv_heads == 0 || c.context == 0)
        keys.refuse("has a block_count, embedding_length, head_count or context_length of 0");
    if (c.heads % c.kv_heads != 0)
        keys.refuse("has " + std::to_string(c.heads) + " heads, no multiple of its " + std::to_string(c.kv_heads) +
                    " key heads");
    c.head_dim = keys.size_or("attention.key_length", c.width / c.heads);
    if (c.head_dim == 0 || keys.size_or("attention.value_length", c.head_dim) != c.head_dim)
        keys.refuse("has heads of 0 dimensions, or keys and values of different lengths, which is not supported");
    // The rope table is as long as a head: an absurd length must not become memory before a tensor confirms it.
    if (c.head_dim > 65536) keys.refuse("has an attention.key_length of " + std::to_string(c.head_dim));
    c.norm_eps = keys.real_or("attention.layer_norm_rms_epsilon", 1e-5f);
    if (!(c.norm_eps >= 0) || !std::isfinite(c.norm_eps))
        keys.refuse("has an attention.layer_norm_rms_epsilon that is no number from 0");
    try {
        c.rope = detail::read_rope(keys, c.head_dim);
    } catch (const config_error& e) { keys.refuse("has unusable keys " + keys.key("rope.*") + ": " + e.what()); }
    c.experts = keys.size_or("expert_count", 0);
    c.experts_used = keys.size_or("expert_used_count", 0);
    c.expert_hidden = keys.size_or("expert_feed_forward_length", c.hidden);
    if (c.experts != 0 && (c.experts_used == 0 || c.experts_used > c.experts))
        keys.refuse("uses " + std::to_string(c.experts_used) + " of " + std::to_string(c.experts) + " experts");
    c.normalise_experts = file.metadata().template try_get<bool>(keys.key("expert_weights_norm")).value_or(true);
    c.expert_scale = keys.real_or("expert_weights_scale", 1.0f);
    if (c.expert_scale == 0) c.expert_scale = 1; // files write 0 for "none"
    c.window = keys.size_or("attention.sliding_window", 0);
    if (keys.has("attention.sliding_window_pattern")) {
        c.window_pattern = keys.size("attention.sliding_window_pattern");
        if (c.window_pattern == 0) keys.refuse("has an attention.sliding_window_pattern of 0");
    }
    try {
        c.local_rope =
            kernel::rope_frequencies_of(2 * c.rope.inv_freq.size(), keys.real_or("rope.freq_base_swa", 10000.0f));
    } catch (const config_error& e) {
        keys.refuse("has an unusable key " + keys.key("rope.freq_base_swa") + ": " + e.what());
    }
    c.attention_cap = keys.real_or("attn_logit_softcapping", 0);
    c.logits_cap = keys.real_or("final_logit_softcapping", 0);
    const auto& embedding = file.at("token_embd.weight");
    c.vocabulary = embedding.shape.size() == 2 ? static_cast<std::size_t>(embedding.shape[0]) : 0;
    if (c.vocabulary == 0 || c.vocabulary > 0x7fffffff || embedding.shape[1] != c.width)
        throw parse_error("needs shape [vocabulary, " + std::to_string(c.width) + "]",
                          {.path = file.path(), .tensor = embedding.name});
    return c;
}

} // namespace tern
