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
    CHECK(has("0.gate  f32     1000 B      vram:0    fits into what was left of vram:0\n"));
    CHECK(has("1.gate  f32     1000 B      mapped    its group needs 2.1 KiB, "));
    CHECK(has("vram:0: 2.1 KiB of weights, budget 2.9 KiB\n"));
    CHECK(has("mapped: "));
    CHECK(has("activations: 400 B at most at once\n"));
}
