// A machine of round figures and graphs for the tests of costs and of policies that use them.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include <tern/cost/roofline.hpp>
#include <tern/plan/by_tensor.hpp>
#include <tern/plan/pricing.hpp>

#include "support.hpp"

namespace tern::test {

/// Reaches all that the machine promises.
inline constexpr efficiency whole{1, 1, 1, 1, 1, 1, 1};

/// Host memory of 1 GB/s, vram of 10 GB/s, a link of 100 MB/s and 10 us each way, a disk of 50 MB/s. A launch takes 1
/// us on the host and 2 us on the accelerator, whose sync takes 4 us. Arithmetic costs next to nothing.
inline machine timed(bytes vram_budget) {
    machine m = with({}, {1 << 30});
    for (memory_space& s : m.memories) s.bandwidth = bytes_per_second{1e9}, s.bus = "dram";
    m.memories[2].bus = "";
    m.memories.push_back({pinned0, {1 << 30}, {}, true, {}, bytes_per_second{1e9}, "dram"});
    m.memories.push_back({vram0, vram_budget, {}, false, {}, bytes_per_second{1e10}, ""});
    m.processors = {
        {"host", processor_kind::cpu, 0, {pageable0, mapped0, pinned0}, {1e15, 1e15, {}}, seconds{1e-6}, seconds{}},
        {"gpu", processor_kind::accelerator, 0, {vram0}, {1e15, 1e15, {}}, seconds{2e-6}, seconds{4e-6}}};
    for (const location& l : {pageable0, mapped0, pinned0})
        m.links.push_back({l, vram0, bytes_per_second{1e8}, seconds{1e-5}, "down"});
    m.links.push_back({vram0, pageable0, bytes_per_second{1e8}, seconds{1e-5}, "up"});
    m.links.push_back({direct0, pageable0, bytes_per_second{5e7}, seconds{}, "disk"});
    return m;
}

/// A decoder of random sizes: an embedding, layers of a norm, two matrices, attention, a matrix, a sum, a norm, a pair
/// or a mixture, a sum; then an output, which may be the embedding.
inline graph random_graph(std::mt19937& random, std::size_t layers) {
    const auto size = [&](std::uint64_t most) { return 4 * (1 + random() % (most / 4)); };
    const auto matrix = [&](graph& g, const std::string& name, std::size_t experts = 1) {
        const std::size_t t = add(g, name, size(400'000), anywhere(), experts);
        g.tensors[t].shape = {16, 1 + random() % 4000, experts};
        return t;
    };
    graph g;
    const std::size_t table = add(g, "table", size(1'000'000), anywhere());
    g.nodes.push_back({"embed", {table}, 1, 256, 0});
    for (std::size_t i = 0; i < layers; ++i) {
        const std::string blk = std::to_string(i) + ".";
        g.nodes.push_back({"rms_norm", {add(g, blk + "norm", 64, anywhere())}, 1, 256, 0, i});
        g.nodes.push_back({"linear", {matrix(g, blk + "q")}, 1, 256, 0, i});
        g.nodes.push_back({"attention", {}, 1, 256, 0, i});
        g.nodes.push_back({"linear", {matrix(g, blk + "o")}, 1, 256, 0, i});
        g.nodes.push_back({"add", {}, 1, 256, 0, i});
        if (random() % 2 == 0) {
            const std::size_t gate = matrix(g, blk + "gate");
            g.nodes.push_back({"gated_linear", {gate, matrix(g, blk + "up")}, 1, 512, 0, i});
        } else {
            g.nodes.push_back({"route", {matrix(g, blk + "router")}, 1, 8, 0, i});
            const std::size_t gate = matrix(g, blk + "gate", 8);
            g.nodes.push_back({"experts", {gate, matrix(g, blk + "up", 8), matrix(g, blk + "down", 8)}, 1, 256, 2, i});
        }
        g.nodes.push_back({"add", {}, 1, 256, 0, i});
    }
    g.nodes.push_back({"linear", {random() % 2 == 0 ? table : matrix(g, "output")}, 1, 500, 0});
    if (random() % 4 == 0) g.tensors[random() % g.tensors.size()].allowed = {tier_of<mapped>};
    return g;
}

/// A mixture of many layers: attention of four matrices with norms of heads, a router, 128 experts, a shared expert.
/// About 60 GB.
inline graph deep_mixture(std::size_t layers) {
    graph g;
    const auto matrix = [&](const std::string& name, std::size_t rows, std::size_t cols, std::size_t experts = 1) {
        const std::size_t t = add(g, name, rows * cols / 2, anywhere(), experts);
        g.tensors[t].shape = {rows, cols, experts};
        g.tensors[t].format = "q4_0";
        return t;
    };
    const std::size_t width = 2048;
    g.nodes.push_back({"embed", {matrix("table", 150'000, width)}, 1, width});
    for (std::size_t i = 0; i < layers; ++i) {
        const std::string blk = std::to_string(i) + ".";
        const auto call = [&](const char* op, std::vector<std::size_t> tensors, std::size_t cols,
                              std::size_t active = 0) {
            g.nodes.push_back({op, std::move(tensors), 1, cols, active, i});
        };
        call("rms_norm", {matrix(blk + "norm", 1, width)}, width);
        call("linear", {matrix(blk + "q", 4096, width)}, 4096);
        call("linear", {matrix(blk + "k", 512, width)}, 512);
        call("linear", {matrix(blk + "v", 512, width)}, 512);
        call("rms_norm", {matrix(blk + "q_norm", 1, 128)}, 4096);
        call("rms_norm", {matrix(blk + "k_norm", 1, 128)}, 512);
        call("attention", {}, 4096);
        call("linear", {matrix(blk + "o", width, 4096)}, width);
        call("add", {}, width);
        call("rms_norm", {matrix(blk + "ffn_norm", 1, width)}, width);
        call("route", {matrix(blk + "router", 128, width)}, 128);
        const std::size_t gate = matrix(blk + "gate", 1280, width, 128);
        const std::size_t up = matrix(blk + "up", 1280, width, 128);
        call("experts", {gate, up, matrix(blk + "down", width, 1280, 128)}, width, 8);
        const std::size_t shared = matrix(blk + "shared_gate", 1024, width);
        call("gated_linear", {shared, matrix(blk + "shared_up", 1024, width)}, 1024);
        call("linear", {matrix(blk + "shared_down", width, 1024)}, width);
        call("add", {}, width);
        call("add", {}, width);
    }
    g.nodes.push_back({"linear", {matrix("output", 150'000, width)}, 1, 150'000});
    return g;
}

/// A machine of random speeds, where switches matter.
inline machine random_machine(std::mt19937& random, bytes vram_budget) {
    machine m = timed(vram_budget);
    const auto scale = [&] { return 0.25 + 4 * static_cast<double>(random() % 1000) / 1000; };
    for (link& l : m.links) {
        l.bandwidth = bytes_per_second{l.bandwidth->count * scale()};
        l.latency = seconds{l.latency->count * scale()};
    }
    m.processors[1].sync = seconds{1e-5 * scale()};
    m.memories.back().bandwidth = bytes_per_second{2e9 * scale()}; // may be slower than the host's
    return m;
}

/// Single tokens or eight, with either engine's habits.
inline chain_options any_options(std::mt19937& random) {
    chain_options o;
    o.how.shape.tokens = random() % 3 == 0 ? 8 : 1;
    if (random() % 2 == 0) o.how.shape.habits = fused_engine;
    return o;
}

} // namespace tern::test
