// The tokenizer that a GGUF file describes, as plain arrays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tern/file/checkpoint.hpp>
#include <tern/text/tokenizer.hpp>

namespace tern {

/// Reads "tokenizer.ggml.*". A flag or an id that the file lacks stays absent. Throws parse_error where the arrays are
/// missing or of the wrong type.
///
///     tern::tokenizer text = tern::make_tokenizer(tern::read_vocabulary(file));
inline vocabulary read_vocabulary(const checkpoint& file) {
    const model_metadata& meta = file.metadata();
    const auto id = [&](std::string_view name) -> std::optional<token_id> {
        const auto value = meta.try_get<std::uint32_t>("tokenizer.ggml." + std::string(name) + "_token_id");
        if (!value) return std::nullopt;
        // What does not fit becomes an id that no vocabulary has, which validate() names.
        return *value > 0x7fffffffu ? token_id{0x7fffffff} : static_cast<token_id>(*value);
    };
    vocabulary v;
    v.model = meta.get<std::string>("tokenizer.ggml.model");
    v.pre = meta.try_get<std::string>("tokenizer.ggml.pre").value_or("");
    v.tokens = meta.strings("tokenizer.ggml.tokens");
    if (meta.contains("tokenizer.ggml.scores")) v.scores = meta.get<std::vector<float>>("tokenizer.ggml.scores");
    if (meta.contains("tokenizer.ggml.token_type"))
        v.types = meta.get<std::vector<std::int32_t>>("tokenizer.ggml.token_type");
    if (meta.contains("tokenizer.ggml.merges")) v.merges = meta.strings("tokenizer.ggml.merges");
    v.special = {.bos = id("bos"),
                 .eos = id("eos"),
                 .unknown = id("unknown"),
                 .pad = id("padding"),
                 .separator = id("seperator"), // spelt so in files
                 .mask = id("mask"),
                 .end_of_turn = id("eot"),
                 .end_of_message = id("eom")};
    if (!v.special.separator) v.special.separator = id("separator");
    v.add_bos = meta.try_get<bool>("tokenizer.ggml.add_bos_token");
    v.add_eos = meta.try_get<bool>("tokenizer.ggml.add_eos_token");
    v.add_space_prefix = meta.try_get<bool>("tokenizer.ggml.add_space_prefix");
    v.chat_template = meta.try_get<std::string>("tokenizer.chat_template").value_or("");
    return v;
}

} // namespace tern
