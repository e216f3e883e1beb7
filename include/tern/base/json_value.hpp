// A JSON value: a tree with checked access, exact integers apart from doubles.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <tern/base/error.hpp>

namespace tern {

enum class json_kind { null, boolean, int64, uint64, number, string, array, object };

constexpr std::string_view name_of(json_kind kind) noexcept {
    constexpr std::string_view names[] = {"null",     "a boolean", "an integer", "an integer",
                                          "a number", "a string",  "an array",   "an object"};
    return names[static_cast<std::size_t>(kind)];
}

struct json_member;

/// A JSON value, owning what is below it. Move-only, 16 bytes. Integers are exact: those from 0 to 2^64-1 are of kind
/// uint64, negative ones down to -2^63 of kind int64; numbers with a fraction, an exponent or more digits are doubles.
/// Accessors throw parse_error where the kind is another one. References live as long as the value.
///
///     tern::json_value root = tern::parse_json(R"({"layers": 2})");
///     auto layers = root.at("layers").as_uint64();
class json_value {
    struct array_data {
        std::vector<json_value> values;
    };
    struct object_data {
        std::vector<json_member> members;
        std::vector<std::uint32_t> order; // positions of the members by ascending key
    };

public:
    json_value() = default;
    explicit json_value(std::same_as<bool> auto b) : data_(b) {} // a plain bool would take pointers too
    explicit json_value(std::int64_t n) : data_(n) {}
    explicit json_value(std::uint64_t n) : data_(n) {}
    explicit json_value(double n) : data_(n) {}
    explicit json_value(std::string text) : data_(std::make_unique<std::string>(std::move(text))) {}
    explicit json_value(std::vector<json_value> values)
        : data_(std::make_unique<array_data>(array_data{std::move(values)})) {}
    /// Throws parse_error where a key is there twice.
    explicit json_value(std::vector<json_member> members);

    json_kind kind() const noexcept { return static_cast<json_kind>(data_.index()); }
    bool is(json_kind wanted) const noexcept { return kind() == wanted; }

    bool as_bool() const { return get<bool>("a boolean"); }
    std::uint64_t as_uint64() const { return get<std::uint64_t>("an integer from 0 to 2^64-1"); }
    std::int64_t as_int64() const {
        if (const auto* n = std::get_if<std::uint64_t>(&data_); n && *n >> 63 == 0)
            return static_cast<std::int64_t>(*n);
        return get<std::int64_t>("an integer from -2^63 to 2^63-1");
    }
    /// Any number; an integer is rounded to the nearest double.
    double as_double() const {
        if (const auto* n = std::get_if<std::uint64_t>(&data_)) return static_cast<double>(*n);
        if (const auto* n = std::get_if<std::int64_t>(&data_)) return static_cast<double>(*n);
        return get<double>("a number");
    }
    const std::string& as_string() const { return *get<std::unique_ptr<std::string>>("a string"); }
    std::span<const json_value> array() const { return get<std::unique_ptr<array_data>>("an array")->values; }
    /// Members in the order of the text.
    std::span<const json_member> object() const;

    /// The value of a key, or null where it is absent or this is no object.
    const json_value* find(std::string_view key) const noexcept;
    /// The value of a key; throws parse_error that names it where it is absent.
    const json_value& at(std::string_view key) const {
        object();
        if (const json_value* value = find(key)) return *value;
        throw parse_error("the JSON key \"" + std::string(key) + "\" is absent");
    }

private:
    template <class T> const T& get(std::string_view wanted) const {
        if (const T* value = std::get_if<T>(&data_)) return *value;
        throw parse_error("expected " + std::string(wanted) + " in JSON, found " + std::string(name_of(kind())));
    }

    std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::unique_ptr<std::string>,
                 std::unique_ptr<array_data>, std::unique_ptr<object_data>>
        data_{};
};

struct json_member {
    std::string key;
    json_value value;
};

inline json_value::json_value(std::vector<json_member> members) {
    auto data = std::make_unique<object_data>(object_data{std::move(members), {}});
    auto& order = data->order;
    order.resize(data->members.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
    const auto key = [&](std::uint32_t i) -> const std::string& { return data->members[i].key; };
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
    for (std::size_t i = 1; i < order.size(); ++i)
        if (key(order[i - 1]) == key(order[i]))
            throw parse_error("the JSON key \"" + key(order[i]) + "\" is there twice in one object");
    data_ = std::move(data);
}

inline std::span<const json_member> json_value::object() const {
    return get<std::unique_ptr<object_data>>("an object")->members;
}

inline const json_value* json_value::find(std::string_view key) const noexcept {
    const auto* object = std::get_if<std::unique_ptr<object_data>>(&data_);
    if (!object) return nullptr;
    const auto& members = (*object)->members;
    const auto at = std::lower_bound((*object)->order.begin(), (*object)->order.end(), key,
                                     [&](std::uint32_t i, std::string_view k) { return members[i].key < k; });
    return at != (*object)->order.end() && members[*at].key == key ? &members[*at].value : nullptr;
}

} // namespace tern
