#include <tern/plan/work.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace test = tern::test;

namespace {

/// One layer of width 8, hidden 24, two heads of keys: q 8, k and v 4 wide, in 2 bytes a number.
tern::graph layer() {
    tern::graph g;
    const auto matrix = [&](const char* name, std::size_t rows, std::size_t cols, std::size_t experts = 1) {
        const std::size_t t = test::add(g, name, 2 * rows * cols, test::anywhere(), experts);
        g.tensors[t].shape = {rows, cols, experts};
        g.tensors[t].format = "f16";
        return t;
    };
    g.nodes.push_back({"rope_angles", {}, 3, 4});
    g.nodes.push_back({"embed", {matrix("table", 100, 8)}, 3, 8});
    g.nodes.push_back({"rms_norm", {matrix("norm", 1, 8)}, 3, 8, 0, 0});
    g.nodes.push_back({"linear", {matrix("q", 8, 8)}, 3, 8, 0, 0});
    g.nodes.push_back({"linear", {matrix("k", 4, 8)}, 3, 4, 0, 0});
    g.nodes.push_back({"linear", {matrix("v", 4, 8), matrix("v.bias", 1, 4)}, 3, 4, 0, 0});
    g.nodes.push_back({"rope", {}, 3, 8, 0, 0});
    g.nodes.push_back({"attention", {}, 3, 8, 0, 0});
    g.nodes.push_back({"linear", {matrix("o", 8, 8)}, 3, 8, 0, 0});
    g.nodes.push_back({"add", {}, 3, 8, 0, 0});
    g.nodes.push_back({"rms_norm", {matrix("norm2", 1, 8)}, 3, 8, 0, 0});
    g.nodes.push_back({"route", {matrix("router", 6, 8)}, 3, 6, 0, 0});
    g.nodes.push_back(
        {"experts", {matrix("gate", 24, 8, 6), matrix("up", 24, 8, 6), matrix("down", 8, 24, 6)}, 3, 8, 2, 0});
    g.nodes.push_back({"gated_linear", {matrix("sgate", 24, 8), matrix("sup", 24, 8)}, 3, 24, 0, 0});
    g.nodes.push_back({"linear", {matrix("sdown", 8, 24)}, 3, 8, 0, 0});
    g.nodes.push_back({"add", {}, 3, 8, 0, 0});
    g.nodes.push_back({"select_rows", {}, 1, 8});
    g.nodes.push_back({"linear", {matrix("output", 100, 8)}, 1, 100});
    return g;
}

tern::run work(const tern::graph& g, std::size_t node, const tern::run_shape& how) {
    const double rows = tern::detail::rows_of(g.nodes[node], tern::detail::recorded_tokens(g, how), how.tokens);
    return tern::work_of(g, g.nodes[node], rows, how, 1);
}

} // namespace

TEST_CASE("plan/work: bytes and operations of each call, by hand for five tokens") {
    const tern::graph g = layer();
    const tern::run_shape how{.tokens = 5, .context = 10, .cache_per_token = {16}};
    tern::run r = work(g, 1, how); // embed: five rows of 16 bytes
    CHECK(r.weights.count == 80);
    CHECK(r.other.count == 5 * 8 * 4);
    CHECK(r.operations == 0);
    CHECK(r.format == "f16");
    r = work(g, 2, how); // norm
    CHECK(r.weights.count == 16);
    CHECK(r.other.count == 5 * 16 * 4);
    CHECK(r.operations == 4 * 5 * 8);
    r = work(g, 4, how); // k
    CHECK(r.op == "linear");
    CHECK(r.weights.count == 64);
    CHECK(r.other.count == 5 * (8 + 4) * 4);
    CHECK(r.operations == 2 * 5 * 32);
    CHECK(r.tokens == 5);
    CHECK(r.calls == 1);
    CHECK(r.launches == 1);
    CHECK(work(g, 5, how).launches == 2); // its bias is decoded
    r = work(g, 7, how);                  // attention: each query sees ten and on average three more
    CHECK(r.weights.count == 0);
    CHECK(r.format.empty());
    CHECK(r.operations == 4 * 5 * 13 * 8);
    CHECK(r.other.count == 5 * 16 * 4 + 15 * 16);
    CHECK(work(g, 9, how).other.count == 5 * 24 * 4); // add reads two and writes one
    CHECK(work(g, 6, how).other.count == 5 * 16 * 4);
    r = work(g, 13, how); // gate and up
    CHECK(r.weights.count == 2 * 2 * 24 * 8);
    CHECK(r.operations == 2 * 5 * 2 * 24 * 8);
    CHECK(r.launches == 3);
    CHECK(work(g, 17, how).tokens == 1); // of the chosen rows
    tern::run_shape fused = how;
    fused.habits = tern::fused_engine;
    CHECK(work(g, 13, fused).launches == 1);
}

TEST_CASE("plan/work: experts by those that are touched") {
    const tern::graph g = layer();
    tern::run_shape how{.tokens = 5};
    tern::run r = tern::work_of_experts(g, g.nodes[12], 4, 10, how);
    CHECK(r.calls == 4);
    CHECK(r.tokens == 2.5);
    CHECK(r.launches == 4); // three products, and gate times up
    CHECK(r.weights.count == 4 * 3 * 2 * 24 * 8);
    CHECK(r.operations == 2 * 10 * 3 * 24 * 8);
    CHECK(r.other.count == 10 * 3 * (24 + 8) * 4);
    how.habits.fused = true;
    CHECK(tern::work_of_experts(g, g.nodes[12], 4, 10, how).launches == 0.5); // two kernels for all four
    CHECK(tern::work_of_experts(g, g.nodes[12], 0, 0, how).weights.count == 0);
}

TEST_CASE("plan/work: rows follow the tokens, apart from those that were chosen") {
    const tern::graph g = layer();
    CHECK(tern::detail::recorded_tokens(g, {}) == 3);
    CHECK(tern::detail::recorded_tokens(g, {.recorded = 7}) == 7);
    CHECK(tern::detail::rows_of(g.nodes[3], 3, 64) == 64);
    CHECK(tern::detail::rows_of(g.nodes[17], 3, 64) == 1);
    CHECK(tern::detail::rows_of(g.nodes[3], 3, 1) == 1);
    CHECK(tern::detail::recorded_tokens({}, {}) == 1);
}

TEST_CASE("plan/work: the flow of activations of a layer") {
    const tern::graph g = layer();
    using seat = tern::node_flow::seat;
    const std::vector<tern::node_flow> f = tern::flow_of(g, tern::engine_habits{true, true, true, false});
    const std::size_t none = tern::node_flow::none;
    const std::size_t sources[] = {none, none, 1, 2, 2, 2, 5, 6, 7, 8, 9, 10, 10, 10, 13, 14, 15, 16};
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
        CAPTURE(i);
        CHECK(f[i].source == sources[i]);
    }
    CHECK(f[7].operands == 3);
    CHECK(f[7].width == 8 + 4 + 4);
    CHECK(f[7].at == seat::host);
    CHECK(f[9].at == seat::residual);
    CHECK(f[9].operands == 1);
    CHECK(f[12].at == seat::host);
    CHECK(f[14].at == seat::weights);
    CHECK(f[14].width == 24);
    CHECK(f[6].at == seat::follows);
    CHECK(f[1].operands == 0);
    const std::vector<tern::node_flow> fused = tern::flow_of(g, tern::fused_engine);
    CHECK(fused[7].at == seat::follows);
    CHECK(fused[9].at == seat::follows);
    CHECK(fused[12].at == seat::weights);
    CHECK(fused[0].at == seat::host);
}
