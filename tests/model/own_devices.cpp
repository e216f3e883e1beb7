// Devices and memories of one's own in a runtime.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/device/emulated.hpp>
#include <tern/file/open_checkpoint.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/memory/region_arena.hpp>
#include <tern/model/decoder.hpp>
#include <tern/model/llama.hpp>
#include <tern/model/read_config.hpp>
#include <tern/model/runtime.hpp>
#include <tern/op/contiguous_cache.hpp>
#include <tern/plan/all_cpu.hpp>
#include <tern/plan/layer_stream.hpp>

#include <support/data.hpp>

using namespace tern::literals;

namespace {

struct shelf {
    static constexpr std::string_view name = "shelf";
    static constexpr tern::reach reached_by = tern::reach::host;
};
using weight = tern::tensor<tern::all_formats, tern::tiers<shelf, tern::vram, tern::mapped>,
                            tern::prefetched<16, tern::staged<4_KiB, 2>>>;

struct bench {
    tern::checkpoint file = tern::open_checkpoint(tern::test::source_file("tests/data/logits/llama_tied.gguf"));
    tern::runtime run;
    tern::llama<weight> model;
    tern::graph graph;

    // Neither the devices nor the memories, which were made before, end before the runtime.
    template <class... Own>
    explicit bench(Own&... own)
        : run({.threads = 1}), model([&] {
              (run.add(own), ...);
              tern::weights<weight> from(file, run.store());
              return tern::llama<weight>(from, tern::read_config(file));
          }()),
          graph(tern::record(model, run.loop(), run.cpu(), 4)) {}

    std::vector<float> logits() {
        tern::contiguous_cache cache(run.ram(), model.config().cache_for(8));
        tern::batch b;
        b.add(std::vector<std::int32_t>{1, 5, 9, 2}, 0);
        tern::activation y = run.loop().run(model.forward(run.ctx(), b, cache));
        y = run.loop().run(run.ctx().bring(std::move(y), run.cpu()));
        return {y.data(), y.data() + y.cols()};
    }
};

} // namespace

TEST_CASE("model/own_devices: memory of one's own is planned for, used and given back") {
    tern::region_arena memory({tern::tier_of<shelf>, 0, 0}, 4_MiB);
    std::vector<float> expected;
    {
        bench b(memory);
        CHECK(b.run.devices().size() == 2);
        CHECK(b.run.machine().budget_of(memory.where()) == 4_MiB);
        expected = b.logits();
        b.run.load(tern::all_cpu{tern::tier_of<shelf>}.place(b.graph, b.run.machine()), b.graph);
        CHECK(memory.budget().used() >= b.graph.weight_bytes());
        CHECK(b.logits() == expected);
    }
    CHECK(memory.budget().used() == 0_B);
}

TEST_CASE("model/own_devices: weights stream ahead through a device of one's own, also at the end of the runtime") {
    tern::emulated_device mine({.capacity = 256_KiB, .latency = {1e-3}});
    {
        bench b(mine);
        const std::vector<float> expected = b.logits();
        const tern::placement plan =
            tern::layer_stream{.from = tern::tier_of<tern::mapped>, .window = 48_KiB}.place(b.graph, b.run.machine());
        REQUIRE(plan.pools.size() == 1);
        b.run.load(plan, b.graph);
        CHECK(b.logits() == expected);
        CHECK(b.run.store().counters(mine).ahead.count > 0);
    }
    CHECK(mine.memory().budget().used() == 0_B);
}

TEST_CASE("model/own_devices: two memories in one place are refused") {
    tern::emulated_device mine({.capacity = 1_MiB});
    tern::runtime run({.threads = 1, .vram = 1_MiB});
    CHECK_THROWS_WITH_AS(run.add(mine), doctest::Contains("vram:0"), tern::config_error);
    tern::heap_arena ram(1_MiB);
    CHECK_THROWS_AS(run.add(ram), tern::config_error);
    CHECK(run.devices().size() == 2);
    tern::emulated_device second({.capacity = 1_MiB, .index = 1});
    run.add(second);
    CHECK(run.devices().size() == 3);
}
