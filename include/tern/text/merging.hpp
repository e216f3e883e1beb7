// The loop that both families share: neighbours merge, best pair first, until none fits. O(n log n).
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <string_view>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/text/vocabulary.hpp>

namespace tern::detail {

/// A stretch of the text, linked to its neighbours; size 0 once it has been merged into the one on its left.
struct symbol {
    static constexpr std::uint32_t none = 0xFFFFFFFF;

    std::uint32_t begin = 0;
    std::uint32_t size = 0;
    token_id token = no_token;
    std::uint32_t previous = none;
    std::uint32_t next = none;
};

/// Positions are 32-bit, and SentencePiece writes a space in three bytes.
inline constexpr std::size_t max_text_bytes = std::size_t{1} << 30;

inline void check_text_size(std::string_view text) {
    if (text.size() <= max_text_bytes) return;
    throw budget_error("a text is too long to tokenize at once: cut it",
                       {.needed = text.size(), .available = max_text_bytes});
}

/// A pair that may merge: a smaller key goes first, then the one further left.
template <class Key> struct candidate {
    Key key{};
    token_id result = no_token;
};

/// Merges symbols until no pair is left. `find(left, right)` gives the candidate of two neighbours; its result is
/// no_token where they do not merge.
template <class Key> class merger {
public:
    std::vector<symbol> symbols{};

    void add(std::size_t begin, std::size_t size, token_id token) {
        const auto index = static_cast<std::uint32_t>(symbols.size());
        if (index > 0) symbols.back().next = index;
        symbols.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(size), token,
                           index > 0 ? index - 1 : symbol::none, symbol::none});
    }

    template <class Find> void run(Find&& find) {
        const auto offer = [&](std::uint32_t left, std::uint32_t right) {
            if (left == symbol::none || right == symbol::none) return;
            const candidate<Key> found = find(symbols[left], symbols[right]);
            if (found.result == no_token) return;
            queue_.push({found.key, left, symbols[left].size + symbols[right].size, found.result});
        };
        for (std::uint32_t i = 1; i < symbols.size(); ++i) offer(i - 1, i);
        while (!queue_.empty()) {
            const entry best = queue_.top();
            queue_.pop();
            symbol& left = symbols[best.left];
            if (left.size == 0 || left.next == symbol::none) continue;
            symbol& right = symbols[left.next];
            // Symbols only grow or vanish, so an entry is current exactly when the sizes still add up.
            if (left.size + right.size != best.size) continue;
            left.size = best.size;
            left.token = best.result;
            left.next = right.next;
            right.size = 0;
            if (left.next != symbol::none) symbols[left.next].previous = best.left;
            offer(left.previous, best.left);
            offer(best.left, left.next);
        }
    }

private:
    struct entry {
        Key key{};
        std::uint32_t left = 0;
        std::uint32_t size = 0;
        token_id result = no_token;

        bool operator<(const entry& other) const noexcept {
            return key != other.key ? key > other.key : left > other.left;
        }
    };
    std::priority_queue<entry> queue_{};
};

} // namespace tern::detail
