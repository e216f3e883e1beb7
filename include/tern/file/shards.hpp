// What the readers of sharded models share: how a shard is opened, and the check that names are unique over all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/memory/file_handle.hpp>

namespace tern::detail {

/// The default way to open a shard.
struct open_file {
    std::unique_ptr<byte_source> operator()(const std::string& path) const {
        return std::make_unique<file_source>(path);
    }
};

/// A name must be unique over all shards.
template <class Tensor>
void check_unique_names(const std::vector<std::unique_ptr<byte_source>>& shards, const std::vector<Tensor>& tensors) {
    std::vector<const Tensor*> order;
    order.reserve(tensors.size());
    for (const Tensor& tensor : tensors) order.push_back(&tensor);
    std::sort(order.begin(), order.end(),
              [](auto* a, auto* b) { return a->name != b->name ? a->name < b->name : a->shard < b->shard; });
    for (std::size_t i = 1; i < order.size(); ++i)
        if (order[i - 1]->name == order[i]->name)
            throw parse_error(order[i - 1]->shard == order[i]->shard
                                  ? std::string("is listed twice")
                                  : "is listed twice, first in " + shards[order[i - 1]->shard]->path(),
                              {shards[order[i]->shard]->path(), order[i]->name, {}, {}});
}

} // namespace tern::detail
