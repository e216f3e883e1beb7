// A model file opened: its tensors, metadata and bytes, whatever container they come in. No tensor data is read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/base/checked.hpp>
#include <tern/base/error.hpp>
#include <tern/file/metadata.hpp>
#include <tern/file/stored_tensor.hpp>
#include <tern/memory/file_handle.hpp>
#include <tern/memory/mapped_file.hpp>

namespace tern {

/// An open model: tensors by name, metadata, and the sources of the bytes. Move-only; references and spans that it
/// gives stay valid through a move and die with it. Const members may be called from several threads.
///
///     tern::checkpoint model = tern::open_checkpoint("model.gguf");
///     const tern::stored_tensor& embedding = model.at("token_embd.weight");
///     bool tied = model.find("output.weight") == nullptr;
class checkpoint {
public:
    /// Requires every tensor to lie in its shard, and unique names: readers check that before.
    checkpoint(std::string container, std::vector<std::unique_ptr<byte_source>> shards,
               std::vector<stored_tensor> tensors, model_metadata metadata)
        : container_(std::move(container)), shards_(std::move(shards)), tensors_(std::move(tensors)),
          metadata_(std::move(metadata)), maps_(std::make_unique<maps>()) {
        maps_->files.resize(shards_.size());
        order_.resize(tensors_.size());
        for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = i;
        std::sort(order_.begin(), order_.end(),
                  [&](std::size_t a, std::size_t b) { return tensors_[a].name < tensors_[b].name; });
    }

    /// "gguf" or "safetensors".
    std::string_view container() const noexcept { return container_; }
    /// Path of the first shard.
    const std::string& path() const noexcept { return shards_.front()->path(); }
    const model_metadata& metadata() const noexcept { return metadata_; }
    /// All tensors, in file order.
    std::span<const stored_tensor> tensors() const noexcept { return tensors_; }

    /// The tensor of a name in any shard, or null.
    const stored_tensor* find(std::string_view name) const noexcept {
        const auto at = std::lower_bound(order_.begin(), order_.end(), name, [&](std::size_t i, std::string_view n) {
            return std::string_view(tensors_[i].name) < n;
        });
        return at != order_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
    }
    /// The tensor of a name; throws parse_error with the name and the file where there is none.
    const stored_tensor& at(std::string_view name) const {
        if (const stored_tensor* tensor = find(name)) return *tensor;
        throw parse_error("is not in the file", {path(), std::string(name), {}, {}});
    }

    /// The position of the tensor's format in a list such as tern::all_formats. Throws unsupported_error with tensor
    /// and format where the list lacks it: such a tensor is listed, and cannot be computed with.
    template <class Formats> std::size_t format_index(const stored_tensor& tensor) const {
        const std::size_t index = Formats::index_of_name(tensor.format);
        if (index < Formats::size) return index;
        throw unsupported_error("has the format " + std::string(tensor.format) +
                                    ", for which there is no implementation here; convert it to another",
                                {path_of(tensor), tensor.name, {}, {}});
    }

    std::size_t shard_count() const noexcept { return shards_.size(); }
    /// Where the bytes of a shard come from; throws shape_error where there is no such shard.
    byte_source& source(std::uint32_t shard) const {
        if (shard >= shards_.size())
            throw shape_error("there is no shard " + std::to_string(shard), {path(), {}, {}, {}});
        return *shards_[shard];
    }

    /// All bytes of a shard, mapped at the first call (see mapped_file on files that shrink) or where they are in
    /// memory already. Throws io_error; unsupported_error where the source is no file.
    std::span<const std::byte> mapping(std::uint32_t shard) const {
        const byte_source& from = source(shard);
        if (from.descriptor() < 0 && (from.size() == 0 || !from.resident().empty())) return from.resident();
        const std::lock_guard lock(maps_->mutex);
        std::optional<mapped_file>& map = maps_->files[shard];
        if (!map) map.emplace(from);
        return map->bytes();
    }
    /// The bytes of a tensor in its mapping. Throws like mapping.
    std::span<const std::byte> mapped(const stored_tensor& tensor) const {
        if (tensor.bytes == 0) return {};
        const std::span<const std::byte> all = mapping(tensor.shard);
        const auto end = try_add(tensor.offset, tensor.bytes);
        if (!end || *end > all.size())
            throw io_error("does not lie in its file", {path_of(tensor), tensor.name, end, all.size()});
        return all.subspan(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.bytes));
    }
    /// Reads a tensor into memory of exactly its size. Throws shape_error on another size, io_error.
    void read(const stored_tensor& tensor, std::span<std::byte> into) const {
        if (into.size() != tensor.bytes)
            throw shape_error("is read into memory of another size",
                              {path_of(tensor), tensor.name, tensor.bytes, into.size()});
        if (!into.empty()) read_exact(source(tensor.shard), tensor.offset, into);
    }

private:
    const std::string& path_of(const stored_tensor& tensor) const { return source(tensor.shard).path(); }

    struct maps {
        std::mutex mutex{};
        std::vector<std::optional<mapped_file>> files{};
    };
    std::string container_;
    std::vector<std::unique_ptr<byte_source>> shards_;
    std::vector<stored_tensor> tensors_;
    model_metadata metadata_;
    std::vector<std::size_t> order_{};
    std::unique_ptr<maps> maps_;
};

} // namespace tern
