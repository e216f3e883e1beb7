#include <tern/cost/machine.hpp>

#include <doctest/doctest.h>

using namespace tern::literals;

TEST_CASE("cost/machine: a budget is changed where the memory is there, and added where it is not") {
    tern::machine m;
    m.memories = {{{tern::tier_of<tern::vram>, 0, 0}, 8_MiB}, {{tern::tier_of<tern::pageable>, 0, 0}, 1_GiB}};
    const tern::machine less = m.with_budget<tern::vram>(2_MiB);
    CHECK(less.memories.size() == 2);
    CHECK(less.budget_of({tern::tier_of<tern::vram>, 0, 0}) == 2_MiB);
    CHECK(less.budget_of({tern::tier_of<tern::pageable>, 0, 0}) == 1_GiB);
    CHECK(m.budget_of({tern::tier_of<tern::vram>, 0, 0}) == 8_MiB); // the first machine is as it was
    const tern::machine more = m.with_budget<tern::vram>(4_MiB, 1);
    CHECK(more.memories.size() == 3);
    CHECK(more.budget_of({tern::tier_of<tern::vram>, 1, 0}) == 4_MiB);
    CHECK(more.budget_of({tern::tier_of<tern::mapped>, 0, 0}) == 0_B);
}
