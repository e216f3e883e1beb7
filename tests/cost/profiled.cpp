#include <tern/cost/profiled.hpp>

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace tern::literals;

namespace {

const tern::location ram{tern::tier_of<tern::pageable>, 0, 0};
const tern::location vram0{tern::tier_of<tern::vram>, 0, 0};
const tern::location vram1{tern::tier_of<tern::vram>, 1, 0};

tern::machine two() {
    tern::machine m;
    m.memories = {{ram, 1_GiB}, {vram0, 8_MiB}, {vram1, 8_MiB}};
    m.processors = {{"host", tern::processor_kind::cpu, 0, {ram}, {}, {}, {}}};
    m.links = {{ram, vram0, {}, {}, "pcie"}, {ram, vram1, {}, {}, "pcie"}};
    return m;
}

tern::profile measured() {
    tern::profile p;
    p.machine = tern::fingerprint(two());
    p.launches = {{"host", {10e-6}}};
    // Out of order on purpose. 1000 bytes: flat to 8 tokens, then rising; 3000 bytes likewise.
    p.runs = {{"linear", "q8_0", "host", 8, 1000, {30e-6}},   {"linear", "q8_0", "host", 1, 1000, {30e-6}},
              {"linear", "q8_0", "host", 16, 1000, {50e-6}},  {"linear", "q8_0", "host", 1, 3000, {70e-6}},
              {"linear", "q8_0", "host", 16, 3000, {130e-6}}, {"linear", "q8_0", "host", 8, 3000, {70e-6}},
              {"add", "", "host", 4, 100, {12e-6}},           {"add", "", "host", 8, 100, {14e-6}}};
    p.moves = {{ram, vram0, tern::cargo::weights, 1000_B, 0, {20e-6}},
               {ram, vram0, tern::cargo::weights, 3000_B, 0, {40e-6}},
               {ram, vram0, tern::cargo::weights, 1000_B, 1, {35e-6}},
               {ram, vram0, tern::cargo::activations, 1000_B, 0, {25e-6}}};
    return p;
}

tern::run linear(double tokens, std::uint64_t size, double calls = 1) {
    return {.op = "linear",
            .format = "q8_0",
            .processor = "host",
            .reads = ram,
            .tokens = tokens,
            .calls = calls,
            .weights = {size}};
}

double us(tern::seconds t) { return t.count * 1e6; }

template <class F> std::string refused(F f) {
    try {
        f();
        return "it is accepted";
    } catch (const tern::config_error& e) { return e.what(); }
}

} // namespace

TEST_CASE("cost/profiled: what was measured is given back, tokens between are on a straight line") {
    const tern::profiled cost(measured(), two());
    CHECK(us(cost.price(linear(1, 1000))) == doctest::Approx(30));
    CHECK(us(cost.price(linear(16, 1000))) == doctest::Approx(50));
    CHECK(us(cost.price(linear(4, 1000))) == doctest::Approx(30));
    CHECK(us(cost.price(linear(12, 1000))) == doctest::Approx(40));
    CHECK(us(cost.price(linear(32, 1000))) == doctest::Approx(90));  // 2.5 us a token, as from 8 to 16
    CHECK(us(cost.price(linear(0.5, 1000))) == doctest::Approx(30)); // less than the least is as the least
    CHECK(us(cost.price(linear(12, 3000, 3))) == doctest::Approx(120));
}

TEST_CASE("cost/profiled: sizes between are on a straight line, outside the launch stays and the rest is scaled") {
    const tern::profiled cost(measured(), two());
    CHECK(us(cost.price(linear(1, 2000))) == doctest::Approx(50));
    CHECK(us(cost.price(linear(16, 2500))) == doctest::Approx(110));
    CHECK(us(cost.price(linear(1, 6000))) == doctest::Approx(10 + 2 * 60));
    CHECK(us(cost.price(linear(1, 500))) == doctest::Approx(10 + 0.5 * 20));
    CHECK(us(cost.price(linear(1, 0))) == doctest::Approx(10));
    CHECK(us(cost.price(linear(1, 4000, 2))) == doctest::Approx(2 * 50)); // two calls of 2000 bytes
}

TEST_CASE("cost/profiled: operators without weights go by the bytes of a token") {
    const tern::profiled cost(measured(), two());
    const auto add = [](double tokens, std::uint64_t each) {
        return tern::run{.op = "add",
                         .processor = "host",
                         .reads = ram,
                         .tokens = tokens,
                         .other = {static_cast<std::uint64_t>(tokens) * each}};
    };
    CHECK(us(cost.price(add(4, 100))) == doctest::Approx(12));
    CHECK(us(cost.price(add(6, 100))) == doctest::Approx(13));
    CHECK(us(cost.price(add(8, 200))) == doctest::Approx(10 + 2 * 4));
}

