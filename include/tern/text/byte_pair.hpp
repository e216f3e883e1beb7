// Byte-pair encoding with ranked merges, which GGUF names "gpt2" and "gemma4". Include it once in a program, and
// make_tokenizer knows both. Needs PCRE2.
#pragma once

#if !__has_include(<pcre2.h>)
#error "tern/text/byte_pair.hpp needs PCRE2: install libpcre2-dev (or the like) and link with -lpcre2-8"
#else

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/text/encoder.hpp>
#include <tern/text/index.hpp>
#include <tern/text/merging.hpp>
#include <tern/text/pre_tokenizers.hpp>
#include <tern/text/regex.hpp>
#include <tern/text/sentencepiece.hpp>
#include <tern/text/utf8.hpp>
#include <tern/text/vocabulary.hpp>

namespace tern {

namespace detail {

/// The character that stands for each byte in the tokens of a byte-level vocabulary. Printable Latin-1 stands for
/// itself; the 68 others are U+0100 and on. Source: the encoder published with GPT-2.
constexpr std::array<std::uint16_t, 256> byte_characters() noexcept {
    std::array<std::uint16_t, 256> characters{};
    std::uint16_t next = 0x100;
    for (std::uint16_t b = 0; b < 256; ++b) {
        const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
        characters[b] = printable ? b : next++;
    }
    return characters;
}

/// One of those characters as UTF-8; all have one or two bytes.
inline void append_byte_character(unsigned char byte, std::string& out) {
    static constexpr auto characters = byte_characters();
    const unsigned c = characters[byte];
    if (c >= 0x80) out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(c < 0x80 ? c : 0x80 | (c & 0x3F));
}

/// The bytes that a token of a byte-level vocabulary stands for; characters that stand for no byte are kept.
inline std::string bytes_of_characters(std::string_view token) {
    static constexpr auto bytes = [] {
        std::array<std::int16_t, 0x144> table{};
        for (auto& entry : table) entry = -1;
        const auto characters = byte_characters();
        for (std::size_t b = 0; b < 256; ++b) table[characters[b]] = static_cast<std::int16_t>(b);
        return table;
    }();
    std::string out;
    for (std::size_t at = 0; at < token.size();) {
        const utf8_step step = next_utf8(token.substr(at));
        const auto lead = static_cast<unsigned char>(token[at]);
        unsigned c = step.kind == utf8_kind::valid && step.size == 1 ? lead : 0x144;
        if (step.kind == utf8_kind::valid && step.size == 2) {
            c = ((lead & 0x1Fu) << 6) | (static_cast<unsigned char>(token[at + 1]) & 0x3Fu);
        }
        if (c < bytes.size() && bytes[c] >= 0)
            out += static_cast<char>(bytes[c]);
        else
            out += token.substr(at, step.size);
        at += step.size;
    }
    return out;
}

} // namespace detail

/// Byte-pair encoding: the text is cut by the pre-tokenizer that the vocabulary names ("default" where it names none),
/// and in each piece neighbours merge, the pair named earliest in `merges` first and further left among equals.
/// Tokens hold either one character for each byte (GPT-2 and its kin: every text has tokens) or the text itself with
/// U+2581 for a space and byte tokens such as <0x0A> for what is missing (Gemma 4). A byte without any token becomes
/// the unknown token, or else U+FFFD. Source: R. Sennrich et al., Neural Machine Translation of Rare Words with Subword
/// Units, 2016.
///
/// Refers to the vocabulary, which must outlive it. Throws parse_error for a vocabulary without merges, with a text
/// twice, or with a merge that names no token; unsupported_error for an unknown pre-tokenizer.
class byte_pair final : public text_encoder {
public:
    explicit byte_pair(const vocabulary& v)
        : vocabulary_(&v), rules_(&find_pre_tokenizer(name_of_rules(v))), index_(v), merges_(v.merges.size()),
          unknown_(unknown_token(v)) {
        if (v.merges.empty()) throw parse_error("a byte-pair vocabulary needs merges, and this one has none");
        for (const split_step& step : rules_->steps) {
            if (!step.pattern.empty()) patterns_.emplace_back(step.pattern);
        }
        for (std::size_t i = 0; i < v.tokens.size(); ++i) {
            const auto id = static_cast<token_id>(i);
            const token_type type = type_of(v, id);
            // Control tokens are never made from text.
            if (type != token_type::control && type != token_type::unknown && type != token_type::byte) index_.add(id);
        }
        for (std::size_t i = 0; i < v.merges.size(); ++i) add_merge(v.merges[i], i);
        if (rules_->plain)
            bytes_ = detail::byte_tokens(v);
        else
            find_byte_characters();
    }

