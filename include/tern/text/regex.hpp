// Regular expressions over UTF-8, by PCRE2: bounded, and safe on any bytes.
#pragma once

#if !__has_include(<pcre2.h>)
#error "tern/text/regex.hpp needs PCRE2: install libpcre2-dev (or the like) and link with -lpcre2-8"
#else

#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include <pcre2.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <tern/base/error.hpp>
#include <tern/text/utf8.hpp>

namespace tern {

/// What one match may cost at most: backtracking steps, and memory for them.
struct regex_limits {
    std::uint32_t steps = 50'000'000;
    std::uint32_t memory_kib = 65536;
};

namespace detail {

/// The size of "^]", "^" or "]" at the start of a class.
inline std::size_t first_member(std::string_view rest) {
    const std::size_t negation = rest.substr(0, 1) == "^" ? 1 : 0;
    return negation + (rest.substr(negation, 1) == "]" ? 1 : 0);
}

/// The size of ":alpha:]" at the start of `rest`, or 0.
inline std::size_t posix_name(std::string_view rest) {
    if (rest.substr(0, 1) != ":") return 0;
    std::size_t end = 1;
    while (end < rest.size() && ((rest[end] >= 'a' && rest[end] <= 'z') || rest[end] == '^')) ++end;
    return rest.substr(end, 2) == ":]" ? end + 2 : 0;
}

/// \s and \S spelt out as the Unicode property White_Space: PCRE2 takes U+180E for a space, which tokenizers do not.
inline std::string exact_spaces(std::string_view pattern) {
    constexpr std::string_view spaces = "\\x{9}-\\x{d}\\x{85}\\p{Z}";
    std::string result;
    bool in_class = false;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        const char c = pattern[i];
        if (c == '\\' && i + 1 < pattern.size()) {
            const char escaped = pattern[++i];
            if (escaped == 's')
                result += in_class ? std::string(spaces) : "[" + std::string(spaces) + "]";
            else if (escaped == 'S' && !in_class)
                result += "[^" + std::string(spaces) + "]";
            else
                (result += c) += escaped;
            continue;
        }
        result += c;
        if (c == ']') in_class = false;
        if (c != '[') continue;
        // A bracket right behind the opening one is a member, and so is a name such as [:alpha:].
        const std::size_t skip = in_class ? posix_name(pattern.substr(i + 1)) : first_member(pattern.substr(i + 1));
        result += pattern.substr(i + 1, skip);
        i += skip;
        in_class = true;
    }
    return result;
}

} // namespace detail

/// A compiled pattern, immutable: any thread may use it. Syntax: PCRE2 with Unicode classes, \s is White_Space, $ is
/// the very end of the text.
///
///     tern::regex words(R"(\p{L}+)");
///     words.split("a b", [](std::string_view part, bool matched) { ... });   // "a", then " " (no match), then "b"
class regex {
public:
    /// Throws config_error that says what is wrong with the pattern, and where.
    explicit regex(std::string_view pattern, regex_limits limits = {}) : pattern_(pattern) {
        const std::string exact = detail::exact_spaces(pattern);
        int error = 0;
        PCRE2_SIZE offset = 0;
        code_.reset(pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(exact.data()), exact.size(),
                                    PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &error,
                                    &offset, nullptr));
        if (!code_) {
            throw config_error("the pattern \"" + pattern_ + "\" is wrong near byte " + std::to_string(offset) +
                               " of \"" + exact + "\": " + message(error));
        }
        context_.reset(pcre2_match_context_create_8(nullptr));
        if (!context_) throw budget_error("no memory for a regular expression");
        pcre2_set_match_limit_8(context_.get(), limits.steps);
        pcre2_set_heap_limit_8(context_.get(), limits.memory_kib);
    }

    /// Working memory of a match. One for each thread; reusing it saves an allocation for each text.
    class scratch {
    public:
        explicit scratch(const regex& pattern)
            : match_(pcre2_match_data_create_from_pattern_8(pattern.code_.get(), nullptr)) {
            if (!match_) throw budget_error("no memory for a regular expression");
        }

    private:
        friend class regex;
        struct free_match {
            void operator()(pcre2_match_data_8* p) const noexcept { pcre2_match_data_free_8(p); }
        };
        std::unique_ptr<pcre2_match_data_8, free_match> match_;
    };

    /// Cuts a text at its matches: calls `take(part, matched)` for each match and each stretch between matches, in
    /// order, so that the parts joined are the text. Empty matches do not count. The text may hold any bytes: a run of
    /// bytes that are no UTF-8 is a part of its own, not matched, and matches do not look across it. Throws
    /// budget_error for a match that exceeds the limits.
    template <class Take> void split(std::string_view text, Take&& take) const {
        scratch memory(*this);
        split(text, memory, take);
    }

    /// The same, with memory made from this pattern.
    template <class Take> void split(std::string_view text, scratch& memory, Take&& take) const {
        for (std::size_t begin = 0; begin < text.size();) {
            const bool valid = next_utf8(text.substr(begin)).kind == utf8_kind::valid;
            std::size_t end = begin;
            while (end < text.size()) {
                const utf8_step step = next_utf8(text.substr(end));
                if ((step.kind == utf8_kind::valid) != valid) break;
                end += step.size;
            }
            const std::string_view run = text.substr(begin, end - begin);
            if (valid)
                split_valid(run, memory.match_.get(), take);
            else
                take(run, false);
            begin = end;
        }
    }

private:
    struct free_code {
        void operator()(pcre2_code_8* p) const noexcept { pcre2_code_free_8(p); }
    };
    struct free_context {
        void operator()(pcre2_match_context_8* p) const noexcept { pcre2_match_context_free_8(p); }
    };
    static std::string message(int error) {
        PCRE2_UCHAR8 text[256] = {};
        pcre2_get_error_message_8(error, text, sizeof text);
        return reinterpret_cast<const char*>(text);
    }

    template <class Take> void split_valid(std::string_view text, pcre2_match_data_8* match, Take& take) const {
        std::size_t done = 0;
        while (done < text.size()) {
            const int found = pcre2_match_8(code_.get(), reinterpret_cast<PCRE2_SPTR8>(text.data()), text.size(), done,
                                            PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match, context_.get());
            if (found == PCRE2_ERROR_NOMATCH) break;
            if (found < 0) {
                throw budget_error("the pattern \"" + pattern_ + "\" gave up on a text of " +
                                   std::to_string(text.size()) + " bytes (" + message(found) + "): cut the text");
            }
            const PCRE2_SIZE* span = pcre2_get_ovector_pointer_8(match);
            // \K can move a match's start about; such a pattern cuts nothing.
            if (span[0] < done || span[1] <= span[0]) {
                throw config_error("the pattern \"" + pattern_ + "\" matches backwards: leave out \\K");
            }
            if (span[0] > done) take(text.substr(done, span[0] - done), false);
            take(text.substr(span[0], span[1] - span[0]), true);
            done = span[1];
        }
        if (done < text.size()) take(text.substr(done), false);
    }

    std::string pattern_;
    std::unique_ptr<pcre2_code_8, free_code> code_{};
    std::unique_ptr<pcre2_match_context_8, free_context> context_{};
};

} // namespace tern

#endif
