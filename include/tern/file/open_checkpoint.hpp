// Opening a model file of any kind.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tern/file/checkpoint.hpp>
#include <tern/file/gguf.hpp>
#include <tern/file/safetensors.hpp>

namespace tern {

/// Opens a GGUF model with all its shards. Throws like read_gguf.
///
///     tern::checkpoint model = tern::open_gguf("model-00001-of-00003.gguf");
template <class Open = detail::open_file>
checkpoint open_gguf(const std::string& path, const gguf_limits& limits = {}, Open open = {}) {
    gguf_set set = read_gguf(path, limits, std::move(open));
    std::vector<stored_tensor> tensors;
    tensors.reserve(set.tensors.size());
    for (gguf_tensor& tensor : set.tensors) {
        std::reverse(tensor.dims.begin(), tensor.dims.end());
        tensors.push_back(
            {std::move(tensor.name), std::move(tensor.dims), tensor.format, tensor.shard, tensor.offset, tensor.bytes});
    }
    return {"gguf", std::move(set.shards), std::move(tensors), std::move(set.metadata)};
}

/// Opens a safetensors file, or the index of a sharded set. Throws like read_safetensors.
///
///     tern::checkpoint model = tern::open_safetensors("model.safetensors.index.json");
template <class Open = detail::open_file> checkpoint open_safetensors(const std::string& path, Open open = {}) {
    safetensors_set set = read_safetensors(path, std::move(open));
    return {"safetensors", std::move(set.shards), std::move(set.tensors), std::move(set.metadata)};
}

/// Opens a model of any kind, told by its first bytes and not by its name. Throws parse_error where it is neither GGUF
/// nor safetensors nor a safetensors index, and what the reader of its kind throws.
///
///     tern::checkpoint model = tern::open_checkpoint(argv[1]);
template <class Open = detail::open_file> checkpoint open_checkpoint(const std::string& path, Open open = {}) {
    std::byte first[8] = {};
    {
        const auto source = open(path);
        read_exact(*source, 0,
                   std::span(first).first(static_cast<std::size_t>(std::min<std::uint64_t>(8, source->size()))));
    }
    if (std::memcmp(first, "GGUF", 4) == 0) return open_gguf(path, {}, std::move(open));
    if (detail::is_safetensors(first) || first[0] == std::byte{'{'}) return open_safetensors(path, std::move(open));
    throw parse_error("is neither a GGUF file nor safetensors nor an index of safetensors", {path, {}, {}, {}});
}

} // namespace tern
