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

TEST_CASE("cost/machine: what is reserved is no room, and unlimited memory stays so") {
    const tern::location vram{tern::tier_of<tern::vram>, 0, 0};
    const tern::location ram{tern::tier_of<tern::pageable>, 0, 0};
    tern::machine m;
    m.memories = {{vram, 8_MiB, {}}, {ram, tern::unlimited, {}}};
    CHECK(m.room_at(vram) == 8_MiB);
    CHECK(m.room_at({tern::tier_of<tern::vram>, 1, 0}) == 0_B);
    const tern::machine less = m.with_reserved(vram, 3_MiB).with_reserved(vram, 1_MiB).with_reserved(ram, 5_GiB);
    CHECK(less.room_at(vram) == 4_MiB);
    CHECK(less.budget_of(vram) == 8_MiB);
    CHECK(less.room_at(ram) == tern::unlimited);
    CHECK(less.with_budget<tern::vram>(5_MiB).room_at(vram) == 1_MiB); // the reserve stays with another budget
    CHECK(less.with_reserved(vram, 5_MiB).room_at(vram) == 0_B);
    CHECK(less.with_reserved({tern::tier_of<tern::vram>, 1, 0}, 1_MiB).memories.size() == 2); // nothing to reserve of
    CHECK(m.room_at(vram) == 8_MiB);
}
