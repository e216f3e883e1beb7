// Finds the tokens that are kept whole inside a text: control tokens (when asked for) and user-defined ones.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include <tern/text/vocabulary.hpp>

namespace tern::detail {

/// A sorted list of texts, searched by narrowing a range byte by byte: the leftmost match, the longest there. Time is
/// bounded by the text's length times max_special_token_bytes. Refers to the vocabulary, which must outlive it.
class special_matcher {
public:
    struct match {
        std::size_t begin = std::string_view::npos;
        token_id token = no_token;
    };

    /// Takes the user-defined tokens, and the control and unknown ones too when `control` is true.
    special_matcher(const vocabulary& v, bool control) {
        for (std::size_t i = 0; i < v.tokens.size(); ++i) {
            const auto id = static_cast<token_id>(i);
            const token_type type = type_of(v, id);
            const bool special = type == token_type::control || type == token_type::unknown;
            if (v.tokens[i].empty() || v.tokens[i].size() > max_special_token_bytes) continue;
            if (type == token_type::user_defined || (control && special)) entries_.push_back({v.tokens[i], id});
        }
        std::stable_sort(entries_.begin(), entries_.end(),
                         [](const entry& a, const entry& b) { return a.text < b.text; });
        for (std::size_t first = 0; first < entries_.size();) {
            std::size_t last = first;
            while (last < entries_.size() && entries_[last].text[0] == entries_[first].text[0]) ++last;
            starts_[static_cast<unsigned char>(entries_[first].text[0])] = {first, last};
            first = last;
        }
    }

    /// The first token in `text` at or after `from`; its token is no_token where there is none.
    match find(std::string_view text, std::size_t from) const {
        if (entries_.empty()) return {};
        for (std::size_t at = from; at < text.size(); ++at) {
            const token_id token = longest(text.substr(at));
            if (token != no_token) return {at, token};
        }
        return {};
    }

private:
    struct entry {
        std::string_view text{};
        token_id token = no_token;
    };
    struct range {
        std::size_t first = 0;
        std::size_t last = 0;
    };

    /// The longest token that `text` begins with.
    token_id longest(std::string_view text) const {
        range r = starts_[static_cast<unsigned char>(text[0])];
        token_id best = no_token;
        for (std::size_t depth = 1; r.first < r.last; ++depth) {
            // All entries of the range begin with the first `depth` bytes; the shortest sorts first.
            if (entries_[r.first].text.size() == depth) {
                best = entries_[r.first].token;
                while (r.first < r.last && entries_[r.first].text.size() == depth) ++r.first;
            }
            if (depth == text.size()) break;
            const auto wanted = static_cast<unsigned char>(text[depth]);
            const auto byte = [&](const entry& e) { return static_cast<unsigned char>(e.text[depth]); };
            const auto first = entries_.begin();
            const auto low = std::partition_point(first + static_cast<std::ptrdiff_t>(r.first),
                                                  first + static_cast<std::ptrdiff_t>(r.last),
                                                  [&](const entry& e) { return byte(e) < wanted; });
            const auto high = std::partition_point(low, first + static_cast<std::ptrdiff_t>(r.last),
                                                   [&](const entry& e) { return byte(e) == wanted; });
            r = {static_cast<std::size_t>(low - first), static_cast<std::size_t>(high - first)};
        }
        return best;
    }

    std::vector<entry> entries_{};
    std::array<range, 256> starts_{};
};

} // namespace tern::detail
