// Opens a GGUF model: one file, or a split set "name-00001-of-00003.gguf" through any of its shards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/file/gguf_reader.hpp>
#include <tern/file/metadata.hpp>
#include <tern/file/shards.hpp>
#include <tern/memory/file_handle.hpp>

namespace tern {

/// All shards of a GGUF model. Metadata is that of the first; tensors are those of all, shard after shard.
struct gguf_set {
    std::vector<std::unique_ptr<byte_source>> shards{};
    std::uint32_t version = 3;
    model_metadata metadata{};
    std::vector<gguf_tensor> tensors{};
};

namespace detail {

/// What the name of a shard says: prefix, number (from 1), count.
struct shard_name {
    std::string prefix{};
    std::uint32_t number = 1;
    std::uint32_t count = 1;

    std::string of(std::uint32_t shard) const {
        const auto five = [](std::uint32_t n) {
            const std::string digits = std::to_string(n);
            return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
        };
        return prefix + "-" + five(shard) + "-of-" + five(count) + ".gguf";
    }
};

/// Reads "prefix-00002-of-00003.gguf"; nothing where a path is not of that form.
inline std::optional<shard_name> parse_shard_name(std::string_view path) {
    constexpr std::string_view form = "-#####-of-#####.gguf";
    if (path.size() <= form.size()) return std::nullopt;
    const std::string_view tail = path.substr(path.size() - form.size());
    std::uint32_t numbers[2] = {0, 0};
    for (std::size_t i = 0; i < form.size(); ++i) {
        if (form[i] != '#') {
            if (tail[i] != form[i]) return std::nullopt;
            continue;
        }
        if (tail[i] < '0' || tail[i] > '9') return std::nullopt;
        std::uint32_t& number = numbers[i < 8 ? 0 : 1];
        number = number * 10 + static_cast<std::uint32_t>(tail[i] - '0');
    }
    return shard_name{std::string(path.substr(0, path.size() - form.size())), numbers[0], numbers[1]};
}

inline void check_split_keys(const gguf_header& header, std::uint32_t index, std::uint32_t count,
                             const std::string& path) {
    const auto found_count = header.metadata.try_get<std::uint32_t>("split.count").value_or(1);
    const auto found_index = header.metadata.try_get<std::uint32_t>("split.no").value_or(0);
    if (found_count != count || found_index != index)
        throw parse_error("says it is shard " + std::to_string(found_index) + " of " + std::to_string(found_count) +
                              " (from 0), expected shard " + std::to_string(index) + " of " + std::to_string(count) +
                              "; shards must keep the names they were made with",
                          {path, {}, {}, {}});
}

} // namespace detail

/// Opens a model and all its shards and reads their headers, no tensor data. `open(path)` gives a
/// std::unique_ptr<byte_source>; a missing shard makes it throw io_error with that shard's path. Throws as
/// read_gguf_header does, and parse_error when shards contradict each other or a tensor is listed twice.
///
///     tern::gguf_set model = tern::read_gguf("model-00001-of-00003.gguf");
template <class Open = detail::open_file>
gguf_set read_gguf(const std::string& path, const gguf_limits& limits = {}, Open open = {}) {
    gguf_set set;
    set.shards.push_back(open(path));
    gguf_header first = read_gguf_header(*set.shards[0], limits);
    const auto count = first.metadata.try_get<std::uint32_t>("split.count").value_or(1);
    if (count <= 1) {
        detail::check_split_keys(first, 0, count, path);
        set.version = first.version;
        set.metadata = std::move(first.metadata);
        set.tensors = std::move(first.tensors);
        detail::check_unique_names(set.shards, set.tensors);
        return set;
    }
    const auto name = detail::parse_shard_name(path);
    if (!name || name->count != count || name->number < 1 || name->number > count)
        throw parse_error("is one of " + std::to_string(count) + " shards, and its name does not end in \"-00001-of-" +
                              "0000N.gguf\"; shards must keep the names they were made with",
                          {path, {}, {}, {}});
    set.shards.clear();
    std::optional<std::uint64_t> promised;
    for (std::uint32_t shard = 0; shard < count; ++shard) {
        const std::string shard_path = name->of(shard + 1);
        set.shards.push_back(open(shard_path));
        gguf_header header = read_gguf_header(*set.shards.back(), limits);
        detail::check_split_keys(header, shard, count, shard_path);
        if (shard == 0) {
            set.version = header.version;
            promised = header.metadata.try_get<std::uint64_t>("split.tensors.count");
            set.metadata = std::move(header.metadata);
        }
        for (gguf_tensor& tensor : header.tensors) {
            tensor.shard = shard;
            set.tensors.push_back(std::move(tensor));
        }
    }
    if (promised && *promised != set.tensors.size())
        throw parse_error("promises " + std::to_string(*promised) + " tensors in all shards, they hold " +
                              std::to_string(set.tensors.size()),
                          {set.shards[0]->path(), {}, {}, {}});
    detail::check_unique_names(set.shards, set.tensors);
    return set;
}

} // namespace tern
