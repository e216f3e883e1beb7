// The tokenizer: text to tokens and back, whatever the family behind it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/text/encoder.hpp>
#include <tern/text/sentencepiece.hpp>
#include <tern/text/special_matcher.hpp>
#include <tern/text/vocabulary.hpp>

namespace tern {

struct encode_options {
    bool add_special = true;    ///< put bos in front and eos behind, each where the vocabulary asks for it
    bool parse_special = false; ///< "<s>" in the text is the control token, not three characters
};

struct decode_options {
    bool special = false; ///< print control and unknown tokens too
};

namespace detail {

/// Everything a tokenizer knows; never changed once made.
struct tokenizer_state {
    explicit tokenizer_state(vocabulary&& v, encoder_factory make)
        : words(std::move(v)), encoder(make(words)), plain(words, false), all(words, true) {
        offsets.reserve(words.tokens.size() + 1);
        offsets.push_back(0);
        for (std::size_t id = 0; id < words.tokens.size(); ++id) {
            pieces += encoder->piece(static_cast<token_id>(id));
            offsets.push_back(pieces.size());
        }
    }

    vocabulary words;
    std::unique_ptr<text_encoder> encoder;
    special_matcher plain; ///< user-defined tokens
    special_matcher all;   ///< and control tokens
    std::string pieces{};  ///< the bytes of all tokens, one after the other
    std::vector<std::size_t> offsets{};
};

} // namespace detail

/// Turns text into tokens and tokens into text. Made by make_tokenizer; copies share their tables; any thread may call
/// it.
///
///     tern::tokenizer t = tern::make_tokenizer(vocabulary);
///     std::vector<tern::token_id> ids = t.encode("Once upon a time");
///     std::string text = t.decode(ids);                                   // "Once upon a time"
class tokenizer {
public:
    /// The tokens of a text. The text may hold any bytes. User-defined tokens are kept whole always, control tokens
    /// when options.parse_special is set, the leftmost first and the longest there. Throws unsupported_error where the
    /// vocabulary has no token for a part of the text, budget_error for a text beyond 1 GiB.
    std::vector<token_id> encode(std::string_view text, encode_options options = {}) const {
        const vocabulary& v = vocab();
        std::vector<token_id> out;
        if (options.add_special && adds_bos()) out.push_back(*v.special.bos);
        const detail::special_matcher& matcher = options.parse_special ? state_->all : state_->plain;
        bool at_start = true;
        for (std::size_t at = 0; at < text.size();) {
            const auto found = matcher.find(text, at);
            state_->encoder->encode(text.substr(at, found.token == no_token ? text.npos : found.begin - at),
                                    at_start && adds_space_prefix(), out);
            if (found.token == no_token) break;
            out.push_back(found.token);
            at_start = begins_anew(type_of(v, found.token));
            at = found.begin + v.tokens[static_cast<std::size_t>(found.token)].size();
        }
        if (options.add_special && adds_eos()) out.push_back(*v.special.eos);
        return out;
    }

    /// The text of tokens, as bytes. It undoes encode: the space that encode imagines in front of a text, and behind a
    /// control or user-defined token, is taken away again. Throws shape_error for an id outside the vocabulary.
    std::string decode(std::span<const token_id> ids, decode_options options = {}) const {
        std::string text;
        bool at_start = true;
        for (const token_id id : ids) text += next_piece(id, at_start, options);
        return text;
    }

    /// The bytes that a token stands for: control tokens as they are written, spaces as spaces, a byte token as its
    /// byte. Maybe a part of a character. Valid as long as a copy of this tokenizer lives. Throws shape_error for an id
    /// outside the vocabulary.
    std::string_view piece(token_id id) const {
        check(id);
        const auto i = static_cast<std::size_t>(id);
        return std::string_view(state_->pieces).substr(state_->offsets[i], state_->offsets[i + 1] - state_->offsets[i]);
    }

    /// What decode appends for a token. `at_start` says whether the token begins a text or follows a control or
    /// user-defined one, and is updated.
    std::string_view next_piece(token_id id, bool& at_start, decode_options options = {}) const {
        std::string_view text = piece(id);
        const token_type type = type_of(vocab(), id);
        const bool special = type == token_type::control || type == token_type::unknown;
        if (at_start && adds_space_prefix() && type == token_type::normal && text.substr(0, 1) == " ") {
            text.remove_prefix(1);
        }
        at_start = begins_anew(type);
        return special && !options.special ? std::string_view() : text;
    }

