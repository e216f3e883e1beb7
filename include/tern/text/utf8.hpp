// UTF-8, read one character at a time from text that may hold any bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tern/base/config.hpp>

namespace tern {

/// What begins at a place in a text.
enum class utf8_kind : std::uint8_t {
    valid,   ///< a whole character
    invalid, ///< bytes that no later byte can turn into a character
    cut,     ///< the beginning of a character; the text ends before it does
};

/// One step through a text: its kind and its size in bytes, never 0.
struct utf8_step {
    utf8_kind kind = utf8_kind::invalid;
    std::size_t size = 1;
};

/// What begins at the start of `text`, which is not empty. Follows the table of well-formed sequences in the Unicode
/// standard (chapter 3.9): no overlong forms, no surrogates, nothing above U+10FFFF. Invalid bytes are taken in the
/// longest run that begins a valid character, so that each run stands for one U+FFFD.
///
///     tern::next_utf8("\xC3\xA9t\xC3\xA9").size; // 2
constexpr utf8_step next_utf8(std::string_view text) noexcept {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned lead = byte(0);
    if (lead < 0x80) return {utf8_kind::valid, 1};
    if (lead < 0xC2 || lead > 0xF4) return {utf8_kind::invalid, 1};
    const std::size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    for (std::size_t i = 1; i < size; ++i) {
        if (i == text.size()) return {utf8_kind::cut, i};
        const bool fits = i == 1 ? byte(1) >= low && byte(1) <= high : (byte(i) & 0xC0) == 0x80;
        if (!fits) return {utf8_kind::invalid, i};
    }
    return {utf8_kind::valid, size};
}

/// U+FFFD, which stands for bytes that are no text.
inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

} // namespace tern
