#include <tern/cost/machine.hpp>

#include <optional>
#include <string>

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

TEST_CASE("cost/machine: processors, links and memories are found by where they are") {
    const tern::location ram{tern::tier_of<tern::pageable>, 0, 0};
    const tern::location vram{tern::tier_of<tern::vram>, 0, 0};
    tern::machine m;
    m.memories = {{ram, 1_GiB}, {vram, 8_MiB}};
    m.processors = {{"host", tern::processor_kind::cpu, 0, {ram}, {}, {}, {}},
                    {"gpu", tern::processor_kind::accelerator, 0, {vram}, {.f16 = 1e12}, {}, {}}};
    m.links = {{ram, vram, 12_GBps, tern::seconds{1e-6}, "pcie"}};
    CHECK(m.processor_at(ram)->name == "host");
    CHECK(m.processor_at(vram) == m.processor_named("gpu"));
    CHECK(m.processor_at({tern::tier_of<tern::vram>, 1, 0}) == nullptr);
    CHECK(m.processor_named("npu") == nullptr);
    CHECK(m.link_between(ram, vram) == &m.links[0]);
    CHECK(m.link_between(vram, ram) == nullptr);
    CHECK(m.memory_at(vram)->budget == 8_MiB);
    CHECK(m.memory_at({tern::tier_of<tern::mapped>, 0, 0}) == nullptr);
    CHECK(m.processors[1].rates.of(tern::number_kind::f16) == 1e12);
    CHECK(!m.processors[1].rates.of(tern::number_kind::f32));
    CHECK(!m.processors[1].rates.of(tern::number_kind::int8));
    const tern::machine fast = m.with_link_bandwidth(tern::tier_of<tern::pageable>, tern::tier_of<tern::vram>, 24_GBps);
    CHECK(fast.links[0].bandwidth == 24_GBps);
    CHECK(m.links[0].bandwidth == 12_GBps);
}

TEST_CASE("cost/machine: what is unknown is an error that says what") {
    CHECK(tern::known(std::optional<int>(3), "it") == 3);
    try {
        tern::known(std::optional<int>{}, "the launch of gpu");
        FAIL("it is unknown");
    } catch (const tern::config_error& e) {
        CHECK(std::string(e.what()).find("does not say the launch of gpu") != std::string::npos);
    }
}
