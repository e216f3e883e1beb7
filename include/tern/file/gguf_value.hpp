// A metadata value: the thirteen types of GGUF, and arrays of them. Conversions are checked, never silent.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tern/base/error.hpp>

namespace tern {

static_assert(std::endian::native == std::endian::little, "tern reads little-endian files on little-endian machines");

/// The type of a value, with the ids that GGUF gives them.
enum class gguf_value_type : std::uint32_t {
    uint8,
    int8,
    uint16,
    int16,
    uint32,
    int32,
    float32,
    boolean,
    string,
    array,
    uint64,
    int64,
    float64
};

inline constexpr std::uint32_t gguf_value_type_count = 13;

/// Its name, e.g. "uint32"; "unknown" for an id that is none.
constexpr std::string_view name_of(gguf_value_type type) noexcept {
    constexpr std::string_view names[] = {"uint8",   "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                          "boolean", "string", "array",  "uint64", "int64",  "float64"};
    const auto id = static_cast<std::uint32_t>(type);
    return id < gguf_value_type_count ? names[id] : std::string_view("unknown");
}

/// Bytes of one value of it in a file and in memory; 0 for strings and arrays, which have no fixed size.
constexpr std::size_t size_of(gguf_value_type type) noexcept {
    constexpr std::size_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    const auto id = static_cast<std::uint32_t>(type);
    return id < gguf_value_type_count ? sizes[id] : 0;
}

/// The id of a C++ type: what a writer stores it as.
template <class T> constexpr gguf_value_type gguf_value_type_for() {
    if constexpr (std::same_as<T, bool>)
        return gguf_value_type::boolean;
    else if constexpr (std::same_as<T, float>)
        return gguf_value_type::float32;
    else if constexpr (std::same_as<T, double>)
        return gguf_value_type::float64;
    else if constexpr (std::integral<T>) {
        constexpr bool is_signed = std::is_signed_v<T>;
        if constexpr (sizeof(T) == 1)
            return is_signed ? gguf_value_type::int8 : gguf_value_type::uint8;
        else if constexpr (sizeof(T) == 2)
            return is_signed ? gguf_value_type::int16 : gguf_value_type::uint16;
        else if constexpr (sizeof(T) == 4)
            return is_signed ? gguf_value_type::int32 : gguf_value_type::uint32;
        else
            return is_signed ? gguf_value_type::int64 : gguf_value_type::uint64;
    } else {
        static_assert(std::convertible_to<T, std::string_view>, "a metadata value is a number, a bool or a string");
        return gguf_value_type::string;
    }
}

namespace detail {

template <class Stored> Stored load(const std::byte* from) noexcept {
    Stored value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

[[noreturn]] inline void wrong_type(gguf_value_type found, std::string_view wanted) {
    throw parse_error("is of type " + std::string(name_of(found)) + ", expected " + std::string(wanted));
}

/// The number of type `type` at `from`, as T: integers with a range check, float32 and float64 to either, bool to bool.
template <class T> T number_as(gguf_value_type type, const std::byte* from) {
    const auto integer = [](auto value) -> T {
        if constexpr (std::integral<T> && !std::same_as<T, bool>) {
            if (std::in_range<T>(value)) return static_cast<T>(value);
            throw parse_error("is " + std::to_string(value) + ", out of range for " +
                              std::string(name_of(gguf_value_type_for<T>())));
        } else {
            wrong_type(gguf_value_type_for<decltype(value)>(), std::same_as<T, bool> ? "a bool" : "a float");
        }
    };
    const auto real = [&](auto value) -> T {
        if constexpr (std::floating_point<T>)
            return static_cast<T>(value);
        else
            wrong_type(type, std::same_as<T, bool> ? "a bool" : "an integer");
    };
    switch (type) {
    case gguf_value_type::uint8: return integer(load<std::uint8_t>(from));
    case gguf_value_type::int8: return integer(load<std::int8_t>(from));
    case gguf_value_type::uint16: return integer(load<std::uint16_t>(from));
    case gguf_value_type::int16: return integer(load<std::int16_t>(from));
    case gguf_value_type::uint32: return integer(load<std::uint32_t>(from));
    case gguf_value_type::int32: return integer(load<std::int32_t>(from));
    case gguf_value_type::uint64: return integer(load<std::uint64_t>(from));
    case gguf_value_type::int64: return integer(load<std::int64_t>(from));
    case gguf_value_type::float32: return real(load<float>(from));
    case gguf_value_type::float64: return real(load<double>(from));
    case gguf_value_type::boolean:
        if constexpr (std::same_as<T, bool>)
            return load<std::uint8_t>(from) != 0;
        else
            break;
    default: break;
    }
    wrong_type(type, std::same_as<T, bool> ? "a bool" : std::floating_point<T> ? "a float" : "an integer");
}

} // namespace detail

/// An array of one element type. Numbers and bools lie packed as in the file; strings and inner arrays as objects.
struct gguf_array {
    gguf_value_type element = gguf_value_type::uint8;
    std::vector<std::byte> packed{};
    std::vector<std::string> strings{};
    std::vector<gguf_array> arrays{};

    /// Number of elements.
    std::size_t size() const noexcept {
        if (element == gguf_value_type::string) return strings.size();
        if (element == gguf_value_type::array) return arrays.size();
        return packed.size() / size_of(element);
    }
    /// All elements as T; throws parse_error where one is of another type or out of range.
    template <class T> std::vector<T> to_vector() const {
        if constexpr (std::same_as<T, std::string>) {
            if (element != gguf_value_type::string) detail::wrong_type(element, "strings in an array");
            return strings;
        } else {
            if (size_of(element) == 0) detail::wrong_type(element, "numbers in an array");
            std::vector<T> out;
            out.reserve(size());
            for (std::size_t at = 0; at < packed.size(); at += size_of(element))
                out.push_back(detail::number_as<T>(element, packed.data() + at));
            return out;
        }
    }
};

/// An array of the numbers, bools or strings of a range; the element type is that of the range.
template <class Range> gguf_array make_gguf_array(const Range& range) {
    using stored = std::remove_cv_t<typename Range::value_type>; // not the reference: std::vector<bool> gives a proxy
    gguf_array array;
    array.element = gguf_value_type_for<stored>();
    for (const auto& item : range) {
        if constexpr (std::is_arithmetic_v<stored>) {
            const stored number = item;
            const auto raw = std::bit_cast<std::array<std::byte, sizeof(stored)>>(number);
            array.packed.insert(array.packed.end(), raw.begin(), raw.end());
        } else {
            array.strings.emplace_back(std::string_view(item));
        }
    }
    return array;
}

/// One value. `as<T>()` converts integers to any integer type that holds them, and floats to float or double.
class gguf_value {
public:
    gguf_value() = default;
    gguf_value(std::string text) : type_(gguf_value_type::string), data_(std::move(text)) {}
    gguf_value(gguf_array array) : type_(gguf_value_type::array), data_(std::move(array)) {}
    template <class T>
        requires std::is_arithmetic_v<T>
    gguf_value(T number) : type_(gguf_value_type_for<T>()) {
        raw bits{};
        std::memcpy(bits.bytes, &number, sizeof number);
        data_ = bits;
    }

    gguf_value_type type() const noexcept { return type_; }

    /// T: an integer, float, double, bool, std::string, std::string_view (valid as long as this value), gguf_array
    /// (a copy), or std::vector of a number, bool or std::string. Throws parse_error where the value is none.
    template <class T> T as() const {
        if constexpr (std::is_arithmetic_v<T>) {
            if (const raw* bits = std::get_if<raw>(&data_)) return detail::number_as<T>(type_, bits->bytes);
            detail::wrong_type(type_, std::same_as<T, bool> ? "a bool" : "a number");
        } else if constexpr (std::same_as<T, std::string> || std::same_as<T, std::string_view>) {
            if (const auto* text = std::get_if<std::string>(&data_)) return *text;
            detail::wrong_type(type_, "a string");
        } else if constexpr (std::same_as<T, gguf_array>) {
            return array();
        } else {
            return array().template to_vector<typename T::value_type>();
        }
    }
    /// The bytes of a number or bool as a file holds them; empty for strings and arrays.
    std::span<const std::byte> packed() const noexcept {
        const raw* bits = std::get_if<raw>(&data_);
        return bits ? std::span<const std::byte>(bits->bytes, size_of(type_)) : std::span<const std::byte>();
    }
    /// The array in place; throws parse_error where the value is none.
    const gguf_array& array() const {
        if (const auto* found = std::get_if<gguf_array>(&data_)) return *found;
        detail::wrong_type(type_, "an array");
    }

private:
    struct raw {
        std::byte bytes[8];
    };
    gguf_value_type type_ = gguf_value_type::uint8;
    std::variant<raw, std::string, gguf_array> data_{};
};

} // namespace tern