    void encode(std::string_view text, bool, std::vector<token_id>& out) const override {
        if (text.empty()) return;
        detail::check_text_size(text);
        session run(*this);
        if (rules_->plain)
            split(detail::replaced(text, " ", detail::space_mark), 0, run, out);
        else
            split(text, 0, run, out);
    }

    std::string piece(token_id id) const override {
        const std::string& text = vocabulary_->tokens[static_cast<std::size_t>(id)];
        const token_type type = type_of(*vocabulary_, id);
        if (type == token_type::byte) {
            const auto byte = named_byte(text);
            return byte ? std::string(1, static_cast<char>(*byte)) : text;
        }
        if (type != token_type::normal && type != token_type::unused) return text;
        return rules_->plain ? detail::replaced(text, detail::space_mark, " ") : detail::bytes_of_characters(text);
    }

    encoder_defaults defaults() const noexcept override { return {rules_->add_bos, false, false}; }

private:
    /// Working memory of one call.
    struct session {
        explicit session(const byte_pair& b) {
            for (const regex& pattern : b.patterns_) matches.emplace_back(pattern);
        }

        std::vector<regex::scratch> matches{};
        detail::merger<std::uint32_t> chain{};
        std::string characters{};
    };

    static std::string_view name_of_rules(const vocabulary& v) {
        if (v.model == "gemma4") return "gemma4";
        return v.pre.empty() ? std::string_view("default") : std::string_view(v.pre);
    }

    void add_merge(std::string_view text, std::size_t rank) {
        // The left side is never empty and may begin with a space, so the separator is not the first character.
        const std::size_t space = text.find(' ', 1);
        const auto fail = [&](std::string_view what) {
            throw parse_error("merge " + std::to_string(rank) + ", \"" + std::string(text.substr(0, 80)) + "\", " +
                              std::string(what));
        };
        if (space == text.npos || space + 1 == text.size()) fail("is not two tokens with a space between");
        const std::string_view left = text.substr(0, space);
        const std::string_view right = text.substr(space + 1);
        const token_id first = index_.find(left);
        const token_id second = index_.find(right);
        const token_id result = index_.find(std::string(left) + std::string(right));
        if (first == no_token || second == no_token) fail("joins what is no token");
        if (result == no_token) fail("makes what is no token");
        merges_.add(first, second, {static_cast<std::uint32_t>(rank), result});
    }

    void find_byte_characters() {
        for (unsigned b = 0; b < 256; ++b) {
            std::string character;
            detail::append_byte_character(static_cast<unsigned char>(b), character);
            const token_id id = index_.find(character);
            // A user-defined token is that character itself, not the byte that the character stands for.
            const bool usable = id != no_token && type_of(*vocabulary_, id) != token_type::user_defined;
            bytes_[b] = usable ? id : no_token;
        }
    }

    /// Cuts a piece by the steps from `step` on, and encodes what comes out.
    void split(std::string_view text, std::size_t step, session& run, std::vector<token_id>& out) const {
        if (step == patterns_.size()) {
            return rules_->plain ? encode_plain(text, run, out) : encode_bytes(text, run, out);
        }
        const bool thirds = rules_->steps[step].cut == cut_rule::thirds;
        patterns_[step].split(text, run.matches[step], [&](std::string_view part, bool matched) {
            if (matched && thirds)
                split_thirds(part, step + 1, run, out);
            else
                split(part, step + 1, run, out);
        });
    }