TEST_CASE("cost/profiled: one measurement alone is proportional from there on, apart from its launch") {
    tern::profile p = measured();
    p.runs = {{"linear", "q8_0", "host", 4, 1000, {30e-6}}, {"add", "", "host", 1, 8, {4e-6}}};
    p.moves = {{ram, vram0, tern::cargo::weights, 1000_B, 0, {20e-6}}};
    const tern::profiled cost(p, two());
    CHECK(us(cost.price(linear(8, 1000))) == doctest::Approx(10 + 40));
    CHECK(us(cost.price(linear(1, 1000))) == doctest::Approx(30));
    CHECK(us(cost.price(tern::move{ram, vram0, 2000_B})) == doctest::Approx(40));
    // Shorter than a launch: it is never scaled to below.
    CHECK(us(cost.price(tern::run{.op = "add", .processor = "host", .reads = ram, .tokens = 1, .other = 800_B})) ==
          doctest::Approx(4));
}

TEST_CASE("cost/profiled: moves by bytes, what they carry and who shares the bus") {
    const tern::profiled cost(measured(), two());
    CHECK(us(cost.price(tern::move{ram, vram0, 1000_B})) == doctest::Approx(20));
    CHECK(us(cost.price(tern::move{ram, vram0, 10_B})) == doctest::Approx(20));
    CHECK(us(cost.price(tern::move{ram, vram0, 2000_B})) == doctest::Approx(30));
    CHECK(us(cost.price(tern::move{ram, vram0, 5000_B})) == doctest::Approx(60));
    CHECK(us(cost.price(tern::move{ram, vram0, 1000_B, tern::cargo::activations})) == doctest::Approx(25));
    const tern::route beside[] = {{ram, vram1}, {ram, vram1}, {ram, vram1}};
    CHECK(us(cost.price(tern::move{ram, vram0, 1000_B, tern::cargo::weights, {beside, 1}})) == doctest::Approx(35));
    // Two others were not measured: 35 us for two at once, half as much again for three.
    CHECK(us(cost.price(tern::move{ram, vram0, 1000_B, tern::cargo::weights, {beside, 2}})) == doctest::Approx(52.5));
    CHECK(us(cost.price(tern::move{ram, vram0, 1000_B, tern::cargo::activations, {beside, 3}})) ==
          doctest::Approx(100));
}

TEST_CASE("cost/profiled: what was not measured is refused by name") {
    const tern::profiled cost(measured(), two());
    tern::run r = linear(1, 1000);
    r.format = "q4_k";
    CHECK(refused([&] { cost.price(r); }).find("\"linear\" in format \"q4_k\" on host") != std::string::npos);
    r = linear(1, 1000);
    r.op = "zoom"; // after all others
    CHECK(refused([&] { cost.price(r); }).find("\"zoom\"") != std::string::npos);
    r = linear(1, 1000);
    r.processor = "gpu";
    CHECK(refused([&] { cost.price(r); }).find("on gpu") != std::string::npos);
    CHECK(refused([&] {
              cost.price(tern::move{vram0, ram, 1_B});
          }).find("weights from vram:0 to pageable") != std::string::npos);
}

TEST_CASE("cost/profiled: another machine's profile, and one that makes no sense, are refused") {
    tern::machine other = two();
    other.processors[0].name = "another";
    CHECK(refused([&] { tern::profiled(measured(), other); }).find("another machine") != std::string::npos);
    CHECK_NOTHROW(tern::profiled(measured(), two().with_budget<tern::vram>(1_MiB)));
    const auto with = [](auto change) {
        tern::profile p = measured();
        change(p);
        return refused([&] { tern::profiled(p, two()); });
    };
    CHECK(with([](tern::profile& p) { p.launches.clear(); }).find("launch on host") != std::string::npos);
    CHECK(with([](tern::profile& p) { p.runs[0].time = {-1}; }).find("linear") != std::string::npos);
    CHECK(with([](tern::profile& p) { p.runs[0].time = {0.0 / 0.0}; }).find("linear") != std::string::npos);
    CHECK(with([](tern::profile& p) { p.runs[0].tokens = 0; }).find("tokens") != std::string::npos);
    CHECK(with([](tern::profile& p) { p.runs[0].tokens = 0.0 / 0.0; }).find("tokens") != std::string::npos);
    CHECK(with([](tern::profile& p) { p.moves[0].time = {1 / 0.0}; }).find("move") != std::string::npos);
    CHECK(with([](tern::profile& p) { p.launches[0].time = {-1}; }).find("host") != std::string::npos);
    CHECK(with([](tern::profile& p) { p.runs.push_back(p.runs[0]); }).find("two times") != std::string::npos);
    CHECK(with([](tern::profile& p) { p.moves.push_back(p.moves[0]); }).find("two times") != std::string::npos);
}
