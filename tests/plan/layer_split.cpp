#include <tern/plan/layer_split.hpp>

#include <cstddef>
#include <string>

#include <doctest/doctest.h>

#include "support.hpp"

namespace test = tern::test;
using namespace tern::literals;

namespace {

const tern::machine plenty = test::with({1 << 20});

std::string layer_of(const std::string& tensor) { return tensor.substr(0, tensor.find('.')); }

} // namespace

TEST_CASE("plan/layer_split: the last layers and the output go, tables and the layers before stay") {
    tern::graph g = test::layers();
    g.nodes.back().tensors = {test::add(g, "output", 2000, test::anywhere())};
    for (const std::size_t n : {0u, 1u, 2u, 3u, 4u, 1000u}) {
        CAPTURE(n);
        const tern::placement p = tern::layer_split{.layers = n}.place(g, plenty);
        CHECK(test::sound(p, g, plenty));
        CHECK(p.policy == "layer_split");
        CHECK(p.pools.empty());
        for (std::size_t i = 0; i < g.tensors.size(); ++i) {
            const std::string layer = layer_of(g.tensors[i].name);
            CAPTURE(layer);
            const bool chosen = layer == "output" ? n > 0 : layer != "table" && std::stoul(layer) + n >= 3;
            CHECK(p.tensors[i].where == (chosen ? test::vram0 : test::mapped0));
            CHECK(!p.tensors[i].streamed());
        }
    }
    const tern::placement p = tern::layer_split{.layers = 2}.place(g, plenty);
    CHECK(test::of(p, g, "1.up").reason == "layer 1 is one of the last 2");
    CHECK(test::of(p, g, "output").reason == "it follows the layers in vram:0");
}

TEST_CASE("plan/layer_split: a table that is the output too goes with it; the rest lies where it is told to") {
    const tern::graph g = test::layers();
    const tern::placement p = tern::layer_split{.layers = 1, .rest = tern::tier_of<tern::pageable>}.place(g, plenty);
    CHECK(test::of(p, g, "table").where == test::vram0);
    CHECK(test::of(p, g, "1.gate").where == test::pageable0);
    CHECK(test::of(p, g, "2.gate").where == test::vram0);
    CHECK(p.bytes_at(g, test::vram0) == tern::bytes{2000 + 64 + 2000 + 600});
    CHECK(tern::layer_split{.rest = tern::tier_of<tern::pageable>}.place(g, plenty).bytes_at(g, test::pageable0) ==
          g.weight_bytes());
}

TEST_CASE("plan/layer_split: what its type keeps from the device stays behind; where that is all, it is said") {
    tern::graph g = test::layers();
    g.tensors[12].allowed = {tern::tier_of<tern::mapped>}; // the last down
    const tern::placement p = tern::layer_split{.layers = 1}.place(g, plenty);
    CHECK(test::of(p, g, "2.down").where == test::mapped0);
    CHECK(test::of(p, g, "2.up").where == test::vram0);
    for (tern::planned_tensor& t : g.tensors) t.allowed = {tern::tier_of<tern::mapped>};
    try {
        tern::layer_split{.layers = 1}.place(g, plenty);
        FAIL("none of the layer's tensors may go");
    } catch (const tern::config_error& e) { CHECK(std::string(e.what()).find("vram:0") != std::string::npos); }
    CHECK(test::sound(tern::layer_split{}.place(g, plenty), g, plenty)); // nothing was asked for
}

TEST_CASE("plan/layer_split: a graph whose calls belong to no layer is refused, unless nothing is asked for") {
    tern::graph g = test::layers();
    for (tern::graph_node& node : g.nodes) node.layer = tern::graph_node::no_layer;
    CHECK_THROWS_AS(tern::layer_split{.layers = 1}.place(g, plenty), tern::config_error);
    CHECK(tern::layer_split{}.place(g, plenty).bytes_at(g, test::mapped0) == g.weight_bytes());
    CHECK_THROWS_AS(tern::layer_split{.layers = 1}.place({}, plenty), tern::config_error);
}

TEST_CASE("plan/layer_split: a budget one byte short, and a machine without the device, end in the check") {
    const tern::graph g = test::layers();
    const std::uint64_t needed = 2048 + 64 + 2 * 1024 + 640 + 500; // in units of 64, and the activations
    const tern::placement p = tern::layer_split{.layers = 1}.place(g, test::with({needed}));
    CHECK(test::sound(p, g, test::with({needed})));
    try {
        tern::check(tern::layer_split{.layers = 1}.place(g, test::with({needed - 1})), g, test::with({needed - 1}));
        FAIL("it is one byte short");
    } catch (const tern::budget_error& e) {
        CHECK(e.needed() == needed);
        CHECK(e.available() == needed - 1);
        CHECK(std::string(e.what()).find("vram:0") != std::string::npos);
    }
    try {
        tern::check(tern::layer_split{.layers = 1}.place(g, test::with({})), g, test::with({}));
        FAIL("there is no accelerator");
    } catch (const tern::config_error& e) {
        CHECK(!e.tensor().empty());
        CHECK(std::string(e.what()).find("vram:0") != std::string::npos);
    }
}

TEST_CASE("plan/layer_split: as many as fit are all that fit, and one more would not") {
    tern::graph g = test::layers();
    g.nodes.back().tensors = {test::add(g, "output", 2000, test::anywhere())};
    std::size_t most = 0;
    for (std::uint64_t vram = 0; vram < 20'000; vram += 64) {
        CAPTURE(vram);
        const tern::machine m = test::with({vram});
        const tern::placement p = tern::layer_split{.layers = tern::layer_split::as_many_as_fit}.place(g, m);
        CHECK(test::sound(p, g, m));
        std::size_t n = 0;
        while (n < 3 && [&] {
            const tern::placement more = tern::layer_split{.layers = n + 1}.place(g, m);
            std::uint64_t rounding = 0;
            for (std::size_t t = 0; t < g.tensors.size(); ++t)
                if (more.tensors[t].where == test::vram0) rounding += 64 * g.tensors[t].shape.experts;
            return more.bytes_at(g, test::vram0).count + rounding <= tern::weight_room(g, m, test::vram0).count;
        }())
            ++n;
        const tern::placement expected = tern::layer_split{.layers = n}.place(g, m);
        for (std::size_t t = 0; t < g.tensors.size(); ++t) CHECK(p.tensors[t].where == expected.tensors[t].where);
        most = n > most ? n : most;
    }
    CHECK(most == 3);
    const tern::machine tight = test::with({8000}).with_reserved(test::vram0, 8000_B);
    CHECK(tern::layer_split{.layers = tern::layer_split::as_many_as_fit}.place(g, tight).bytes_at(g, test::vram0) ==
          0_B);
}
