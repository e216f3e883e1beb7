// A made-up graph for the tests of placements.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <tern/plan/placement.hpp>

namespace tern::test {

inline const location vram0{tier_of<vram>, 0, 0};
inline const location pageable0{tier_of<pageable>, 0, 0};
inline const location mapped0{tier_of<mapped>, 0, 0};

/// Adds a tensor of a size to a graph.
inline std::size_t add(graph& g, const std::string& name, std::uint64_t size, std::vector<tier_info> allowed,
                       std::size_t experts = 1) {
    planned_tensor t;
    t.name = name;
    t.format = "f32";
    t.shape = {1, static_cast<std::size_t>(size / 4), experts};
    t.first = static_cast<slice_id>(g.tensors.size());
    t.slice_size = {size};
    t.allowed = std::move(allowed);
    g.tensors.push_back(std::move(t));
    return g.tensors.size() - 1;
}

/// embed, then three layers of a norm (64 bytes), a pair gate and up (1000 each) and a down (600), then the output,
/// which is the embedding.
inline graph layers() {
    graph g;
    const std::vector<tier_info> anywhere{tier_of<vram>, tier_of<pageable>, tier_of<mapped>};
    const std::size_t table = add(g, "table", 2000, anywhere);
    g.nodes.push_back({"embed", {table}, 1, 500, 0});
    for (int i = 0; i < 3; ++i) {
        const std::string blk = std::to_string(i) + ".";
        g.nodes.push_back({"rms_norm", {add(g, blk + "norm", 64, anywhere)}, 1, 16, 0});
        const std::size_t gate = add(g, blk + "gate", 1000, anywhere);
        g.nodes.push_back({"gated_linear", {gate, add(g, blk + "up", 1000, anywhere)}, 1, 16, 0});
        g.nodes.push_back({"linear", {add(g, blk + "down", 600, anywhere)}, 1, 16, 0});
    }
    g.nodes.push_back({"linear", {table}, 1, 500, 0});
    g.activation_peak = {400};
    return g;
}

inline machine with(bytes vram_budget) {
    machine m;
    m.memories = {{pageable0, {1 << 20}}, {mapped0, unlimited}, {vram0, vram_budget}};
    return m;
}

} // namespace tern::test
