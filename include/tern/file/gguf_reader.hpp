// Reads the header of one GGUF file (versions 2 and 3) from a byte_source, and trusts none of it.
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

#include <tern/base/checked.hpp>
#include <tern/base/error.hpp>
#include <tern/file/gguf_cursor.hpp>
#include <tern/file/gguf_value.hpp>
#include <tern/file/metadata.hpp>
#include <tern/format/gguf_types.hpp>
#include <tern/memory/file_handle.hpp>

namespace tern {

/// A tensor as GGUF lists it. `dims[0]` is contiguous: the row length.
struct gguf_tensor {
    std::string name{};
    std::vector<std::uint64_t> dims{};
    std::uint32_t type = 0;
    std::string_view format{}; ///< name of the type, e.g. "q4_0"
    std::uint32_t shard = 0;   ///< file of a split set, from 0
    std::uint64_t offset = 0;  ///< from the begin of that file
    std::uint64_t bytes = 0;
};

/// The header of one file.
struct gguf_header {
    std::uint32_t version = 3;
    std::uint32_t alignment = 32;
    std::uint64_t data_offset = 0; ///< where tensor data begins
    model_metadata metadata{};
    std::vector<gguf_tensor> tensors{}; ///< in file order
};

namespace detail {

inline gguf_value_type read_gguf_value_type(gguf_cursor& in) {
    const auto id = in.number<std::uint32_t>("a value type");
    if (id >= gguf_value_type_count) in.fail("a metadata value has the unknown type id " + std::to_string(id));
    return static_cast<gguf_value_type>(id);
}

/// Bools are stored as a byte; anything but 0 and 1 is no bool.
inline void check_bools(const gguf_cursor& in, std::span<const std::byte> raw) {
    for (const std::byte b : raw)
        if (b > std::byte{1}) in.fail("a bool is neither 0 nor 1");
}

inline gguf_array read_gguf_array(gguf_cursor& in, const gguf_limits& limits, std::uint32_t depth) {
    if (depth == limits.array_depth)
        in.fail("arrays are nested more than " + std::to_string(limits.array_depth) + " deep");
    gguf_array array;
    array.element = read_gguf_value_type(in);
    const auto count = in.number<std::uint64_t>("an array length");
    // A string takes at least its length, an inner array its type and length.
    const std::size_t each = array.element == gguf_value_type::string  ? 8
                             : array.element == gguf_value_type::array ? 12
                                                                       : size_of(array.element);
    in.expect(count, each, "an array");
    if (array.element == gguf_value_type::string) {
        in.charge(count * sizeof(std::string)); // cannot overflow: count is bounded by the file
        array.strings.reserve(static_cast<std::size_t>(count));
        for (std::uint64_t i = 0; i < count; ++i) array.strings.push_back(in.string(~std::uint64_t{0}, "a string"));
    } else if (array.element == gguf_value_type::array) {
        for (std::uint64_t i = 0; i < count; ++i) {
            in.charge(2 * sizeof(gguf_array));
            array.arrays.push_back(read_gguf_array(in, limits, depth + 1));
        }
    } else {
        in.charge(count * each);
        array.packed.resize(static_cast<std::size_t>(count * each));
        in.read(array.packed, "an array");
        if (array.element == gguf_value_type::boolean) check_bools(in, array.packed);
    }
    return array;
}

template <class T> gguf_value read_gguf_number(gguf_cursor& in) { return in.number<T>("a metadata value"); }

inline gguf_value read_gguf_value(gguf_cursor& in, const gguf_limits& limits) {
    switch (read_gguf_value_type(in)) {
    case gguf_value_type::uint8: return read_gguf_number<std::uint8_t>(in);
    case gguf_value_type::int8: return read_gguf_number<std::int8_t>(in);
    case gguf_value_type::uint16: return read_gguf_number<std::uint16_t>(in);
    case gguf_value_type::int16: return read_gguf_number<std::int16_t>(in);
    case gguf_value_type::uint32: return read_gguf_number<std::uint32_t>(in);
    case gguf_value_type::int32: return read_gguf_number<std::int32_t>(in);
    case gguf_value_type::uint64: return read_gguf_number<std::uint64_t>(in);
    case gguf_value_type::int64: return read_gguf_number<std::int64_t>(in);
    case gguf_value_type::float32: return read_gguf_number<float>(in);
    case gguf_value_type::float64: return read_gguf_number<double>(in);
    case gguf_value_type::boolean: {
        const std::byte raw[] = {in.number<std::byte>("a metadata value")};
        check_bools(in, raw);
        return raw[0] != std::byte{0};
    }
    case gguf_value_type::string: return in.string(~std::uint64_t{0}, "a string");
    case gguf_value_type::array: return read_gguf_array(in, limits, 0);
    }
    in.fail("a metadata value has no type");
}

/// Size in bytes of a tensor, with every product checked.
inline std::uint64_t gguf_tensor_bytes(const gguf_cursor& in, const gguf_tensor& tensor, const gguf_type_info& format) {
    std::uint64_t elements = 1;
    for (const std::uint64_t dim : tensor.dims) {
        const auto product = try_mul(elements, std::max<std::uint64_t>(dim, 1));
        if (!product || *product >> 63 != 0) in.fail("its shape has more elements than 63 bits can count", tensor.name);
        elements = *product;
    }
    for (const std::uint64_t dim : tensor.dims)
        if (dim == 0) elements = 0;
    const std::uint64_t row = tensor.dims.empty() ? 1 : tensor.dims[0];
    if (row % format.block_size != 0)
        in.fail("its row length " + std::to_string(row) + " is not a multiple of " + std::to_string(format.block_size) +
                    ", the block size of " + std::string(format.name),
                tensor.name);
    const auto size = try_mul<std::uint64_t>(elements / format.block_size, format.block_bytes);
    if (!size) in.fail("its size in bytes does not fit in 64 bits", tensor.name);
    return *size;
}

/// One tensor info; the offset is still relative to the data.
inline gguf_tensor read_gguf_tensor(gguf_cursor& in, const gguf_limits& limits) {
    gguf_tensor tensor;
    tensor.name = in.string(limits.name_length, "a tensor name");
    if (tensor.name.empty()) in.fail("a tensor has no name");
    const auto rank = in.number<std::uint32_t>("a number of dimensions");
    if (rank > 4) in.fail("it has " + std::to_string(rank) + " dimensions, at most 4 are allowed", tensor.name);
    for (std::uint32_t d = 0; d < rank; ++d) tensor.dims.push_back(in.number<std::uint64_t>("a dimension"));
    tensor.type = in.number<std::uint32_t>("a tensor type");
    const gguf_type_info* format = find_gguf_type(tensor.type);
    if (!format) in.fail("its type id " + std::to_string(tensor.type) + " is unknown", tensor.name);
    tensor.format = format->name;
    tensor.bytes = gguf_tensor_bytes(in, tensor, *format);
    tensor.offset = in.number<std::uint64_t>("a tensor offset");
    return tensor;
}

inline std::uint32_t gguf_alignment(const model_metadata& metadata, const gguf_limits& limits,
                                    const std::string& path) {
    const auto alignment = metadata.try_get<std::uint32_t>("general.alignment").value_or(32);
    if (alignment < limits.min_alignment || alignment > limits.max_alignment || (alignment & (alignment - 1)) != 0)
        throw parse_error("general.alignment is " + std::to_string(alignment) + ", allowed are powers of two from " +
                              std::to_string(limits.min_alignment) + " to " + std::to_string(limits.max_alignment),
                          {path, {}, {}, {}});
    return alignment;
}

/// Makes offsets absolute and holds each tensor against the file and against its neighbours.
inline void place_gguf_tensors(gguf_header& header, std::uint64_t file_size, const std::string& path) {
    for (gguf_tensor& tensor : header.tensors) {
        if (tensor.offset % header.alignment != 0)
            throw parse_error("its offset " + std::to_string(tensor.offset) + " is not a multiple of the alignment " +
                                  std::to_string(header.alignment),
                              {path, tensor.name, {}, {}});
        const auto begin = try_add(header.data_offset, tensor.offset);
        const auto end = begin ? try_add(*begin, tensor.bytes) : std::nullopt;
        if (!end)
            throw parse_error("its offset " + std::to_string(tensor.offset) + " and size " +
                                  std::to_string(tensor.bytes) + " overflow",
                              {path, tensor.name, {}, file_size});
        if (*end > file_size && tensor.bytes > 0)
            throw parse_error("its data goes past the end of the file: it is cut or damaged, fetch it again",
                              {path, tensor.name, *end, file_size});
        tensor.offset = *begin;
    }
    std::vector<const gguf_tensor*> order;
    for (const gguf_tensor& tensor : header.tensors)
        if (tensor.bytes > 0) order.push_back(&tensor);
    std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
    for (std::size_t i = 1; i < order.size(); ++i)
        if (order[i]->offset - order[i - 1]->offset < order[i - 1]->bytes)
            throw parse_error("its data overlaps that of \"" + order[i - 1]->name + "\"",
                              {path, order[i]->name, {}, {}});
}

} // namespace detail

/// Reads header, metadata and tensor infos, no tensor data. Requires general.alignment, where given, to be a power of
/// two from 8 to 2 MiB; tensor offsets to be multiples of it; tensors to lie in the file and not to overlap (gaps are
/// allowed, and a tensor without elements lies anywhere). Memory is bounded by a small multiple of what the file holds.
/// Throws parse_error, unsupported_error (version 1, big-endian), io_error.
///
///     tern::file_source file("model.gguf");
///     tern::gguf_header header = tern::read_gguf_header(file);
inline gguf_header read_gguf_header(byte_source& source, const gguf_limits& limits = {}) {
    detail::gguf_cursor in(source, limits);
    const std::string& path = source.path();
    char magic[4];
    in.read(std::as_writable_bytes(std::span(magic)), "the magic");
    if (std::string_view(magic, 4) != "GGUF")
        throw parse_error("is no GGUF file: it begins with other bytes", {path, {}, {}, {}});
    gguf_header header;
    header.version = in.number<std::uint32_t>("the version");
    if ((header.version & 0xffff) == 0 && header.version != 0)
        throw unsupported_error("is a big-endian file; convert it to little-endian", {path, {}, {}, {}});
    if (header.version != 2 && header.version != 3)
        throw unsupported_error("is GGUF version " + std::to_string(header.version) +
                                    ", supported are 2 and 3; convert it again",
                                {path, {}, {}, {}});
    const auto tensor_count = in.number<std::uint64_t>("the number of tensors");
    const auto key_count = in.number<std::uint64_t>("the number of metadata keys");
    in.expect(tensor_count, 24, "the list of tensors"); // name length, rank, type, offset
    in.expect(key_count, 13, "the metadata");           // key length, type, one byte

    std::vector<metadata_entry> entries;
    for (std::uint64_t i = 0; i < key_count; ++i) {
        in.charge(2 * sizeof(metadata_entry));
        metadata_entry entry{in.string(limits.key_length, "a metadata key"), {}};
        if (entry.key.empty()) in.fail("a metadata key is empty");
        entry.value = detail::read_gguf_value(in, limits);
        entries.push_back(std::move(entry));
    }
    header.metadata = model_metadata(std::move(entries), path);
    header.alignment = detail::gguf_alignment(header.metadata, limits, path);

    for (std::uint64_t i = 0; i < tensor_count; ++i) {
        in.charge(2 * sizeof(gguf_tensor) + 64);
        header.tensors.push_back(detail::read_gguf_tensor(in, limits));
    }
    const auto begin = try_round_up<std::uint64_t>(in.position(), header.alignment);
    if (!begin) in.fail("the header is too long");
    header.data_offset = *begin;
    detail::place_gguf_tensors(header, source.size(), path);
    return header;
}

} // namespace tern
