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
inline const location pinned0{tier_of<pinned>, 0, 0};
inline const location mapped0{tier_of<mapped>, 0, 0};
inline const location direct0{tier_of<direct>, 0, 0};

/// Adds a tensor of a size to a graph.
inline std::size_t add(graph& g, const std::string& name, std::uint64_t size, std::vector<tier_info> allowed,
                       std::size_t experts = 1) {
    planned_tensor t;
    t.name = name;
    t.format = "f32";
    t.shape = {1, static_cast<std::size_t>(size / 4), experts};
    if (!g.tensors.empty()) t.first = g.tensors.back().first + static_cast<slice_id>(g.tensors.back().shape.experts);
    t.slice_size = {size};
    t.allowed = std::move(allowed);
    g.tensors.push_back(std::move(t));
    return g.tensors.size() - 1;
}

inline std::vector<tier_info> anywhere() {
    return {tier_of<vram>, tier_of<pinned>, tier_of<pageable>, tier_of<mapped>, tier_of<direct>};
}

/// embed, then three layers of a norm (64 bytes), a pair gate and up (1000 each) and a down (600), then the output,
/// which is the embedding.
inline graph layers() {
    graph g;
    const std::size_t table = add(g, "table", 2000, anywhere());
    g.nodes.push_back({"embed", {table}, 1, 500, 0});
    for (std::size_t i = 0; i < 3; ++i) {
        const std::string blk = std::to_string(i) + ".";
        g.nodes.push_back({"rms_norm", {add(g, blk + "norm", 64, anywhere())}, 1, 16, 0, i});
        const std::size_t gate = add(g, blk + "gate", 1000, anywhere());
        g.nodes.push_back({"gated_linear", {gate, add(g, blk + "up", 1000, anywhere())}, 1, 16, 0, i});
        g.nodes.push_back({"linear", {add(g, blk + "down", 600, anywhere())}, 1, 16, 0, i});
    }
    g.nodes.push_back({"linear", {table}, 1, 500, 0});
    g.activation_peak = {400};
    return g;
}

/// A table that is only looked up (64 KiB), two layers of a norm (256 bytes), a router (4 KiB) and eight experts of
/// three matrices (16 KiB each), then an output (64 KiB).
inline graph mixture() {
    constexpr std::uint64_t kib = 1024;
    graph g;
    g.nodes.push_back({"embed", {add(g, "table", 64 * kib, anywhere())}, 1, 500, 0});
    for (std::size_t i = 0; i < 2; ++i) {
        const std::string blk = std::to_string(i) + ".";
        g.nodes.push_back({"rms_norm", {add(g, blk + "norm", 256, anywhere())}, 1, 16, 0, i});
        g.nodes.push_back({"route", {add(g, blk + "router", 4 * kib, anywhere())}, 1, 8, 0, i});
        std::vector<std::size_t> parts;
        for (const char* part : {"gate", "up", "down"}) parts.push_back(add(g, blk + part, 16 * kib, anywhere(), 8));
        g.nodes.push_back({"experts", parts, 1, 16, 2, i});
    }
    g.nodes.push_back({"linear", {add(g, "output", 64 * kib, anywhere())}, 1, 500, 0});
    g.activation_peak = {400};
    return g;
}

inline machine with(bytes vram_budget, bytes ram_budget = {1 << 20}) {
    machine m;
    m.memories = {{pageable0, ram_budget, {}}, {mapped0, unlimited, {}}, {direct0, unlimited, {}}};
    if (vram_budget.count != 0) m.memories.push_back({vram0, vram_budget, {}});
    return m;
}

/// What weights and pools take of a memory never exceeds its room, streamed slices fit their pools, and each decision
/// has a reason.
inline bool sound(const placement& p, const graph& g, const machine& m) {
    check(p, g, m);
    for (const memory_space& memory : m.memories) {
        if (memory.budget == unlimited) continue;
        if (p.bytes_at(g, memory.where) + p.pool_at(memory.where) > memory.room()) return false;
    }
    for (const placed_tensor& t : p.tensors)
        if (t.reason.empty()) return false;
    return true;
}

/// The placed tensor of a name.
inline const placed_tensor& of(const placement& p, const graph& g, const std::string& name) {
    std::size_t i = 0;
    while (g.tensors.at(i).name != name) ++i;
    return p.tensors[i];
}

} // namespace tern::test
