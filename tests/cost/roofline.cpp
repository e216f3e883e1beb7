#include <tern/cost/roofline.hpp>

#include <optional>
#include <string>

#include <doctest/doctest.h>

using namespace tern::literals;

namespace {

const tern::location ram{tern::tier_of<tern::pageable>, 0, 0};
const tern::location vram0{tern::tier_of<tern::vram>, 0, 0};
const tern::location vram1{tern::tier_of<tern::vram>, 1, 0};
constexpr tern::efficiency all{1, 1, 1, 1, 1, 1, 1};

tern::machine two() {
    tern::machine m;
    m.memories = {{ram, 1_GiB, {}, false, {}, 40_GBps}, {vram0, 8_MiB, {}, false, {}, 400_GBps}, {vram1, 8_MiB}};
    m.processors = {{"host",
                     tern::processor_kind::cpu,
                     0,
                     {ram},
                     {.f32 = 1e11, .f16 = 5e10},
                     tern::seconds{1e-6},
                     tern::seconds{2e-6}},
                    {"gpu",
                     tern::processor_kind::accelerator,
                     0,
                     {vram0},
                     {.f32 = 1e12, .f16 = 1e13},
                     tern::seconds{3e-6},
                     tern::seconds{5e-6}}};
    m.links = {{ram, vram0, 10_GBps, tern::seconds{1e-5}, "pcie"},
               {vram0, ram, 20_GBps, tern::seconds{2e-5}, "up"},
               {ram, vram1, 10_GBps, tern::seconds{1e-5}, "pcie"}};
    return m;
}

tern::run linear(const char* processor, tern::location reads) {
    return {.op = "linear",
            .format = "q8_0",
            .processor = processor,
            .reads = reads,
            .weights = 3'000'000_B,
            .other = 1'000'000_B,
            .operations = 1e6};
}

std::string refused(const tern::machine& m, const auto& what) {
    try {
        tern::roofline(m, all).price(what);
        return "it has a price";
    } catch (const tern::config_error& e) { return e.what(); }
}

} // namespace

TEST_CASE("cost/roofline: bytes over bandwidth, or operations over rate, and a launch for each call") {
    const tern::roofline cost(two(), all);
    // 4 MB at 40 GB/s are 100 us; 1e6 operations at 5e10 take 20 us.
    CHECK(cost.price(linear("host", ram)).count == doctest::Approx(101e-6));
    // 4 MB at 400 GB/s are 10 us.
    CHECK(cost.price(linear("gpu", vram0)).count == doctest::Approx(13e-6));
    tern::run r = linear("host", ram);
    r.operations = 1e7; // 200 us
    r.calls = 4;
    CHECK(cost.price(r).count == doctest::Approx(204e-6));
    r.launches = 2.5;
    CHECK(cost.price(r).count == doctest::Approx(210e-6));
    r.launches = 1;
    r.format = "f32"; // 1e7 at 1e11 are 100 us
    CHECK(cost.price(r).count == doctest::Approx(104e-6));
    CHECK(cost.price(tern::run{.op = "add", .processor = "host", .reads = ram}).count == doctest::Approx(1e-6));
}

TEST_CASE("cost/roofline: moves have a latency and share their bus; activations wait for the accelerator") {
    const tern::roofline cost(two(), all);
    tern::move m{.from = ram, .to = vram0, .size = 1'000'000_B};
    CHECK(cost.price(m).count == doctest::Approx(110e-6));
    const tern::route beside[] = {{ram, vram1}, {vram0, ram}};
    m.beside = beside;
    CHECK(cost.price(m).count == doctest::Approx(210e-6)); // half the bus, twice the time
    m.beside = {};
    m.what = tern::cargo::activations;
    CHECK(cost.price(m).count == doctest::Approx(115e-6));
    CHECK(cost.price(tern::move{vram0, ram, 1'000'000_B, tern::cargo::activations, {}}).count ==
          doctest::Approx(75e-6));
    CHECK(cost.price(tern::move{vram0, ram, {}, tern::cargo::activations, {}}).count == doctest::Approx(25e-6));
}

