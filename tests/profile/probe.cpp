#include <tern/memory/heap_arena.hpp>
#include <tern/profile/probe.hpp>

#include <cmath>
#include <fstream>
#include <vector>

#include <doctest/doctest.h>

#include "support/data.hpp"
#include <tern/cost/fingerprint.hpp>
#include <tern/cost/machine_json.hpp>
#include <tern/cost/roofline.hpp>
#include <tern/device/cpu.hpp>
#include <tern/memory/pread_reader.hpp>

using namespace tern::literals;

namespace {

const tern::location ram{tern::tier_of<tern::pageable>, 0, 0};
const tern::location vram{tern::tier_of<tern::vram>, 0, 0};
const tern::location file{tern::tier_of<tern::direct>, 0, 0};
const tern::location map{tern::tier_of<tern::mapped>, 0, 0};

struct parts {
    tern::run_loop home;
    tern::heap_arena memory{tern::unlimited};
    tern::cpu_device cpu{memory, 1};
    tern::emulated_device gpu;
    std::vector<tern::device*> devices{&cpu, &gpu};
    tern::machine budgets;

    explicit parts(tern::emulated_options o) : gpu(o) {
        budgets.memories = {{ram, 1_GiB}, {map, tern::unlimited}, {file, tern::unlimited}, {vram, o.capacity}};
    }
};

} // namespace

TEST_CASE("profile/probe: a machine is described without any figure, links between its memories") {
    parts p({.capacity = 1_MiB});
    const tern::machine m = tern::describe_machine(std::span<tern::device* const>(p.devices), p.budgets);
    REQUIRE(m.processors.size() == 2);
    CHECK(m.processors[0].computes_from(ram));
    CHECK(m.processors[0].computes_from(map));
    CHECK_FALSE(m.processors[0].computes_from(file));
    CHECK(m.processors[0].name.find(", 1 workers, ") != std::string::npos);
    CHECK(m.processors[1].computes_from(vram));
    for (const auto& [from, to] : {std::pair(ram, vram), {map, vram}, {vram, ram}, {file, ram}})
        CHECK(m.link_between(from, to) != nullptr);
    CHECK(m.link_between(file, map) == nullptr);
    CHECK(m.link_between(ram, vram)->bus != m.link_between(vram, ram)->bus);
    CHECK_FALSE(m.link_between(ram, vram)->bandwidth);
    CHECK_THROWS_AS(tern::describe_machine({}, p.budgets), tern::config_error);
}

TEST_CASE("profile/probe: another emulated accelerator is another machine, another budget is not") {
    const auto print = [](tern::emulated_options o) {
        parts p(o);
        return tern::fingerprint(tern::describe_machine(std::span<tern::device* const>(p.devices), p.budgets));
    };
    const std::string one = print({.capacity = 1_MiB});
    CHECK(print({.capacity = 2_MiB}) == one);
    CHECK(print({.capacity = 1_MiB, .bandwidth = {1e9}}) != one);
    CHECK(print({.capacity = 1_MiB, .latency = {1e-3}}) != one);
    CHECK(print({.capacity = 1_MiB, .launch = {1e-3}}) != one);
    CHECK(print({.capacity = 1_MiB, .memory = {1e9}}) != one);
    CHECK(print({.capacity = 1_MiB, .operations = 1e9}) != one);
    CHECK(print({.capacity = 1_MiB, .slowdown = 2}) != one);
}

TEST_CASE("profile/probe: what is measured stays within what the accelerator is told to be") {
    parts p({.capacity = 1_MiB,
             .bandwidth = {50e6},
             .latency = {1e-3},
             .launch = {2e-3},
             .memory = {100e6},
             .operations = 1e8});
    const auto name = std::string(TERN_SOURCE_DIR) + "/examples/data/tiny.gguf";
    tern::file_source source(name);
    tern::pread_reader reader;
    const tern::probed got = tern::probe(p.home, std::span<tern::device* const>(p.devices), p.budgets,
                                         {.each = {0.005}, .memory = 4_MiB, .disk = &reader, .file = &source});
    const tern::machine& m = got.here;
    const tern::processor& gpu = m.processors[1];
    CHECK(gpu.launch->count >= 2e-3); // by deadline: never sooner
    CHECK(m.memory_at(vram)->bandwidth->count <= 100e6);
    CHECK(m.link_between(ram, vram)->latency->count >= 1e-3);
    CHECK(m.link_between(vram, ram)->latency->count >= 1e-3);
    CHECK(m.memory_at(ram)->bandwidth->count > 0);
    CHECK(got.one_worker.count > 0);
    CHECK(m.link_between(file, ram)->bandwidth->count > 0);
    CHECK(m.memory_at(file)->bandwidth->count > 0);
    REQUIRE(got.busy.size() == 6); // two directions beside three things
    for (const tern::busy_link& b : got.busy) {
        CAPTURE(b.beside);
        CHECK(b.bandwidth.count > 0);
        CHECK(std::isfinite(b.bandwidth.count));
    }
    CHECK(got.busy[0].beside == "the other direction");
    CHECK(got.busy[1].beside == "reads of memory");
    CHECK(got.busy[2].beside == "the disk");
    // Nothing is unknown that a roofline asks for, and it reads back.
    const tern::machine again = tern::parse_machine(tern::to_json(m));
    CHECK(tern::fingerprint(again) == tern::fingerprint(m));
    const tern::roofline cost(again);
    CHECK(cost.price(tern::move{ram, vram, 1_MiB}).count > 0);
    CHECK(cost.price(tern::run{.op = "linear",
                               .format = "f32",
                               .processor = gpu.name,
                               .reads = vram,
                               .weights = 1_MiB,
                               .operations = 1})
              .count > 0);
    CHECK(p.gpu.memory().budget().used() == 0_B);
}
