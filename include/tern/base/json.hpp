// A strict reader of JSON (RFC 8259) for headers and tables that are not trusted.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/base/json_value.hpp>

namespace tern {

namespace detail {

class json_parser {
public:
    json_parser(std::string_view text, std::string_view name, unsigned depth)
        : text_(text), name_(name), depth_(depth) {}

    json_value document() {
        // Positions of members are 32 bits wide.
        if (text_.size() >> 32 != 0) fail("is longer than 4 GiB");
        json_value root = value(depth_);
        skip_space();
        if (at_ != text_.size()) fail("more text follows the value");
        return root;
    }

private:
    [[noreturn]] void fail(std::string_view what) const {
        throw parse_error("JSON: " + std::string(what) + ", at byte " + std::to_string(at_),
                          {std::string(name_), {}, {}, {}});
    }
    char peek() const noexcept { return at_ < text_.size() ? text_[at_] : '\0'; }
    bool accept(char c) noexcept {
        if (at_ == text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    void expect(char c, std::string_view what) {
        if (!accept(c)) fail(at_ == text_.size() ? "the text ends early" : what);
    }
    void skip_space() noexcept {
        while (at_ < text_.size() &&
               (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
            ++at_;
    }

    json_value value(unsigned depth) {
        skip_space();
        switch (peek()) {
        case '{': return object(depth);
        case '[': return array(depth);
        case '"': return json_value(string());
        case 't': return word("true"), json_value(true);
        case 'f': return word("false"), json_value(false);
        case 'n': return word("null"), json_value();
        default: return number();
        }
    }
    void word(std::string_view expected) {
        if (text_.substr(at_, expected.size()) != expected) fail("expected a value");
        at_ += expected.size();
    }
    json_value array(unsigned depth) {
        if (depth == 0) fail("values are nested more than " + std::to_string(depth_) + " deep");
        ++at_;
        std::vector<json_value> values;
        skip_space();
        if (accept(']')) return json_value(std::move(values));
        do {
            values.push_back(value(depth - 1));
            skip_space();
        } while (accept(','));
        expect(']', "expected ',' or ']'");
        return json_value(std::move(values));
    }
    json_value object(unsigned depth) {
        if (depth == 0) fail("values are nested more than " + std::to_string(depth_) + " deep");
        ++at_;
        std::vector<json_member> members;
        skip_space();
        if (accept('}')) return json_value(std::move(members));
        do {
            skip_space();
            if (peek() != '"') fail(at_ == text_.size() ? "the text ends early" : "expected a key in quotes");
            std::string key = string();
            skip_space();
            expect(':', "expected ':'");
            members.push_back({std::move(key), value(depth - 1)});
            skip_space();
        } while (accept(','));
        expect('}', "expected ',' or '}'");
        try {
            return json_value(std::move(members));
        } catch (const parse_error& e) { fail(e.what()); }
    }

    json_value number() {
        const std::size_t begin = at_;
        const bool negative = accept('-');
        const std::size_t integer = at_;
        digits(begin == at_ ? "expected a value" : "expected a digit");
        if (at_ - integer > 1 && text_[integer] == '0') at_ = integer, fail("a number begins with 0");
        bool exact = true;
        if (accept('.')) exact = false, digits("expected a digit");
        std::string_view exponent;
        if (peek() == 'e' || peek() == 'E') {
            exact = false;
            ++at_;
            const std::size_t sign = at_;
            if (!accept('-')) accept('+');
            digits("expected a digit");
            exponent = text_.substr(sign, at_ - sign);
        }
        const char* const first = text_.data() + begin;
        const char* const last = text_.data() + at_;
        // "-0" is the double -0.0: no integer keeps the sign.
        if (exact && !negative)
            if (std::uint64_t n{}; std::from_chars(first, last, n).ec == std::errc{}) return json_value(n);
        if (exact && negative && text_.substr(begin, at_ - begin) != "-0")
            if (std::int64_t n{}; std::from_chars(first, last, n).ec == std::errc{}) return json_value(n);
        double n{};
        if (std::from_chars(first, last, n).ec == std::errc{}) return json_value(n);
        if (magnitude(text_.substr(integer, at_ - integer), exponent) < 0) return json_value(negative ? -0.0 : 0.0);
        at_ = begin;
        fail("a number is too large");
    }
    /// Power of ten of the first digit that is not 0. Numbers out of double's range have one far from 0.
    static std::int64_t magnitude(std::string_view digits, std::string_view exponent) noexcept {
        const auto point = std::min(digits.find_first_of(".eE"), digits.size());
        const auto first = std::min(digits.find_first_of("123456789"), digits.size());
        std::int64_t power = 0;
        if (exponent.starts_with('+')) exponent.remove_prefix(1);
        const auto code = std::from_chars(exponent.data(), exponent.data() + exponent.size(), power).ec;
        if (code == std::errc::result_out_of_range) power = exponent.starts_with('-') ? -(1ll << 40) : 1ll << 40;
        return power + static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first);
    }
    void digits(std::string_view what) {
        if (peek() < '0' || peek() > '9') fail(at_ == text_.size() ? "the text ends early" : what);
        while (peek() >= '0' && peek() <= '9') ++at_;
    }

    std::string string() {
        ++at_;
        std::string out;
        for (;;) {
            const std::size_t begin = at_;
            while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
                   static_cast<unsigned char>(text_[at_]) >= 0x20 && static_cast<unsigned char>(text_[at_]) < 0x80)
                ++at_;
            out.append(text_, begin, at_ - begin);
            if (at_ == text_.size()) fail("the text ends within a string");
            const auto c = static_cast<unsigned char>(text_[at_]);
            if (c == '"') break;
            if (c == '\\')
                escape(out);
            else if (c < 0x20)
                fail("a control character in a string");
            else
                multibyte(out);
        }
        ++at_;
        return out;
    }
    void escape(std::string& out) {
        ++at_;
        constexpr std::string_view codes = "\"\\/bfnrt";
        constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
        if (at_ < text_.size() && text_[at_] != 'u') {
            const auto code = codes.find(text_[at_]);
            if (code == codes.npos) fail("an unknown escape in a string");
            out += meanings[code];
            ++at_;
            return;
        }
        std::uint32_t point = unit();
        if (point >= 0xdc00 && point < 0xe000) fail("a low surrogate without a high one");
        if (point >= 0xd800 && point < 0xdc00) {
            if (!accept('\\') || peek() != 'u') fail("a high surrogate without a low one");
            const std::uint32_t low = unit();
            if (low < 0xdc00 || low >= 0xe000) fail("a high surrogate without a low one");
            point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
        }
        append_utf8(out, point);
    }
    std::uint32_t unit() {
        std::uint32_t n = 0;
        if (text_.size() - at_ < 5) fail("the text ends within an escape");
        const char* const first = text_.data() + at_ + 1;
        const auto [end, code] = std::from_chars(first, first + 4, n, 16);
        if (code != std::errc{} || end != first + 4) fail("an escape without four hexadecimal digits");
        at_ += 5;
        return n;
    }
    static void append_utf8(std::string& out, std::uint32_t point) {
        const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((point >> shift) & 0x3f)); };
        if (point < 0x80)
            out += static_cast<char>(point);
        else if (point < 0x800)
            out += static_cast<char>(0xc0 | point >> 6), tail(0);
        else if (point < 0x10000)
            out += static_cast<char>(0xe0 | point >> 12), tail(6), tail(0);
        else
            out += static_cast<char>(0xf0 | point >> 18), tail(12), tail(6), tail(0);
    }
    /// One character of two to four bytes: no overlong form, no surrogate, nothing above U+10FFFF.
    void multibyte(std::string& out) {
        const auto byte = [&](std::size_t i) -> std::uint32_t {
            return at_ + i < text_.size() ? static_cast<unsigned char>(text_[at_ + i]) : 0u;
        };
        const std::uint32_t lead = byte(0);
        const std::size_t length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
        bool good = length != 0;
        for (std::size_t i = 1; i < length; ++i) good = good && (byte(i) & 0xc0) == 0x80;
        if (lead == 0xe0) good = good && byte(1) >= 0xa0;
        if (lead == 0xed) good = good && byte(1) < 0xa0;
        if (lead == 0xf0) good = good && byte(1) >= 0x90;
        if (lead == 0xf4) good = good && byte(1) < 0x90;
        if (!good) fail("a string is not valid UTF-8");
        out.append(text_, at_, length);
        at_ += length;
    }

    std::string_view text_;
    std::string_view name_;
    unsigned depth_;
    std::size_t at_ = 0;
};

} // namespace detail

/// Parses one JSON text. Strict: no comments, no trailing commas, no byte order mark, UTF-8 checked, no key twice in an
/// object, at most `depth` nested arrays and objects. A number beyond double's range is an error, one too small is 0.
/// Memory is at most about 32 times the text. Throws parse_error with `name` (a path, may be empty) and the position.
///
///     tern::json_value root = tern::parse_json(text, "config.json");
inline json_value parse_json(std::string_view text, std::string_view name = {}, unsigned depth = 64) {
    return detail::json_parser(text, name, depth).document();
}

} // namespace tern
