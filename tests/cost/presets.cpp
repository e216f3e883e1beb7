#include <tern/cost/presets.hpp>

#include <cstddef>
#include <string>

#include <doctest/doctest.h>

#include <tern/cost/machine_json.hpp>

namespace {

const tern::location vram0{tern::tier_of<tern::vram>, 0, 0};
const tern::location ram{tern::tier_of<tern::pageable>, 0, 0};

} // namespace

TEST_CASE("cost/presets: each is a sound machine that says all but what its sheets leave out") {
    for (const char* name : {"rtx3060_laptop", "rtx4090_64g", "rtx6000_ada_nvme", "h100", "h200", "cpu2"}) {
        CAPTURE(name);
        const tern::machine m = tern::machines::named(name).value();
        CHECK(m.name == name);
        tern::detail::check_machine(m, name);
        CHECK(m.processors.at(0).kind == tern::processor_kind::cpu);
        for (const tern::processor& p : m.processors) {
            CHECK(p.rates.f32.has_value());
            CHECK(p.rates.f16.has_value());
            CHECK(p.launch.has_value());
            CHECK(p.sync.has_value());
        }
        for (const tern::link& l : m.links) {
            CHECK(l.bandwidth.has_value());
            CHECK(l.latency.has_value());
            CHECK(!l.bus.empty());
        }
        for (const tern::memory_space& s : m.memories) CHECK(s.bandwidth.has_value());
        for (const tern::tier_info& t : {tern::tier_of<tern::pageable>, tern::tier_of<tern::pinned>,
                                         tern::tier_of<tern::mapped>, tern::tier_of<tern::direct>})
            CHECK(m.memory_at({t, 0, 0}) != nullptr);
        CHECK((m.memory_at(vram0) == nullptr) == (std::string(name) == "cpu2"));
    }
    CHECK(!tern::machines::named("rtx5090"));
}

TEST_CASE("cost/presets: figures of the sheets, converted by hand") {
    const tern::machine laptop = tern::machines::rtx3060_laptop();
    CHECK(laptop.processors[0].rates.f32 == doctest::Approx(588.8e9));
    CHECK(laptop.processors[1].rates.f32 == doctest::Approx(10.944e12));
    CHECK(laptop.processors[1].rates.f16 == doctest::Approx(21.888e12));
    CHECK(laptop.processors[1].rates.int8 == doctest::Approx(87.552e12));
    CHECK(laptop.memory_at(vram0)->budget.count == std::uint64_t{6} << 30);
    CHECK(laptop.memory_at(vram0)->bandwidth->count == doctest::Approx(336e9));
    CHECK(laptop.link_between(ram, vram0)->bandwidth->count == doctest::Approx(31.508e9).epsilon(1e-4));
    CHECK(tern::machines::rtx4090_64g().memory_at(ram)->capacity->count == std::uint64_t{64} << 30);
    CHECK(tern::machines::h100().link_between(ram, vram0)->bandwidth->count == doctest::Approx(63.02e9).epsilon(1e-4));
    CHECK(tern::machines::h200().memory_at(ram)->bandwidth->count == doctest::Approx(614.4e9));
    CHECK(tern::machines::h200().processors[1].rates.f16 == doctest::Approx(989.5e12));
    CHECK(tern::machines::cpu2().processors[0].rates.f32 == doctest::Approx(153.6e9));
    CHECK(!tern::machines::cpu2().processors[0].rates.int8);
}
