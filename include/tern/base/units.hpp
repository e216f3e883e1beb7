// Units: bytes, seconds, bytes per second. Strong types, so that a size is never taken for a time.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>

#include <tern/base/checked.hpp>

namespace tern {

/// A number of bytes. Structural, so that it can be a template argument: `staged<4_MiB, 2>`.
/// Sums and products of run-time values are checked and throw shape_error when they overflow.
struct bytes {
    std::uint64_t count = 0;

    friend constexpr auto operator<=>(const bytes&, const bytes&) = default;
    friend constexpr bool operator==(const bytes&, const bytes&) = default;
    friend constexpr bytes operator+(bytes a, bytes b) { return {checked_add(a.count, b.count, "a number of bytes")}; }
    friend constexpr bytes operator*(bytes a, std::uint64_t n) {
        return {checked_mul(a.count, n, "a number of bytes")};
    }
    /// Difference; throws shape_error when b is larger than a.
    friend constexpr bytes operator-(bytes a, bytes b) {
        if (b.count > a.count) throw shape_error("a number of bytes would be negative");
        return {a.count - b.count};
    }
    constexpr bytes& operator+=(bytes b) { return *this = *this + b; }
    constexpr bytes& operator-=(bytes b) { return *this = *this - b; }
};

/// A duration in seconds.
struct seconds {
    double count = 0;

    friend constexpr auto operator<=>(const seconds&, const seconds&) = default;
    friend constexpr bool operator==(const seconds&, const seconds&) = default;
    friend constexpr seconds operator+(seconds a, seconds b) { return {a.count + b.count}; }
    friend constexpr seconds operator-(seconds a, seconds b) { return {a.count - b.count}; }
    friend constexpr seconds operator*(seconds a, double n) { return {a.count * n}; }
    friend constexpr double operator/(seconds a, seconds b) { return a.count / b.count; }
    constexpr seconds& operator+=(seconds b) { return *this = *this + b; }
};

/// A bandwidth. Infinite by default: no limit.
struct bytes_per_second {
    double count = std::numeric_limits<double>::infinity();

    friend constexpr auto operator<=>(const bytes_per_second&, const bytes_per_second&) = default;
    friend constexpr bool operator==(const bytes_per_second&, const bytes_per_second&) = default;
};

/// The time that `n` bytes take at a bandwidth; 0 at an infinite one.
constexpr seconds operator/(bytes n, bytes_per_second bandwidth) {
    return {static_cast<double>(n.count) / bandwidth.count};
}

/// The bandwidth of `n` bytes in time `t`.
constexpr bytes_per_second operator/(bytes n, seconds t) { return {static_cast<double>(n.count) / t.count}; }

namespace literals {

constexpr bytes operator""_B(unsigned long long n) { return {n}; }
constexpr bytes operator""_KiB(unsigned long long n) { return bytes{n} * 1024; }
constexpr bytes operator""_MiB(unsigned long long n) { return bytes{n} * (1024 * 1024); }
constexpr bytes operator""_GiB(unsigned long long n) { return bytes{n} * (1024 * 1024 * 1024); }
constexpr seconds operator""_s(long double n) { return {static_cast<double>(n)}; }
constexpr seconds operator""_ms(long double n) { return {static_cast<double>(n) * 1e-3}; }
constexpr seconds operator""_us(long double n) { return {static_cast<double>(n) * 1e-6}; }
constexpr bytes_per_second operator""_GBps(long double n) { return {static_cast<double>(n) * 1e9}; }
constexpr bytes_per_second operator""_GBps(unsigned long long n) { return {static_cast<double>(n) * 1e9}; }

} // namespace literals

/// Bytes as people read them: "1.5 MiB", "812 B".
inline std::string to_string(bytes n) {
    constexpr const char* names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    auto value = static_cast<double>(n.count);
    int unit = 0;
    while (value >= 1024 && unit < 6) value /= 1024, ++unit;
    const auto tenths = static_cast<std::uint64_t>(value * 10 + 0.5);
    std::string text = std::to_string(tenths / 10);
    if (unit > 0) text += "." + std::to_string(tenths % 10);
    return text + " " + names[unit];
}

/// Reads "8MiB", "1.5 GiB", "512" (bytes) or "2G" (binary units); throws config_error otherwise.
///
///     tern::bytes budget = tern::parse_bytes("8MiB");
inline bytes parse_bytes(std::string_view text) {
    const auto bad = [&] { return config_error("\"" + std::string(text) + "\" is no size: write 8MiB, 2GiB or 4096"); };
    std::size_t i = 0;
    double value = 0;
    double scale = 0;
    bool digits = false;
    for (; i < text.size() && ((text[i] >= '0' && text[i] <= '9') || (text[i] == '.' && scale == 0)); ++i) {
        if (text[i] == '.') {
            scale = 1;
            continue;
        }
        digits = true;
        value = value * 10 + (text[i] - '0');
        if (scale != 0) scale *= 10;
    }
    if (!digits) throw bad();
    if (scale != 0) value /= scale;
    while (i < text.size() && text[i] == ' ') ++i;
    std::string_view unit = text.substr(i);
    double factor = 1;
    if (!unit.empty() && unit != "B") {
        constexpr std::string_view letters = "KMGT";
        const auto power = letters.find(unit[0] >= 'a' ? static_cast<char>(unit[0] - 32) : unit[0]);
        unit.remove_prefix(1);
        if (power == letters.npos || !(unit.empty() || unit == "iB" || unit == "B" || unit == "i")) throw bad();
        for (std::size_t p = 0; p <= power; ++p) factor *= 1024;
    }
    if (value * factor >= 9.2e18) throw bad();
    return {static_cast<std::uint64_t>(value * factor)};
}

} // namespace tern
