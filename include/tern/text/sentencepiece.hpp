// SentencePiece's byte-pair model, which GGUF names "llama": merges by score, unknown characters as bytes.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/text/encoder.hpp>
#include <tern/text/index.hpp>
#include <tern/text/merging.hpp>
#include <tern/text/utf8.hpp>
#include <tern/text/vocabulary.hpp>

namespace tern {

namespace detail {

/// U+2581, which stands for a space inside tokens.
inline constexpr std::string_view space_mark = "\xE2\x96\x81";

/// The text with every `from` written as `to`.
inline std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
    std::string result;
    result.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t found = text.find(from, at);
        result += text.substr(at, found == text.npos ? text.npos : found - at);
        if (found == text.npos) break;
        result += to;
        at = found + from.size();
    }
    return result;
}

/// The tokens <0x00> to <0xFF>; no_token where one is missing.
inline std::array<token_id, 256> byte_tokens(const vocabulary& v) {
    std::array<token_id, 256> tokens;
    tokens.fill(no_token);
    for (std::size_t id = 0; id < v.tokens.size(); ++id) {
        if (type_of(v, static_cast<token_id>(id)) != token_type::byte) continue;
        const auto byte = named_byte(v.tokens[id]);
        if (!byte) throw parse_error("the byte token " + std::to_string(id) + " is not written like <0x0A>");
        tokens[*byte] = static_cast<token_id>(id);
    }
    return tokens;
}

} // namespace detail

/// The tokenizer of Llama 1 and 2 and their kin. A space becomes U+2581; the characters are merged, the pair whose
/// token has the highest score first and further left among equals; a character without a token becomes its byte
/// tokens, or the unknown token (one for a run of such characters) where the vocabulary has no bytes.
/// Source: T. Kudo and J. Richardson, SentencePiece, 2018, the BPE model.
///
/// Refers to the vocabulary, which must outlive it. Throws parse_error for a vocabulary without scores, with a text
/// twice, or with a byte token of another form than <0x0A>.
class sentencepiece final : public text_encoder {
public:
    explicit sentencepiece(const vocabulary& v)
        : vocabulary_(&v), index_(v), bytes_(detail::byte_tokens(v)), unknown_(unknown_token(v)) {
        if (v.scores.size() != v.tokens.size()) {
            throw parse_error("a SentencePiece vocabulary needs a score for each token: found " +
                              std::to_string(v.scores.size()) + " for " + std::to_string(v.tokens.size()));
        }
        // Control, unknown and byte tokens are never made from text: "<s>" typed by a user is five characters.
        for (std::size_t i = 0; i < v.tokens.size(); ++i) {
            const auto id = static_cast<token_id>(i);
            const token_type type = type_of(v, id);
            if (type == token_type::normal || type == token_type::user_defined || type == token_type::unused) {
                index_.add(id);
            }
        }
    }

    void encode(std::string_view text, bool space_prefix, std::vector<token_id>& out) const override {
        if (text.empty()) return;
        detail::check_text_size(text);
        std::string escaped = detail::replaced(text, " ", detail::space_mark);
        if (space_prefix) escaped.insert(0, detail::space_mark);
        const std::string_view all = escaped;

        detail::merger<float> chain;
        chain.symbols.reserve(text.size() + 1);
        for (std::size_t at = 0; at < all.size();) {
            const utf8_step step = next_utf8(all.substr(at));
            const std::size_t size = step.kind == utf8_kind::valid ? step.size : 1;
            chain.add(at, size, no_token);
            at += size;
        }
        chain.run([&](const detail::symbol& left, const detail::symbol& right) -> detail::candidate<float> {
            const token_id token = index_.find(all.substr(left.begin, left.size + right.size));
            return {token == no_token ? 0 : -vocabulary_->scores[static_cast<std::size_t>(token)], token};
        });
        bool after_unknown = false;
        for (const detail::symbol& s : chain.symbols) {
            if (s.size > 0) after_unknown = append(all.substr(s.begin, s.size), s.token, after_unknown, out);
        }
    }

    std::string piece(token_id id) const override {
        const std::string& text = vocabulary_->tokens[static_cast<std::size_t>(id)];
        switch (type_of(*vocabulary_, id)) {
        case token_type::byte: return std::string(1, static_cast<char>(*named_byte(text)));
        case token_type::normal:
        case token_type::user_defined:
        case token_type::unused: return detail::replaced(text, detail::space_mark, " ");
        default: return text;
        }
    }

    encoder_defaults defaults() const noexcept override { return {true, false, true}; }

private:
    /// Appends a finished symbol; true when it ended as the unknown token.
    bool append(std::string_view text, token_id token, bool after_unknown, std::vector<token_id>& out) const {
        if (token == no_token) token = index_.find(text);
        if (token != no_token) return out.push_back(token), false;
        bool complete = true;
        for (const char c : text) complete = complete && bytes_[static_cast<unsigned char>(c)] != no_token;
        if (complete) {
            for (const char c : text) out.push_back(bytes_[static_cast<unsigned char>(c)]);
            return false;
        }
        if (!unknown_) {
            throw unsupported_error("the vocabulary has no token for a character of the text, no bytes to spell it and "
                                    "no unknown token");
        }
        if (!after_unknown) out.push_back(*unknown_);
        return true;
    }

    const vocabulary* vocabulary_;
    detail::token_index index_;
    std::array<token_id, 256> bytes_;
    std::optional<token_id> unknown_;
};

} // namespace tern