    /// The type of a token. Throws shape_error for an id outside the vocabulary.
    token_type type(token_id id) const { return check(id), type_of(vocab(), id); }

    /// True for a token that ends a text or a turn: eos, end_of_turn, end_of_message.
    bool is_end(token_id id) const noexcept {
        const special_tokens& s = vocab().special;
        return s.eos == id || s.end_of_turn == id || s.end_of_message == id;
    }

    /// Number of tokens.
    std::size_t size() const noexcept { return vocab().tokens.size(); }

    /// The vocabulary as it was given: a flag that was absent still is.
    const vocabulary& vocab() const noexcept { return state_->words; }

    /// What applies: the flag of the vocabulary, or where it is absent the family's own rule (describe() says which).
    /// By rule a bos or eos that the vocabulary does not name is left out.
    bool adds_bos() const noexcept {
        return vocab().add_bos.value_or(state_->encoder->defaults().add_bos && vocab().special.bos.has_value());
    }
    bool adds_eos() const noexcept {
        return vocab().add_eos.value_or(state_->encoder->defaults().add_eos && vocab().special.eos.has_value());
    }
    bool adds_space_prefix() const noexcept {
        const encoder_defaults rule = state_->encoder->defaults();
        return rule.add_space_prefix && vocab().add_space_prefix.value_or(true);
    }

    /// One sentence: family, size, and each rule with where it came from.
    std::string describe() const {
        const vocabulary& v = vocab();
        const auto rule = [&](std::string_view name, std::optional<bool> flag, bool value) {
            return ", " + std::string(name) + (value ? " true" : " false") +
                   (flag ? " (file)" : " (absent; the family's rule)");
        };
        return v.model + (v.pre.empty() ? std::string() : "/" + v.pre) + ", " + std::to_string(size()) + " tokens" +
               rule("add_bos", v.add_bos, adds_bos()) + rule("add_eos", v.add_eos, adds_eos()) +
               rule("add_space_prefix", v.add_space_prefix, adds_space_prefix());
    }

private:
    friend tokenizer make_tokenizer(vocabulary v);

    explicit tokenizer(std::shared_ptr<const detail::tokenizer_state> state) : state_(std::move(state)) {}

    /// True for a token behind which a text begins anew. Not for the unknown token: it also stands inside words.
    static bool begins_anew(token_type type) noexcept {
        return type == token_type::control || type == token_type::user_defined;
    }

    void check(token_id id) const {
        if (id >= 0 && static_cast<std::size_t>(id) < size()) return;
        throw shape_error("token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(size()));
    }

    std::shared_ptr<const detail::tokenizer_state> state_;
};

namespace detail {

inline encoder_factory find_family(const std::string& model) {
    for (const auto& [name, make] : encoder_families()) {
        if (name == model) return make;
    }
    if (model == "llama") {
        return [](const vocabulary& v) -> std::unique_ptr<text_encoder> { return std::make_unique<sentencepiece>(v); };
    }
    if (model == "gpt2" || model == "gemma4") {
        throw unsupported_error("the tokenizer \"" + model +
                                "\" is a byte-pair one: include tern/text/byte_pair.hpp in one source file (it needs "
                                "PCRE2, on Debian libpcre2-dev, and -lpcre2-8)");
    }
    throw unsupported_error("the tokenizer \"" + model +
                            "\" is not known; there are llama, gpt2 and gemma4, and those given to "
                            "add_tokenizer_family");
}

} // namespace detail

/// Makes the tokenizer of a vocabulary. SentencePiece ("llama") is always there; byte-pair tokenizers ("gpt2",
/// "gemma4") are when some source file of the program includes tern/text/byte_pair.hpp; others come from
/// add_tokenizer_family. Throws parse_error for arrays that do not fit together, config_error for a flag that asks for
/// a token the vocabulary does not name, unsupported_error for a family or pre-tokenizer that is not there.
///
///     tern::tokenizer t = tern::make_tokenizer(std::move(vocabulary));
inline tokenizer make_tokenizer(vocabulary v) {
    validate(v);
    if (v.add_bos.value_or(false) && !v.special.bos) {
        throw config_error("add_bos is true and the vocabulary names no bos token: set one, or add_bos to false");
    }
    if (v.add_eos.value_or(false) && !v.special.eos) {
        throw config_error("add_eos is true and the vocabulary names no eos token: set one, or add_eos to false");
    }
    const encoder_factory make = detail::find_family(v.model);
    return tokenizer(std::make_shared<const detail::tokenizer_state>(std::move(v), make));
}

} // namespace tern
