// Checked arithmetic for sizes that come from files and users: no operation wraps silently.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include <tern/base/error.hpp>

namespace tern {

/// a + b, or nothing when the sum does not fit.
template <std::unsigned_integral T> constexpr std::optional<T> try_add(T a, T b) noexcept {
    if (b > std::numeric_limits<T>::max() - a) return std::nullopt;
    return static_cast<T>(a + b);
}

/// a * b, or nothing when the product does not fit.
template <std::unsigned_integral T> constexpr std::optional<T> try_mul(T a, T b) noexcept {
    if (a != 0 && b > std::numeric_limits<T>::max() / a) return std::nullopt;
    return static_cast<T>(a * b);
}

/// `value` rounded up to a multiple of `unit` (a power of two or not, never 0), or nothing when that does not fit.
template <std::unsigned_integral T> constexpr std::optional<T> try_round_up(T value, T unit) noexcept {
    const T rest = unit == 0 ? T{0} : static_cast<T>(value % unit);
    return rest == 0 ? std::optional<T>{value} : try_add<T>(value, static_cast<T>(unit - rest));
}

/// a + b; throws shape_error that says `what` overflows.
template <std::unsigned_integral T> constexpr T checked_add(T a, T b, std::string_view what = "a sum") {
    if (const auto sum = try_add(a, b)) return *sum;
    throw shape_error(std::string(what) + " overflows");
}

/// a * b; throws shape_error that says `what` overflows.
template <std::unsigned_integral T> constexpr T checked_mul(T a, T b, std::string_view what = "a product") {
    if (const auto product = try_mul(a, b)) return *product;
    throw shape_error(std::string(what) + " overflows");
}

/// `value` as another integer type; throws shape_error where it does not fit.
///
///     auto rows = tern::checked_cast<std::size_t>(dims[1], "rows");
template <std::integral To, std::integral From>
constexpr To checked_cast(From value, std::string_view what = "a number") {
    if (!std::in_range<To>(value)) throw shape_error(std::string(what) + " is out of range");
    return static_cast<To>(value);
}

} // namespace tern
