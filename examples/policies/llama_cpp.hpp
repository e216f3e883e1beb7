// llama.cpp: whole layers on the accelerator, the others on the host.
//
// Source: github.com/ggml-org/llama.cpp, the number of layers on the GPU, and the offload of single operators from 32
// tokens on (GGML_OP_OFFLOAD_MIN_BATCH). Differences: the number of layers is the largest that fits, by bytes, where
// there it is given or fitted; uploads come ahead of their uses, where there each waits for the one before and for the
// computation; of experts those that the batch chose come; keys and values stay on the host.
#pragma once

#include "system.hpp"

namespace systems {

struct llama_cpp {
    static constexpr std::string_view name = "llama.cpp";
    static constexpr std::string_view does =
        "the last layers in vram, the first on the host; from 32 tokens on the first are uploaded for each use";

    tern::tiered_placement place(const setting& s) const {
        const tern::layer_upload split{.rest = s.rest};
        tern::tiered_placement plans;
        for (const std::size_t most : {split.least_tokens - 1, any_number})
            plans.tiers.push_back({most, split.place_for(most, s.graph, s.machine), {}, {}});
        return plans;
    }
};

} // namespace systems
