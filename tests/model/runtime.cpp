#include <tern/model/runtime.hpp>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/plan/first_fit.hpp>

#include <support/data.hpp>
#include <support/model.hpp>

namespace test = tern::test;
using namespace tern::literals;

TEST_CASE("model/runtime: what it is made of follows the options") {
    tern::runtime plain({.threads = 1, .ram = 5_MiB});
    CHECK(plain.accelerator() == nullptr);
    CHECK(plain.devices().size() == 1);
    CHECK(plain.cpu().workers() == 1);
    CHECK(plain.machine().budget_of({tern::tier_of<tern::pageable>, 0, 0}) == 5_MiB);
    CHECK(plain.machine().budget_of({tern::tier_of<tern::mapped>, 0, 0}) == tern::unlimited);
    CHECK(plain.machine().budget_of({tern::tier_of<tern::vram>, 0, 0}) == 0_B);
    CHECK_THROWS_AS(plain.ram().allocate(6_MiB, "too much"), tern::budget_error);

    tern::runtime both({.threads = 3, .vram = 2_MiB});
    REQUIRE(both.accelerator() != nullptr);
    CHECK(both.devices().size() == 2);
    CHECK(both.devices()[1] == both.accelerator());
    CHECK(both.cpu().workers() == 3);
    CHECK(both.machine().budget_of({tern::tier_of<tern::vram>, 0, 0}) == 2_MiB);
    CHECK(both.ctx().recording() == nullptr);
    CHECK(&both.ctx().host() == &both.cpu());
    CHECK(tern::runtime({}).cpu().workers() >= 1);
}

TEST_CASE(
    "model/runtime: load refuses what does not fit before it moves anything, and a new load gives the old one up") {
    test::model m(test::source_file("tests/data/logits/llama_tied.gguf"), {.threads = 1, .vram = 4_MiB});
    const tern::graph g = m.record();
    const tern::location vram{tern::tier_of<tern::vram>, 0, 0};
    const tern::location pageable{tern::tier_of<tern::pageable>, 0, 0};
    tern::placement p = tern::first_fit{}.place(g, m.run().machine());
    m.run().load(p, g);
    CHECK(m.run().accelerator()->memory().budget().used() >= p.bytes_at(g, vram));
    m.place(std::vector<tern::location>(g.tensors.size(), pageable));
    CHECK(m.run().accelerator()->memory().budget().used() == 0_B);
    CHECK(m.run().ram().budget().used() >= g.weight_bytes());
    p.tensors.pop_back();
    CHECK_THROWS_AS(m.run().load(p, g), tern::config_error);
    test::model none(test::source_file("tests/data/logits/llama_tied.gguf"), {.threads = 1});
    CHECK_THROWS_AS(none.place(std::vector<tern::location>(g.tensors.size(), vram)), tern::config_error);
}
