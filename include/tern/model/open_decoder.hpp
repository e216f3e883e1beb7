// Opens the decoder that a model file asks for.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <tern/file/checkpoint.hpp>
#include <tern/model/decoder.hpp>
#include <tern/model/gemma3.hpp>
#include <tern/model/gpt_oss.hpp>
#include <tern/model/llama.hpp>
#include <tern/model/qwen2.hpp>
#include <tern/model/qwen3.hpp>
#include <tern/model/read_config.hpp>
#include <tern/model/weights.hpp>

namespace tern {

/// The decoder that a GGUF file's "general.architecture" names. No weight is read, but for the attention sinks of
/// gpt-oss. Throws unsupported_error with the known names for another architecture, and what read_config and weights
/// throw; so too where the file holds a tensor that the decoder does not use.
///
///     std::unique_ptr<tern::decoder> model = tern::open_decoder(file, store);
inline std::unique_ptr<decoder> open_decoder(const checkpoint& file, lender& store) {
    const auto name = file.metadata().get<std::string>("general.architecture");
    // Said first: the keys of an unknown architecture may be anything.
    if (name != "llama" && name != "qwen2" && name != "qwen3" && name != "qwen3moe" && name != "gemma3" &&
        name != "gpt-oss")
        throw unsupported_error("there is no decoder for the architecture \"" + name +
                                    "\": known are llama, qwen2, qwen3, qwen3moe, gemma3 and gpt-oss",
                                {.path = file.path()});
    decoder_config config = read_config(file);
    weights<any_weight> from(file, store);
    const auto make = [&]<class D>(std::type_identity<D>) -> std::unique_ptr<decoder> {
        auto made = std::make_unique<decoder_of<D>>(D(from, std::move(config)));
        from.check_all_used("rope_freqs.weight"); // which read_config has read
        return made;
    };
    if (name == "llama") return make(std::type_identity<llama<>>{});
    if (name == "qwen2") return make(std::type_identity<qwen2<>>{});
    if (name == "gpt-oss") return make(std::type_identity<gpt_oss<>>{});
    if (name == "gemma3") return make(std::type_identity<gemma3<>>{});
    return make(std::type_identity<qwen3<>>{});
}

} // namespace tern
