// Reads safetensors: one file, or a set of shards through "model.safetensors.index.json". Trusts none of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/base/checked.hpp>
#include <tern/base/error.hpp>
#include <tern/base/json.hpp>
#include <tern/file/metadata.hpp>
#include <tern/file/shards.hpp>
#include <tern/file/stored_tensor.hpp>
#include <tern/memory/file_handle.hpp>

namespace tern {

/// The header of one file: `__metadata__` as strings, and tensors in the order of their data.
struct safetensors_header {
    model_metadata metadata{};
    std::vector<stored_tensor> tensors{};
};

/// All shards of a model. Metadata is that of the index, then that of the first shard.
struct safetensors_set {
    std::vector<std::unique_ptr<byte_source>> shards{};
    model_metadata metadata{};
    std::vector<stored_tensor> tensors{};
};

/// The longest header that is read, as in the official library.
inline constexpr std::uint64_t safetensors_max_header = 100'000'000;

namespace detail {

struct safetensors_dtype {
    std::string_view dtype;
    std::string_view format;
    std::uint32_t bytes;
};

inline constexpr safetensors_dtype safetensors_dtypes[] = {
    {"F64", "f64", 8},         {"F32", "f32", 4}, {"F16", "f16", 2}, {"BF16", "bf16", 2}, {"F8_E4M3", "f8_e4m3", 1},
    {"F8_E5M2", "f8_e5m2", 1}, {"I64", "i64", 8}, {"I32", "i32", 4}, {"I16", "i16", 2},   {"I8", "i8", 1},
    {"U64", "u64", 8},         {"U32", "u32", 4}, {"U16", "u16", 2}, {"U8", "u8", 1},     {"BOOL", "bool", 1},
};

/// Whether the first 8 bytes can be those of a safetensors file: a header length within the limit has four zero bytes,
/// which no JSON text contains.
inline bool is_safetensors(std::span<const std::byte, 8> first) noexcept {
    return std::all_of(first.begin() + 4, first.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// Everything but the offsets, which are held against each other later.
inline stored_tensor read_safetensor(const json_member& member, const std::string& path) {
    const auto fail = [&](const std::string& what) { return parse_error(what, {path, member.key, {}, {}}); };
    stored_tensor tensor;
    tensor.name = member.key;
    std::string_view dtype;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    try {
        dtype = member.value.at("dtype").as_string();
        for (const json_value& dim : member.value.at("shape").array()) tensor.shape.push_back(dim.as_uint64());
        const auto offsets = member.value.at("data_offsets").array();
        if (offsets.size() != 2) throw fail("has " + std::to_string(offsets.size()) + " data_offsets, expected 2");
        begin = offsets[0].as_uint64();
        end = offsets[1].as_uint64();
    } catch (const parse_error& e) {
        if (!e.tensor().empty()) throw;
        throw fail(e.what());
    }
    const auto* found = std::find_if(std::begin(safetensors_dtypes), std::end(safetensors_dtypes),
                                     [&](const safetensors_dtype& known) { return known.dtype == dtype; });
    if (found == std::end(safetensors_dtypes)) throw fail("its dtype \"" + std::string(dtype) + "\" is unknown");
    tensor.format = found->format;
    std::optional<std::uint64_t> size = found->bytes;
    for (const std::uint64_t dim : tensor.shape) size = size ? try_mul(*size, dim) : std::nullopt;
    if (!size) throw fail("its shape times its element size does not fit in 64 bits");
    if (begin > end)
        throw fail("its data begins at " + std::to_string(begin) + ", after its end at " + std::to_string(end));
    if (end - begin != *size)
        throw parse_error("its shape and dtype do not fit its data_offsets", {path, member.key, *size, end - begin});
    tensor.offset = begin;
    tensor.bytes = *size;
    return tensor;
}

/// Tensors must cover the data from the first byte to the last: no overlap, no gap, nothing after them.
inline void place_safetensors(std::vector<stored_tensor>& tensors, std::uint64_t data_begin, std::uint64_t file_size,
                              const std::string& path) {
    std::sort(tensors.begin(), tensors.end(), [](const stored_tensor& a, const stored_tensor& b) {
        return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
    });
    const std::uint64_t available = file_size - data_begin;
    std::uint64_t covered = 0;
    for (stored_tensor& tensor : tensors) {
        if (tensor.offset < covered)
            throw parse_error("its data overlaps that of another tensor", {path, tensor.name, {}, {}});
        if (tensor.offset > covered)
            throw parse_error("there is a gap of " + std::to_string(tensor.offset - covered) + " bytes before its data",
                              {path, tensor.name, {}, {}});
        covered += tensor.bytes; // is data_offsets[1]: cannot overflow
        if (covered > available)
            throw parse_error("its data goes past the end of the file: it is cut or damaged, fetch it again",
                              {path, tensor.name, covered, available});
        tensor.offset += data_begin;
    }
    if (covered != available)
        throw parse_error(std::to_string(available - covered) + " bytes follow the data of the last tensor",
                          {path, {}, {}, {}});
}

/// A metadata value of an index; what GGUF has no type for is left out.
inline std::optional<gguf_value> to_metadata(const json_value& value) {
    switch (value.kind()) {
    case json_kind::boolean: return value.as_bool();
    case json_kind::int64: return value.as_int64();
    case json_kind::uint64: return value.as_uint64();
    case json_kind::number: return value.as_double();
    case json_kind::string: return value.as_string();
    default: return std::nullopt;
    }
}

/// Names of the shards of an index, ascending, each once. A name must be that of a file beside the index.
inline std::vector<std::string> shard_names(const json_value& index, const std::string& path) {
    std::vector<std::string> names;
    try {
        for (const json_member& member : index.at("weight_map").object()) {
            const std::string& file = member.value.as_string();
            if (file.empty() || file == "." || file == ".." ||
                file.find_first_of(std::string_view("/\\\0", 3)) != file.npos)
                throw parse_error("its shard has no plain file name: \"" + file + "\"", {path, member.key, {}, {}});
            names.push_back(file);
        }
    } catch (const parse_error& e) {
        if (!e.path().empty()) throw;
        throw parse_error(e.what(), {path, {}, {}, {}});
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    if (names.empty()) throw parse_error("lists no tensors", {path, {}, {}, {}});
    return names;
}

inline std::string read_text(byte_source& source, std::uint64_t offset, std::uint64_t length) {
    std::string text(static_cast<std::size_t>(length), '\0');
    read_exact(source, offset, std::as_writable_bytes(std::span(text)));
    return text;
}

} // namespace detail

/// Reads the header, no tensor data. Data may begin at any alignment. Requires what the official library requires: a
/// header of at most 100 MB that begins with '{', offsets that agree with shape and dtype, data without overlap, gap or
/// rest. Tensors without elements are fine; keys of a tensor other than dtype, shape and data_offsets are ignored.
/// Throws parse_error, io_error.
///
///     tern::file_source file("model.safetensors");
///     tern::safetensors_header header = tern::read_safetensors_header(file);
inline safetensors_header read_safetensors_header(byte_source& source) {
    const std::string& path = source.path();
    const std::uint64_t size = source.size();
    std::uint64_t length = 0;
    if (size < sizeof length) throw parse_error("is too short for safetensors", {path, {}, sizeof length, size});
    read_exact(source, 0, std::as_writable_bytes(std::span(&length, 1)));
    if (length > safetensors_max_header)
        throw parse_error("its header length is " + std::to_string(length) + ", the limit is " +
                              std::to_string(safetensors_max_header) + " bytes",
                          {path, {}, {}, {}});
    if (length > size - sizeof length)
        throw parse_error("its header goes past the end of the file: it is cut or damaged, fetch it again",
                          {path, {}, length, size - sizeof length});
    safetensors_header header;
    const std::string text = detail::read_text(source, sizeof length, length);
    if (!text.starts_with('{')) throw parse_error("its header does not begin with '{'", {path, {}, {}, {}});
    const json_value root = parse_json(text, path, 8);
    std::vector<metadata_entry> entries;
    for (const json_member& member : root.object()) {
        if (member.key != "__metadata__") {
            header.tensors.push_back(detail::read_safetensor(member, path));
            continue;
        }
        if (!member.value.is(json_kind::object)) throw parse_error("__metadata__ is no object", {path, {}, {}, {}});
        for (const json_member& item : member.value.object()) {
            if (!item.value.is(json_kind::string))
                throw parse_error("the metadata key \"" + item.key + "\" is no string", {path, {}, {}, {}});
            entries.push_back({item.key, item.value.as_string()});
        }
    }
    header.metadata = model_metadata(std::move(entries), path);
    detail::place_safetensors(header.tensors, sizeof length + length, size, path);
    return header;
}

/// Opens a file, or an index (a JSON text with "weight_map") and all shards that it names, which must lie beside it.
/// Each tensor of the map must be in the shard named there; further tensors of the shards are listed too. Throws as
/// read_safetensors_header does; io_error with the path of a missing shard.
///
///     tern::safetensors_set model = tern::read_safetensors("model.safetensors.index.json");
template <class Open = detail::open_file> safetensors_set read_safetensors(const std::string& path, Open open = {}) {
    safetensors_set set;
    std::unique_ptr<byte_source> source = open(path);
    std::byte first[8] = {std::byte{1}, {}, {}, {}, std::byte{1}};
    if (source->size() >= sizeof first) read_exact(*source, 0, first);
    if (first[0] != std::byte{'{'} || detail::is_safetensors(first)) {
        safetensors_header header = read_safetensors_header(*source);
        set.shards.push_back(std::move(source));
        set.metadata = std::move(header.metadata);
        set.tensors = std::move(header.tensors);
        return set;
    }
    if (source->size() > safetensors_max_header)
        throw parse_error("is too long for an index", {path, {}, source->size(), safetensors_max_header});
    const json_value index = parse_json(detail::read_text(*source, 0, source->size()), path, 8);
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    const std::vector<std::string> names = detail::shard_names(index, path);
    std::vector<metadata_entry> entries;
    if (const json_value* metadata = index.find("metadata"); metadata && metadata->is(json_kind::object))
        for (const json_member& item : metadata->object())
            if (auto value = detail::to_metadata(item.value)) entries.push_back({item.key, std::move(*value)});
    set.metadata = model_metadata(entries, path);
    for (std::uint32_t shard = 0; shard < names.size(); ++shard) {
        set.shards.push_back(open(folder + names[shard]));
        safetensors_header header = read_safetensors_header(*set.shards.back());
        if (shard == 0) {
            const std::span<const metadata_entry> more = header.metadata.entries();
            std::copy_if(more.begin(), more.end(), std::back_inserter(entries),
                         [&](const metadata_entry& entry) { return !set.metadata.contains(entry.key); });
            set.metadata = model_metadata(std::move(entries), path);
        }
        for (stored_tensor& tensor : header.tensors) {
            tensor.shard = shard;
            set.tensors.push_back(std::move(tensor));
        }
    }
    detail::check_unique_names(set.shards, set.tensors);
    std::vector<std::pair<std::string_view, std::uint32_t>> found;
    for (const stored_tensor& tensor : set.tensors) found.emplace_back(tensor.name, tensor.shard);
    std::sort(found.begin(), found.end());
    for (const json_member& member : index.at("weight_map").object()) {
        const auto name = std::lower_bound(names.begin(), names.end(), member.value.as_string());
        const std::pair entry(std::string_view(member.key), static_cast<std::uint32_t>(name - names.begin()));
        if (!std::binary_search(found.begin(), found.end(), entry))
            throw parse_error("is not in its shard \"" + *name + "\"", {path, member.key, {}, {}});
    }
    return set;
}

} // namespace tern
