// Checks of a format against blocks that other programs made: the Python package gguf (committed) and libggml (shared).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <tern/format/format.hpp>

#include <support/data.hpp>

namespace tern::test {

template <class F> std::vector<float> decode_bytes(const char* bytes, std::size_t blocks) {
    std::vector<float> out(blocks * F::block_size);
    for (std::size_t i = 0; i < blocks; ++i) {
        typename F::block b;
        std::memcpy(&b, bytes + i * sizeof b, sizeof b);
        F::decode(b, out.data() + i * F::block_size);
    }
    return out;
}

/// What decoding gives back of encoded numbers.
template <class F> std::vector<float> through(const std::vector<float>& in) {
    std::vector<float> out(in.size());
    for (std::size_t i = 0; i + F::block_size <= in.size(); i += F::block_size) {
        typename F::block b;
        F::encode(in.data() + i, b);
        F::decode(b, out.data() + i);
    }
    return out;
}

inline double rmse(const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const double e = static_cast<double>(a[i]) - static_cast<double>(b[i]);
        sum += e * e;
    }
    return std::sqrt(sum / static_cast<double>(a.size()));
}

inline double largest_error(const std::vector<float>& a, const std::vector<float>& b) {
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        largest = std::fmax(largest, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    return largest;
}

/// The number after `"name": { ... "key":` in a flat index file; NaN where it says null.
inline double index_number(const std::string& text, std::string_view name, std::string_view key) {
    std::string quoted = "\"";
    quoted.append(name).append("\"");
    const auto entry = text.find(quoted);
    if (entry == text.npos) throw std::runtime_error("the index has no " + std::string(name));
    quoted = "\"";
    quoted.append(key).append("\":");
    const auto at = text.find(quoted, entry);
    if (at == text.npos || at > text.find('}', entry)) throw std::runtime_error("the index has no " + std::string(key));
    const char* number = text.c_str() + at + quoted.size();
    char* end = nullptr;
    const double value = std::strtod(number, &end);
    return end == number ? std::nan("") : value;
}

inline std::string read_text(const std::string& path) {
    const std::vector<char> raw = read_all(path);
    return {raw.begin(), raw.end()};
}

/// Bit-equality of two lists of floats; reports the first that differs.
inline void check_same_bits(const std::vector<float>& got, const std::vector<float>& expected) {
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        std::uint32_t g = 0, e = 0;
        std::memcpy(&g, &got[i], 4);
        std::memcpy(&e, &expected[i], 4);
        if (g == e) continue;
        CAPTURE(i);
        CAPTURE(got[i]);
        CAPTURE(expected[i]);
        REQUIRE(g == e);
    }
}

/// The committed data: decoding is bit-equal, encoding at least as good as the better of the two encoders.
template <class F> void check_against_gguf_package() {
    const std::string folder = source_file("tests/data/formats/"), name(F::name);
    CAPTURE(name);
    const std::string index = read_text(folder + "index.json");
    REQUIRE(index_number(index, name, "type") == *gguf_type_of<F>());
    REQUIRE(index_number(index, name, "block") == F::block_size);
    REQUIRE(index_number(index, name, "bytes") == sizeof(typename F::block));

    const std::vector<char> bytes = read_all(folder + name + ".bin");
    const auto blocks = static_cast<std::size_t>(index_number(index, name, "blocks"));
    REQUIRE(bytes.size() == blocks * sizeof(typename F::block));
    check_same_bits(decode_bytes<F>(bytes.data(), blocks), read_values<float>(folder + name + ".f32"));

    const std::vector<float> x = read_values<float>(folder + "input.f32");
    REQUIRE(x.size() == 4096);
    const double ours = rmse(x, through<F>(x));
    for (const char* key : {"rmse", "rmse_libggml"}) {
        const double theirs = index_number(index, name, key);
        if (std::isnan(theirs)) continue;
        CAPTURE(key);
        CHECK(ours <= theirs * 1.0001);
    }
}

/// The shared data, where present: the same with libggml's blocks. Its names end in _K for k-quants.
template <class F> void check_against_libggml() {
    std::string name(F::name);
    CAPTURE(name);
    if (name.ends_with("_k")) name.back() = 'K';
    const auto path = shared_file("quant/" + name + ".bin");
    if (!path) return;
    const std::string folder = path->substr(0, path->size() - name.size() - 4);
    const std::vector<float> x = read_values<float>(folder + "x.f32");
    const std::vector<char> bytes = read_all(*path);
    REQUIRE(x.size() == 1024);
    REQUIRE(bytes.size() == x.size() / F::block_size * sizeof(typename F::block));
    check_same_bits(decode_bytes<F>(bytes.data(), x.size() / F::block_size),
                    read_values<float>(folder + name + ".deq.f32"));
    const double theirs = index_number(read_text(folder + "index.json"), name, "rmse");
    const double ours = rmse(x, through<F>(x));
    CHECK(ours <= theirs * 1.0001);
}

/// Numbers that break careless encoders; every one must come back without a signal or undefined behaviour.
template <class F> void check_hostile_input() {
    CAPTURE(std::string(F::name));
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const std::size_t n = F::block_size;
    const auto all = [&](float v) { return through<F>(std::vector<float>(n, v)); };
    const auto mixed = [&](float v) {
        std::vector<float> x(n, 0.25f);
        x[n / 2] = v;
        return through<F>(x);
    };
    for (const float v : {std::nanf(""), infinity, -infinity}) {
        CHECK(!std::isfinite(all(v)[0]));
        CHECK(!std::isfinite(mixed(v)[n / 2]));
    }
    for (const float v : all(0.0f)) CHECK(v == 0.0f);
    for (const float v : all(-0.0f)) CHECK(v == 0.0f);
    for (const float v : all(std::numeric_limits<float>::denorm_min())) CHECK(std::fabs(v) <= 1e-38f);
    for (const float size : {1e-20f, 1e-7f, 1.0f, 1000.0f, 6e4f}) {
        for (const float v : {size, -size}) {
            CAPTURE(v);
            CHECK(largest_error(all(v), std::vector<float>(n, v)) <= std::fabs(static_cast<double>(v)) * 0.26 + 4e-8);
        }
    }
    for (const float v : {1e6f, -3e38f, std::numeric_limits<float>::max()}) {
        if (n == 1) continue; // plain floats overflow as IEEE says
        for (const float y : mixed(v)) CHECK(!std::isnan(y));
        CHECK(std::signbit(mixed(v)[n / 2]) == std::signbit(v));
    }
    if (n > 1) {
        std::vector<float> wide(n, std::numeric_limits<float>::max());
        for (std::size_t i = 0; i < n; i += 2) wide[i] = std::numeric_limits<float>::lowest();
        for (const float y : through<F>(wide)) CHECK(!std::isnan(y));
    }
}

} // namespace tern::test
