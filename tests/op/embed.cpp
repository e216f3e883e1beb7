#include <tern/op/embed.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace test = tern::test;

TEST_CASE("op/embed: rows of a table in the plain format or a user's own, on either device, times a scale") {
    test::bench b;
    const std::vector<float> table = test::numbers(8 * 16);
    const std::vector<std::int32_t> tokens{7, 0, 7};
    for (const bool own : {false, true}) {
        const test::op_weight w =
            own ? b.weight<own::halves>(table, {8, 16}, "t") : b.weight<tern::f32>(table, {8, 16}, "t");
        for (tern::device* on : {static_cast<tern::device*>(&b.cpu), static_cast<tern::device*>(&b.gpu)}) {
            b.put(w, *on);
            const std::vector<float> x = b.values(tern::embed(b.ctx, w, tokens, 2));
            REQUIRE(x.size() == 3 * 16);
            for (std::size_t i = 0; i < x.size(); ++i)
                CHECK(x[i] == 2 * table[static_cast<std::size_t>(tokens[i / 16]) * 16 + i % 16]);
        }
    }
}

TEST_CASE("op/embed: a token that the vocabulary does not have is named, with its index and the table") {
    test::bench b;
    const test::op_weight w = b.weight({8, 16}, "token_embd.weight");
    for (const std::int32_t bad : {8, -1, 0x7fffffff}) {
        const std::vector<std::int32_t> tokens{1, bad};
        const std::string text = test::text_of<tern::shape_error>([&] { b.loop.run(tern::embed(b.ctx, w, tokens)); });
        CHECK(test::has(text, "token " + std::to_string(bad)));
        CHECK(test::has(text, "index 1"));
        CHECK(test::has(text, "token_embd.weight"));
    }
}

TEST_CASE("op/embed: the recorded shape is the computed one") {
    test::bench b;
    const test::op_weight w = b.weight({8, 16}, "t");
    const std::vector<std::int32_t> tokens{1, 2, 3};
    const tern::activation x = b.loop.run(tern::embed(b.recording, w, tokens));
    CHECK(x.rows() == 3);
    CHECK(x.cols() == 16);
    const tern::graph g = std::move(b.notes).finish({});
    REQUIRE(g.nodes.size() == 1);
    CHECK(g.nodes[0].op == "embed");
    CHECK(g.tensors[0].name == "t");
}
