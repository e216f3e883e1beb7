// The metadata of a model file: typed values under keys. An absent key is told apart from a wrong one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/file/gguf_value.hpp>

namespace tern {

struct metadata_entry {
    std::string key{};
    gguf_value value{};
};

/// Keys and values in file order, found by binary search. No key is there twice.
///
///     auto layers = file.metadata().get<std::uint32_t>("llama.block_count");
///     auto bos = file.metadata().try_get<bool>("tokenizer.ggml.add_bos_token");   // nothing where absent
class model_metadata {
    std::string_view key(std::size_t i) const noexcept { return entries_[i].key; }

    template <class F> auto convert(std::string_view wanted, F f) const {
        const gguf_value* value = find(wanted);
        if (!value)
            throw parse_error("the metadata key \"" + std::string(wanted) + "\" is absent", {path_, {}, {}, {}});
        try {
            return f(*value);
        } catch (const parse_error& e) {
            throw parse_error("the metadata key \"" + std::string(wanted) + "\" " + e.what(), {path_, {}, {}, {}});
        }
    }

public:
    model_metadata() = default;
    /// Throws parse_error with `path` when two entries have one key.
    explicit model_metadata(std::vector<metadata_entry> entries, std::string path = {})
        : entries_(std::move(entries)), path_(std::move(path)) {
        order_.resize(entries_.size());
        for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = i;
        std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
        for (std::size_t i = 1; i < order_.size(); ++i)
            if (key(order_[i - 1]) == key(order_[i]))
                throw parse_error("the metadata key \"" + entries_[order_[i]].key + "\" is there twice",
                                  {path_, {}, {}, {}});
    }

    std::span<const metadata_entry> entries() const noexcept { return entries_; }

    /// The value of a key, or null; valid as long as this object.
    const gguf_value* find(std::string_view wanted) const noexcept {
        const auto at = std::lower_bound(order_.begin(), order_.end(), wanted,
                                         [&](std::size_t i, std::string_view k) { return key(i) < k; });
        return at != order_.end() && key(*at) == wanted ? &entries_[*at].value : nullptr;
    }
    bool contains(std::string_view wanted) const noexcept { return find(wanted) != nullptr; }

    /// The value of a key that must be there. Throws parse_error that names file and key when it is absent, or when
    /// it does not convert to T (see gguf_value::as).
    template <class T> T get(std::string_view wanted) const {
        return convert(wanted, [](const gguf_value& value) { return value.as<T>(); });
    }
    /// The same, or nothing where the key is absent. A value of the wrong type still throws.
    template <class T> std::optional<T> try_get(std::string_view wanted) const {
        if (!contains(wanted)) return std::nullopt;
        return get<T>(wanted);
    }
    /// The strings of an array, in place; throws like get.
    const std::vector<std::string>& strings(std::string_view wanted) const {
        return *convert(wanted, [](const gguf_value& value) {
            if (value.array().element != gguf_value_type::string)
                detail::wrong_type(value.array().element, "strings in an array");
            return &value.array().strings;
        });
    }

private:
    std::vector<metadata_entry> entries_{};
    std::vector<std::size_t> order_{};
    std::string path_{};
};

} // namespace tern
