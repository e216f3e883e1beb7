#include <tern/plan/explain.hpp>

#include <string>

#include <doctest/doctest.h>

#include <tern/plan/first_fit.hpp>

#include "support.hpp"

namespace test = tern::test;

TEST_CASE("plan/explain: a line for each tensor, then each memory and the activations") {
    const tern::graph g = test::layers();
    const tern::machine m = test::with({3000});
    const std::string text = tern::explain(tern::first_fit{}.place(g, m), g, m);
    CAPTURE(text);
    const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
    CHECK(has("policy first_fit\n"));
    for (const tern::planned_tensor& t : g.tensors) CHECK(has("\n" + t.name + " "));
    CHECK(has("0.gate  f32     1000 B      vram:0              fits into what was left of vram:0\n"));
    CHECK(has("1.gate  f32     1000 B      mapped              its group needs 2.1 KiB, "));
    CHECK(has("vram:0: 2.1 KiB of weights, budget 2.9 KiB\n"));
    CHECK(has("mapped: "));
    CHECK(has("activations: 400 B at most at once\n"));
    // Two norms, a gate and an up, 2128 bytes, of 9992.
    CHECK(text.ends_with("\nin short: mapped 7.7 KiB, vram:0 2.1 KiB of 2.9 KiB\n"));
}

TEST_CASE("plan/explain: streamed weights show where from and where to; pools and what is reserved are named") {
    const tern::graph g = test::layers();
    tern::placement p{"mine", {}, {}};
    for (std::size_t i = 0; i < g.tensors.size(); ++i)
        p.tensors.push_back({test::direct0, "it streams", test::vram0, tern::retention::drop});
    p.tensors[1] = {test::vram0, "it stays", {}};
    p.pools.push_back({.where = test::vram0, .limit = {4096}});
    const std::string text = tern::explain(p, g, test::with({10240}).with_reserved(test::vram0, {2048}));
    CAPTURE(text);
    const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
    CHECK(has("0.gate  f32     1000 B      direct -> vram:0    it streams\n"));
    CHECK(has("0.norm  f32     64 B        vram:0              it stays\n"));
    CHECK(has("vram:0: 64 B of weights, 4.0 KiB of room for others on their way, 2.0 KiB reserved, budget 10.0 KiB\n"));
}

TEST_CASE("plan/explain: the last line counts weights, pools, what is reserved, and locked memory as RAM") {
    const tern::graph g = test::layers();
    const tern::location locked{tern::tier_of<tern::pinned>};
    const tern::location ram{tern::tier_of<tern::pageable>};
    tern::placement p{"mine", {}, {}};
    for (std::size_t i = 0; i < g.tensors.size(); ++i) p.tensors.push_back({locked, "it is locked", {}});
    p.pools.push_back({.where = ram, .limit = {1024}});
    tern::machine m;
    m.memories = {{ram, {65536}, {2048}}, {test::vram0, {4096}}, {locked, tern::unlimited, {}, true}};
    const std::string weights = to_string(g.weight_bytes());
    const std::string all = to_string(tern::bytes{g.weight_bytes().count + 1024 + 2048});
    CHECK(tern::explain(p, g, m).ends_with("\nin short: pageable " + all + " of 64.0 KiB, pinned " + weights + "\n"));

    // A pool without a limit is not a number of bytes.
    p.pools[0].limit = tern::unlimited;
    m.memories = {{ram, tern::unlimited}};
    const std::string text = tern::explain(p, g, m);
    CAPTURE(text);
    CHECK(text.find("pageable: 0 B of weights, room for others on their way without limit\n") != text.npos);
    CHECK(text.ends_with("\nin short: nothing\n"));
}
