// Writes JSON: objects, arrays, strings, numbers that read back to the same value.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tern/base/error.hpp>

namespace tern {

/// Appends to one string. Throws config_error for a value without its key, a key outside an object, or an end that does
/// not match. Strings must be UTF-8; control characters are escaped. NaN and infinity, which JSON lacks, become null.
///
///     tern::json_writer out;
///     out.begin_object().key("layers").value(2).key("names").begin_array().value("a").end_array().end_object();
///     std::string text = out.take();          // {"layers":2,"names":["a"]}
class json_writer {
public:
    json_writer& begin_object() { return begin('{', '}'); }
    json_writer& end_object() { return end('}'); }
    json_writer& begin_array() { return begin('[', ']'); }
    json_writer& end_array() { return end(']'); }

    json_writer& key(std::string_view name) {
        if (open_.empty() || open_.back() != '}' || keyed_) throw config_error("a JSON key belongs in an object");
        comma();
        quote(name);
        text_ += ':';
        keyed_ = true;
        return *this;
    }

    /// A bool, a number or a string.
    template <class T>
        requires std::is_arithmetic_v<T> || std::convertible_to<const T&, std::string_view>
    json_writer& value(const T& v) {
        start();
        if constexpr (std::same_as<T, bool>)
            text_ += v ? "true" : "false";
        else if constexpr (std::floating_point<T>)
            std::isfinite(v) ? number(v) : void(text_ += "null");
        else if constexpr (std::is_arithmetic_v<T>)
            number(v);
        else
            quote(v);
        return *this;
    }
    json_writer& null() {
        start();
        text_ += "null";
        return *this;
    }
    /// key and value in one.
    template <class T> json_writer& member(std::string_view name, const T& v) { return key(name).value(v); }

    /// The finished text; throws config_error while an array or object is open or nothing was written.
    std::string take() {
        if (!open_.empty() || text_.empty()) throw config_error("the JSON text is not finished");
        comma_ = false;
        return std::exchange(text_, {});
    }

private:
    void comma() {
        if (comma_) text_ += ',';
        comma_ = true;
    }
    void start() {
        const bool in_object = !open_.empty() && open_.back() == '}';
        if (in_object != keyed_) throw config_error("a value in a JSON object needs a key");
        if (open_.empty() && !text_.empty()) throw config_error("a JSON text holds one value");
        if (!in_object) comma();
        keyed_ = false;
    }
    json_writer& begin(char first, char last) {
        start();
        text_ += first;
        open_ += last;
        comma_ = false;
        return *this;
    }
    json_writer& end(char last) {
        if (open_.empty() || open_.back() != last || keyed_)
            throw config_error("a JSON array or object ends elsewhere");
        open_.pop_back();
        text_ += last;
        comma_ = true;
        return *this;
    }
    template <class T> void number(T v) {
        char digits[64];
        text_.append(digits, std::to_chars(digits, digits + sizeof digits, v).ptr);
    }
    void quote(std::string_view s) {
        constexpr std::string_view hex = "0123456789abcdef";
        text_ += '"';
        for (const char c : s) {
            const auto code = static_cast<unsigned char>(c);
            if (c == '"' || c == '\\')
                (text_ += '\\') += c;
            else if (c == '\n')
                text_ += "\\n";
            else if (code < 0x20)
                ((text_ += "\\u00") += hex[code >> 4]) += hex[code & 15];
            else
                text_ += c;
        }
        text_ += '"';
    }

    std::string text_{};
    std::string open_{}; // what ends each open array or object
    bool comma_ = false;
    bool keyed_ = false;
};

} // namespace tern
