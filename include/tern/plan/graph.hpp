// The graph of a model: the operator calls of one run, recorded by running the decoder with a recording context.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tern/base/units.hpp>
#include <tern/memory/tier.hpp>
#include <tern/tensor/shape.hpp>
#include <tern/tensor/tensor.hpp>

namespace tern {

/// A weight as the plan sees it: its slices, their bytes, and where its type allows it.
struct planned_tensor {
    std::string name{};
    std::string_view format{};
    tensor_shape shape{};
    slice_id first = 0; ///< slices [first, first + shape.experts)
    bytes slice_size{}; ///< of each
    std::vector<tier_info> allowed{};
    move_function move = nullptr; ///< how its type moves it
    std::size_t ahead = 0;        ///< slices that its transfer wants brought beforehand

    bool allows(const tier_info& tier) const noexcept {
        for (const tier_info& t : allowed)
            if (t == tier) return true;
        return false;
    }
    bytes size() const { return slice_size * shape.experts; }
};

/// One operator call. The tensors that it reads together are a fusion group.
struct graph_node {
    std::string_view op{};
    std::vector<std::size_t> tensors{}; ///< indices into graph::tensors
    std::size_t rows = 0;               ///< tokens in
    std::size_t cols = 0;               ///< width out
    std::size_t active = 0;             ///< experts that a token uses; 0 where all weights are used
    std::size_t layer = no_layer;       ///< of the decoder; no_layer before the first and after the last

    static constexpr std::size_t no_layer = static_cast<std::size_t>(-1);
};

/// Everything that a placement needs to know about a decoder.
struct graph {
    std::vector<planned_tensor> tensors{}; ///< in the order of their first use
    std::vector<graph_node> nodes{};       ///< in the order of the calls
    bytes activation_peak{};               ///< bytes that pools of activations take, for the recorded batch

    /// Where the activations of a run need room, with a quarter more for batches of other sizes.
    bytes activation_room() const { return {checked_add(activation_peak.count, activation_peak.count / 4)}; }

    bytes weight_bytes() const {
        bytes sum{};
        for (const planned_tensor& t : tensors) sum += t.size();
        return sum;
    }
};

} // namespace tern