TEST_CASE("cost/roofline: efficiencies are shares of the figures, apart from the machine") {
    const tern::roofline cost(two(), {.cpu_memory = 0.5,
                                      .cpu_arithmetic = 0.1,
                                      .accelerator_memory = 0.25,
                                      .accelerator_arithmetic = 0.01,
                                      .link = 0.5,
                                      .cpu_quantized = 0.4});
    tern::run plain = linear("host", ram);
    plain.format = "f16";
    CHECK(cost.price(plain).count == doctest::Approx(201e-6));               // 100 us / 0.5, or 20 us / 0.1
    CHECK(cost.price(linear("host", ram)).count == doctest::Approx(201e-6)); // 8 bits need no unpacking
    plain.format = "q4_k";
    CHECK(cost.price(plain).count == doctest::Approx(251e-6));               // 100 us / 0.4
    CHECK(cost.price(linear("gpu", vram0)).count == doctest::Approx(43e-6)); // 10 us / 0.25
    tern::run r = linear("gpu", vram0);
    r.operations = 1e8; // 10 us / 0.01
    CHECK(cost.price(r).count == doctest::Approx(1003e-6));
    CHECK(cost.price(tern::move{.from = ram, .to = vram0, .size = 1'000'000_B}).count == doctest::Approx(210e-6));
    for (const double bad : {0.0, -1.0, 1.01, 0.0 / 0.0})
        CHECK_THROWS_AS(tern::roofline(two(), {.link = bad}), tern::config_error);
}

TEST_CASE("cost/roofline: attention reaches a share of its own of the host's arithmetic") {
    tern::efficiency e = all;
    e.cpu_attention = 0.05;
    tern::run r{.op = "attention", .processor = "host", .reads = ram, .operations = 1e6};
    CHECK(tern::roofline(two(), e).price(r).count == doctest::Approx(201e-6)); // 1e6 at 1e11 are 10 us, / 0.05
    r.op = "linear";
    CHECK(tern::roofline(two(), e).price(r).count == doctest::Approx(11e-6));
    r = {.op = "attention", .processor = "gpu", .reads = vram0, .operations = 1e7}; // not on the accelerator
    CHECK(tern::roofline(two(), e).price(r).count == doctest::Approx(13e-6));
    e.cpu_attention = 0;
    CHECK_THROWS_AS(tern::roofline(two(), e), tern::config_error);
}

TEST_CASE("cost/roofline: where one kernel serves many calls their tokens are rounded up to its tile") {
    tern::run r = linear("gpu", vram0);
    r.operations = 1e9; // 100 us at 1e13
    r.calls = 10;
    r.tokens = 32;
    CHECK(tern::roofline(two(), all).price(r).count == doctest::Approx(30e-6 + 100e-6)); // kernels of their own
    r.launches = 0.2;
    CHECK(tern::roofline(two(), all).price(r).count == doctest::Approx(6e-6 + 400e-6)); // 128 for 32
    r.tokens = 129;
    CHECK(tern::roofline(two(), all).price(r).count == doctest::Approx(6e-6 + 100e-6 * 256 / 129));
    r.tokens = 8; // one by one
    CHECK(tern::roofline(two(), all).price(r).count == doctest::Approx(6e-6 + 100e-6));
    tern::efficiency e = all;
    e.accelerator_tile = 16;
    r.tokens = 32;
    CHECK(tern::roofline(two(), e).price(r).count == doctest::Approx(6e-6 + 100e-6));
    r.processor = "host", r.reads = ram;
    CHECK(tern::roofline(two(), all).price(r).count == doctest::Approx(2e-6 + 1e9 / 5e10));
    for (const double bad : {0.0, -1.0, 1e6, 0.0 / 0.0}) {
        e.accelerator_tile = bad;
        CHECK_THROWS_AS(tern::roofline(two(), e), tern::config_error);
    }
}

TEST_CASE("cost/roofline: what the machine does not say is refused by name") {
    tern::machine m = two();
    m.memories[0].bandwidth = std::nullopt;
    CHECK(refused(m, linear("host", ram)).find("the bandwidth of pageable") != std::string::npos);
    m = two();
    m.processors[0].rates.f16 = std::nullopt;
    CHECK(refused(m, linear("host", ram)).find("f16 arithmetic of host") != std::string::npos);
    m.processors[0].launch = std::nullopt;
    m.processors[0].rates.f16 = 1;
    CHECK(refused(m, linear("host", ram)).find("launch on host") != std::string::npos);
    CHECK(refused(m, linear("npu", ram)).find("no processor \"npu\"") != std::string::npos);
    CHECK(refused(m, linear("gpu", ram)).find("gpu does not compute from pageable") != std::string::npos);
    CHECK(refused(m, linear("gpu", vram1)).find("does not compute") != std::string::npos);
    tern::move way{.from = ram, .to = vram0, .size = 1_MiB, .what = tern::cargo::activations};
    m = two();
    m.links[0].bandwidth = std::nullopt;
    CHECK(refused(m, way).find("bandwidth of the link from pageable to vram:0") != std::string::npos);
    m = two();
    m.links[0].latency = std::nullopt;
    CHECK(refused(m, way).find("latency of the link from pageable to vram:0") != std::string::npos);
    m = two();
    m.processors[1].sync = std::nullopt;
    CHECK(refused(m, way).find("sync of gpu") != std::string::npos);
    way.to = {tern::tier_of<tern::direct>, 0, 0};
    CHECK(refused(m, way).find("no link from pageable to direct") != std::string::npos);
}
