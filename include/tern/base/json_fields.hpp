// The members of a JSON object that is a record: known keys only, values in range, errors that name file and key.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/json_value.hpp>

namespace tern {

/// Reads a record out of a JSON object. Every error is a parse_error with the file's name and the way to the value,
/// such as `links[2].bandwidth`. The value must outlive it.
///
///     tern::json_fields link(value, "machine.json", "links[2]", {"from", "to", "bandwidth"});
///     auto bandwidth = link.find_positive("bandwidth");       // nothing where the key is absent
class json_fields {
public:
    /// Throws where `value` is no object, or has a key that is not in `known`. `way` is empty for the root.
    json_fields(const json_value& value, std::string file, std::string way,
                std::initializer_list<std::string_view> known)
        : value_(value), file_(std::move(file)), way_(std::move(way)) {
        if (!value.is(json_kind::object)) fail("", "expected an object, found " + std::string(name_of(value.kind())));
        for (const json_member& m : value.object()) {
            bool is_known = false;
            for (const std::string_view k : known) is_known = is_known || m.key == k;
            if (!is_known) fail(m.key, "is an unknown key");
        }
    }

    [[noreturn]] void fail(std::string_view key, std::string_view what) const {
        throw parse_error(way_to(key) + ": " + std::string(what), {.path = file_});
    }
    /// `links[2].bandwidth`, for what is read further down.
    std::string way_to(std::string_view key) const {
        if (key.empty()) return way_.empty() ? "the root" : way_;
        return way_.empty() ? std::string(key) : way_ + "." + std::string(key);
    }
    const std::string& file() const noexcept { return file_; }

    bool has(std::string_view key) const noexcept { return value_.find(key) != nullptr; }
    const json_value& at(std::string_view key) const {
        if (const json_value* v = value_.find(key)) return *v;
        fail(key, "is absent");
    }
    const std::string& string(std::string_view key) const {
        return kind_of(at(key), key, json_kind::string, "a string").as_string();
    }
    bool boolean(std::string_view key) const {
        return kind_of(at(key), key, json_kind::boolean, "true or false").as_bool();
    }
    std::uint64_t uint64(std::string_view key) const {
        return kind_of(at(key), key, json_kind::uint64, "an integer of at least 0").as_uint64();
    }
    std::span<const json_value> array(std::string_view key) const {
        return kind_of(at(key), key, json_kind::array, "an array").array();
    }
    /// A number above 0.
    double positive(std::string_view key) const {
        const double n = number(key);
        if (!(n > 0)) fail(key, "expected a number above 0");
        return n;
    }
    /// A number of at least 0.
    double not_negative(std::string_view key) const {
        const double n = number(key);
        if (!(n >= 0)) fail(key, "expected a number of at least 0");
        return n;
    }
    std::optional<double> find_positive(std::string_view key) const {
        return has(key) ? std::optional(positive(key)) : std::nullopt;
    }
    std::optional<double> find_not_negative(std::string_view key) const {
        return has(key) ? std::optional(not_negative(key)) : std::nullopt;
    }

private:
    double number(std::string_view key) const {
        const json_value& v = at(key);
        if (!v.is(json_kind::number) && !v.is(json_kind::uint64) && !v.is(json_kind::int64))
            fail(key, "expected a number, found " + std::string(name_of(v.kind())));
        const double n = v.as_double();
        if (!std::isfinite(n)) fail(key, "is not finite");
        return n;
    }
    const json_value& kind_of(const json_value& v, std::string_view key, json_kind wanted,
                              std::string_view name) const {
        if (!v.is(wanted)) fail(key, "expected " + std::string(name) + ", found " + std::string(name_of(v.kind())));
        return v;
    }

    const json_value& value_;
    std::string file_;
    std::string way_;
};

} // namespace tern