    void split_thirds(std::string_view text, std::size_t step, session& run, std::vector<token_id>& out) const {
        std::vector<std::size_t> ends;
        for (std::size_t at = 0; at < text.size(); at += next_utf8(text.substr(at)).size) ends.push_back(at);
        ends.push_back(text.size());
        const std::size_t characters = ends.size() - 1;
        for (std::size_t from = 0; from < characters;) {
            const std::size_t count = from == 0 && characters % 3 != 0 ? characters % 3 : 3;
            split(text.substr(ends[from], ends[from + count] - ends[from]), step, run, out);
            from += count;
        }
    }

    void merge(session& run) const {
        run.chain.run([&](const detail::symbol& left, const detail::symbol& right) -> detail::candidate<std::uint32_t> {
            if (left.token == no_token || right.token == no_token) return {};
            const detail::merge found = merges_.find(left.token, right.token);
            return {found.rank, found.result};
        });
    }

    void encode_bytes(std::string_view piece, session& run, std::vector<token_id>& out) const {
        if (rules_->whole_first) {
            run.characters.clear();
            for (const char c : piece) detail::append_byte_character(static_cast<unsigned char>(c), run.characters);
            const token_id whole = index_.find(run.characters);
            if (whole != no_token && type_of(*vocabulary_, whole) != token_type::user_defined) {
                return out.push_back(whole);
            }
        }
        run.chain.symbols.clear();
        for (std::size_t at = 0; at < piece.size(); ++at) {
            run.chain.add(at, 1, bytes_[static_cast<unsigned char>(piece[at])]);
        }
        merge(run);
        for (const detail::symbol& s : run.chain.symbols) {
            if (s.size == 0) continue;
            if (s.token != no_token)
                out.push_back(s.token);
            else
                append_unknown(out);
        }
    }

    void encode_plain(std::string_view piece, session& run, std::vector<token_id>& out) const {
        run.chain.symbols.clear();
        for (std::size_t at = 0; at < piece.size();) {
            const utf8_step step = next_utf8(piece.substr(at));
            const std::size_t size = step.kind == utf8_kind::valid ? step.size : 1;
            run.chain.add(at, size, index_.find(piece.substr(at, size)));
            at += size;
        }
        merge(run);
        for (const detail::symbol& s : run.chain.symbols) {
            if (s.size == 0) continue;
            if (s.token != no_token) {
                out.push_back(s.token);
                continue;
            }
            for (const char c : piece.substr(s.begin, s.size)) {
                const token_id byte = bytes_[static_cast<unsigned char>(c)];
                if (byte != no_token)
                    out.push_back(byte);
                else
                    append_unknown(out);
            }
        }
    }

    /// For a byte that has no token.
    void append_unknown(std::vector<token_id>& out) const {
        if (unknown_) return out.push_back(*unknown_);
        for (const char c : replacement_character) {
            const token_id byte = bytes_[static_cast<unsigned char>(c)];
            if (byte == no_token) {
                throw unsupported_error("the vocabulary has no token for a byte of the text, no unknown token, and "
                                        "none to write U+FFFD with");
            }
            out.push_back(byte);
        }
    }

    const vocabulary* vocabulary_;
    const pre_tokenizer* rules_;
    detail::token_index index_;
    detail::merge_index merges_;
    std::optional<token_id> unknown_;
    std::vector<regex> patterns_{};
    std::array<token_id, 256> bytes_{};
};

namespace detail {

inline std::unique_ptr<text_encoder> make_byte_pair(const vocabulary& v) { return std::make_unique<byte_pair>(v); }

inline const bool byte_pair_is_known =
    add_tokenizer_family("gpt2", make_byte_pair) && add_tokenizer_family("gemma4", make_byte_pair);

} // namespace detail

} // namespace tern

#endif
