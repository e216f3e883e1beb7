#include <tern/profile/calls.hpp>

#include <doctest/doctest.h>

namespace {

/// Two layers of a norm, a matrix and an addition, and an output of one row.
tern::graph two_layers() {
    tern::graph g;
    const auto tensor = [&](std::string name, std::string_view format, std::size_t rows, std::size_t cols,
                            std::uint64_t size) {
        tern::planned_tensor t;
        t.name = std::move(name);
        t.format = format;
        t.shape = {rows, cols, 1};
        t.slice_size = {size};
        g.tensors.push_back(std::move(t));
        return g.tensors.size() - 1;
    };
    g.nodes.push_back({"embed", {tensor("table", "f32", 100, 16, 6400)}, 8, 16});
    for (int l = 0; l < 2; ++l) {
        g.nodes.push_back({"rms_norm", {tensor("norm", "f32", 1, 16, 64)}, 8, 16});
        g.nodes.push_back({"linear", {tensor("w", "f16", 24, 16, 768)}, 8, 24});
        g.nodes.push_back({"add", {}, 8, 24});
    }
    g.nodes.push_back({"linear", {tensor("out", "f16", 24, 16, 768)}, 1, 24});
    return g;
}

} // namespace

TEST_CASE("profile/calls: calls of a kind are one, and count; one of fewer rows is another") {
    const tern::graph g = two_layers();
    const auto kinds = tern::kinds_of(g);
    REQUIRE(kinds.size() == 5);
    CHECK(kinds[0].op == "embed");
    CHECK(kinds[0].times == 1);
    CHECK(kinds[1].op == "rms_norm");
    CHECK(kinds[1].times == 2);
    CHECK(kinds[2].op == "linear");
    CHECK(kinds[2].times == 2);
    CHECK(kinds[2].in == 16);
    CHECK(kinds[2].out == 24);
    CHECK(kinds[2].most == 0);
    CHECK(kinds[2].weights == std::vector<tern::call_weight>{{"f16", 24, 16}});
    CHECK(kinds[3].op == "add");
    CHECK(kinds[4].op == "linear");
    CHECK(kinds[4].most == 1);
    CHECK(kinds[4].node == 7);
}

TEST_CASE("profile/calls: a router knows how many experts its tokens go to") {
    tern::graph g = two_layers();
    g.nodes[2].op = "route";
    g.nodes[3].active = 3;
    CHECK(tern::kinds_of(g)[2].used == 3);
}

TEST_CASE("profile/calls: sizes are those that a cost model is asked about") {
    const tern::graph g = two_layers();
    const auto kinds = tern::kinds_of(g);
    CHECK(tern::sample_size(tern::run_of(g, kinds[2], 5, {})) == 768);        // weights, however many tokens
    CHECK(tern::sample_size(tern::run_of(g, kinds[3], 5, {})) == 3 * 24 * 4); // bytes of each token
    CHECK(tern::sample_size(tern::run_of(g, kinds[0], 5, {})) == 5 * 16 * 4); // rows that are read
}
