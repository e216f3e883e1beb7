#include <tern/plan/all_cpu.hpp>

#include <doctest/doctest.h>

#include "support.hpp"

namespace test = tern::test;

TEST_CASE("plan/all_cpu: the wished tier, else the first host tier, else an error with the tensor's name") {
    tern::graph g = test::layers();
    g.tensors[1].allowed = {tern::tier_of<tern::vram>, tern::tier_of<tern::pageable>};
    tern::placement p = tern::all_cpu{}.place(g, test::with({}));
    CHECK(p.tensors[0].where == test::mapped0);
    CHECK(p.tensors[1].where == test::pageable0);
    CHECK(!p.tensors[1].reason.empty());
    p = tern::all_cpu{tern::tier_of<tern::pageable>}.place(g, test::with({}));
    for (const tern::placed_tensor& t : p.tensors) CHECK(t.where == test::pageable0);
    g.tensors[2].allowed = {tern::tier_of<tern::vram>};
    try {
        tern::all_cpu{}.place(g, test::with({}));
        FAIL("it is allowed on the device alone");
    } catch (const tern::config_error& e) { CHECK(e.tensor() == g.tensors[2].name); }
}
