// What a model file says about one tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// A tensor as it is stored. Any known format can be listed; what can be computed is for its user to say.
struct stored_tensor {
    std::string name{};
    std::vector<std::uint64_t> shape{}; ///< outermost first: {rows, cols} or {experts, rows, cols}
    std::string_view format{};          ///< "q4_0", "f32", ...
    std::uint32_t shard = 0;
    std::uint64_t offset = 0; ///< from the begin of the shard's file, of any alignment
    std::uint64_t bytes = 0;
};

} // namespace tern
