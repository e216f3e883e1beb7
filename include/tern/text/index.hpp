// Lookup tables of the tokenizers: from a text to its token, and from two tokens to the one they merge into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/text/vocabulary.hpp>

namespace tern::detail {

/// Mixes 64 bits well enough that the low ones index a table (the finaliser of MurmurHash3, public domain).
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
    x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCDu;
    x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53u;
    return x ^ (x >> 33);
}

constexpr std::uint64_t hash_bytes(std::string_view text) noexcept {
    std::uint64_t h = 0xCBF29CE484222325u;
    for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
    return mix(h);
}

/// Slots that a table of `count` entries gets: a power of two, at most half full.
constexpr std::size_t table_size(std::size_t count) noexcept {
    std::size_t size = 16;
    while (size < count * 2) size *= 2;
    return size;
}

/// A half full table needs a few dozen probes at worst; far more means that a file was made to collide.
inline constexpr std::size_t max_probes = 512;

[[noreturn]] inline void throw_colliding() {
    throw parse_error("the vocabulary was made so that its entries collide; it is not loaded");
}

/// Finds tokens by their text. Refers to the vocabulary, which must outlive it.
class token_index {
public:
    explicit token_index(const vocabulary& v)
        : tokens_(&v.tokens), slots_(table_size(v.tokens.size()), no_token), mask_(slots_.size() - 1) {}

    /// Adds a token. An empty text is never found; a text that is there already throws parse_error with both ids.
    void add(token_id id) {
        const std::string& text = text_of(id);
        if (text.empty()) return;
        if (text.size() > longest_) longest_ = text.size();
        std::size_t slot = hash_bytes(text) & mask_;
        for (std::size_t probes = 0; slots_[slot] != no_token; slot = (slot + 1) & mask_) {
            if (text_of(slots_[slot]) == text) {
                throw parse_error("the vocabulary has \"" + text + "\" twice, as token " +
                                  std::to_string(slots_[slot]) + " and as token " + std::to_string(id));
            }
            if (++probes == max_probes) throw_colliding();
        }
        slots_[slot] = id;
    }

    /// The token of a text, or no_token.
    token_id find(std::string_view text) const noexcept {
        if (text.size() > longest_) return no_token;
        std::size_t slot = hash_bytes(text) & mask_;
        while (slots_[slot] != no_token && text_of(slots_[slot]) != text) slot = (slot + 1) & mask_;
        return slots_[slot];
    }

private:
    const std::string& text_of(token_id id) const noexcept { return (*tokens_)[static_cast<std::size_t>(id)]; }

    const std::vector<std::string>* tokens_;
    std::vector<token_id> slots_;
    std::size_t mask_;
    std::size_t longest_ = 0;
};

/// What two neighbours merge into, and how early: a smaller rank goes first.
struct merge {
    std::uint32_t rank = 0;
    token_id result = no_token;
};

/// Finds merges by the two tokens that they join.
class merge_index {
public:
    explicit merge_index(std::size_t count) : slots_(table_size(count)), mask_(slots_.size() - 1) {}

    /// Adds a merge; one that is there already keeps its rank.
    void add(token_id left, token_id right, merge value) {
        const std::uint64_t key = key_of(left, right);
        std::size_t slot = mix(key) & mask_;
        for (std::size_t probes = 0; slots_[slot].value.result != no_token; slot = (slot + 1) & mask_) {
            if (slots_[slot].key == key) return;
            if (++probes == max_probes) throw_colliding();
        }
        slots_[slot] = {key, value};
    }

    /// The merge of two tokens; its result is no_token where there is none.
    merge find(token_id left, token_id right) const noexcept {
        const std::uint64_t key = key_of(left, right);
        std::size_t slot = mix(key) & mask_;
        while (slots_[slot].value.result != no_token && slots_[slot].key != key) slot = (slot + 1) & mask_;
        return slots_[slot].value;
    }

private:
    struct entry {
        std::uint64_t key = 0;
        merge value{};
    };
    static constexpr std::uint64_t key_of(token_id left, token_id right) noexcept {
        return (static_cast<std::uint64_t>(left) << 32) | static_cast<std::uint32_t>(right);
    }

    std::vector<entry> slots_;
    std::size_t mask_;
};

} // namespace tern::detail
