// What a family of tokenizers implements: from a fragment of plain text to tokens, and the bytes behind a token.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/text/vocabulary.hpp>

namespace tern {

/// The rules that a family applies where the file has no flag.
struct encoder_defaults {
    bool add_bos = false;
    bool add_eos = false;
    bool add_space_prefix = false;
};

/// One family of tokenizers. Implementations are immutable once made: any thread may call them.
class text_encoder {
public:
    text_encoder() = default;
    text_encoder(const text_encoder&) = delete;
    text_encoder& operator=(const text_encoder&) = delete;
    virtual ~text_encoder() = default;

    /// Appends the tokens of a fragment that holds no special token. `space_prefix`: as if a space stood in front.
    virtual void encode(std::string_view text, bool space_prefix, std::vector<token_id>& out) const = 0;

    /// The bytes that a token stands for. Requires id inside the vocabulary.
    virtual std::string piece(token_id id) const = 0;

    virtual encoder_defaults defaults() const noexcept = 0;
};

/// Makes the encoder of a vocabulary, which outlives it.
using encoder_factory = std::unique_ptr<text_encoder> (*)(const vocabulary&);

namespace detail {

inline std::vector<std::pair<std::string, encoder_factory>>& encoder_families() {
    static std::vector<std::pair<std::string, encoder_factory>> families;
    return families;
}

} // namespace detail

/// Makes a family known under a model name; the last one added under a name counts. Call it before the first
/// make_tokenizer, from one thread. Returns true, so that a header can register itself through an inline variable.
///
///     tern::add_tokenizer_family("mine", [](const tern::vocabulary& v) -> std::unique_ptr<tern::text_encoder> {
///         return std::make_unique<my_encoder>(v);
///     });
inline bool add_tokenizer_family(std::string model, encoder_factory make) {
    for (auto& [name, factory] : detail::encoder_families()) {
        if (name == model) return factory = make, true;
    }
    detail::encoder_families().emplace_back(std::move(model), make);
    return true;
}

} // namespace tern
