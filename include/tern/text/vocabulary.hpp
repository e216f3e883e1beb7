// A vocabulary as plain arrays: what a tokenizer is made from, wherever it was read.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tern/base/error.hpp>

namespace tern {

/// A token's number: its place in vocabulary::tokens.
using token_id = std::int32_t;

/// No token.
inline constexpr token_id no_token = -1;

/// What a token is for; the numbers are those that GGUF stores.
enum class token_type : std::int32_t {
    undefined = 0, ///< treated as normal
    normal = 1,
    unknown = 2,      ///< stands for what has no token
    control = 3,      ///< begin, end, roles: matched in a text only when asked for, never printed
    user_defined = 4, ///< plain text that is always kept whole
    unused = 5,
    byte = 6, ///< one byte, written <0x0A>
};

/// The tokens with a role of their own. Empty: the file names none.
struct special_tokens {
    std::optional<token_id> bos{};
    std::optional<token_id> eos{};
    std::optional<token_id> unknown{};
    std::optional<token_id> pad{};
    std::optional<token_id> separator{};
    std::optional<token_id> mask{};
    std::optional<token_id> end_of_turn{};
    std::optional<token_id> end_of_message{};
};

/// Everything that a file says about its tokenizer, unchanged. A flag that the file lacks stays empty, which is not
/// false: the tokenizer then takes its family's rule and says so.
///
///     tern::vocabulary v;
///     v.model = "llama";
///     v.tokens = {"<unk>", "\u2581a", "b"};
///     v.scores = {0, -1, -2};
struct vocabulary {
    std::string model{};               ///< the family: "llama", "gpt2", "gemma4"
    std::string pre{};                 ///< the pre-tokenizer: "gpt-2", "llama-bpe"; empty: the file names none
    std::vector<std::string> tokens{}; ///< one text a token
    std::vector<float> scores{};       ///< one a token, or none
    std::vector<std::int32_t> types{}; ///< token_type, one a token, or none
    std::vector<std::string> merges{}; ///< "left right", best first
    special_tokens special{};
    std::optional<bool> add_bos{};
    std::optional<bool> add_eos{};
    std::optional<bool> add_space_prefix{}; ///< used by SentencePiece alone
    std::string chat_template{};            ///< carried along, never read here
};

/// The longest token that is accepted, and the longest that may be control or user defined, in bytes.
inline constexpr std::size_t max_token_bytes = 65536;
inline constexpr std::size_t max_special_token_bytes = 1024;

/// The byte that a text such as "<0x0A>" names, or nothing.
constexpr std::optional<unsigned char> named_byte(std::string_view text) noexcept {
    if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return std::nullopt;
    unsigned value = 0;
    for (const char c : text.substr(3, 2)) {
        const bool digit = c >= '0' && c <= '9';
        if (!digit && !(c >= 'A' && c <= 'F') && !(c >= 'a' && c <= 'f')) return std::nullopt;
        value = value * 16 + static_cast<unsigned>(digit ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return static_cast<unsigned char>(value);
}

/// The type of a token. Without an array of types it is inferred: <0x0A> is a byte, the unknown token is unknown, the
/// other special ones are control, the rest is normal. Requires an id inside the vocabulary.
inline token_type type_of(const vocabulary& v, token_id id) {
    if (!v.types.empty()) {
        const auto type = static_cast<token_type>(v.types[static_cast<std::size_t>(id)]);
        return type == token_type::undefined ? token_type::normal : type;
    }
    const special_tokens& s = v.special;
    if (s.unknown == id) return token_type::unknown;
    for (const auto& role : {s.bos, s.eos, s.pad, s.separator, s.mask, s.end_of_turn, s.end_of_message}) {
        if (role == id) return token_type::control;
    }
    return named_byte(v.tokens[static_cast<std::size_t>(id)]) ? token_type::byte : token_type::normal;
}

/// The unknown token: the one the file names, else the first of type unknown, else nothing.
inline std::optional<token_id> unknown_token(const vocabulary& v) {
    if (v.special.unknown) return v.special.unknown;
    for (std::size_t id = 0; id < v.types.size(); ++id) {
        if (static_cast<token_type>(v.types[id]) == token_type::unknown) return static_cast<token_id>(id);
    }
    return std::nullopt;
}

/// Throws parse_error unless the arrays fit together: as many scores and types as tokens (or none), known types, no
/// NaN among the scores, tokens of bearable size, special ids inside the vocabulary. What a family needs beyond this
/// (scores, merges, no token twice) is checked when its tokenizer is made.
inline void validate(const vocabulary& v) {
    const std::size_t count = v.tokens.size();
    if (count == 0) throw parse_error("the vocabulary has no tokens");
    if (count > std::size_t{0x7FFFFFFF}) throw parse_error("the vocabulary has more tokens than 31 bits can count");
    const auto check_length = [&](std::string_view what, std::size_t length) {
        if (length == 0 || length == count) return;
        throw parse_error("the vocabulary has " + std::to_string(count) + " tokens and " + std::to_string(length) +
                          " " + std::string(what));
    };
    check_length("scores", v.scores.size());
    check_length("token types", v.types.size());
    for (std::size_t id = 0; id < v.scores.size(); ++id) {
        if (std::isnan(v.scores[id])) throw parse_error("the score of token " + std::to_string(id) + " is NaN");
    }
    for (std::size_t id = 0; id < v.types.size(); ++id) {
        if (v.types[id] >= 0 && v.types[id] <= 6) continue;
        throw parse_error("token " + std::to_string(id) + " has the unknown type " + std::to_string(v.types[id]));
    }
    const auto check_role = [&](std::string_view name, std::optional<token_id> id) {
        if (!id || (*id >= 0 && static_cast<std::size_t>(*id) < count)) return;
        throw parse_error("the " + std::string(name) + " token is " + std::to_string(*id) +
                          ", and the vocabulary ends at " + std::to_string(count - 1));
    };
    check_role("bos", v.special.bos);
    check_role("eos", v.special.eos);
    check_role("unknown", v.special.unknown);
    check_role("padding", v.special.pad);
    check_role("separator", v.special.separator);
    check_role("mask", v.special.mask);
    check_role("end-of-turn", v.special.end_of_turn);
    check_role("end-of-message", v.special.end_of_message);
    for (std::size_t id = 0; id < count; ++id) {
        const token_type type = type_of(v, static_cast<token_id>(id));
        const bool whole = type == token_type::control || type == token_type::user_defined;
        const std::size_t limit = whole ? max_special_token_bytes : max_token_bytes;
        if (v.tokens[id].size() <= limit) continue;
        throw parse_error("token " + std::to_string(id) + " has " + std::to_string(v.tokens[id].size()) +
                          " bytes, more than the " + std::to_string(limit) + " that are accepted");
    }
}

} // namespace tern
