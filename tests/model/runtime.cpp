#include <tern/model/runtime.hpp>

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/memory/pread_reader.hpp>
#include <tern/plan/all_cpu.hpp>
#include <tern/plan/expert_offload.hpp>
#include <tern/plan/first_fit.hpp>
#include <tern/plan/layer_stream.hpp>

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

namespace {

/// Keeps the sums of what arrived, and asks to stop after some arrivals. On the thread of transfers.
struct steps final : tern::arrival_listener {
    std::vector<std::uint64_t> sums{};
    std::stop_source stop{};
    std::size_t stop_after = ~std::size_t{0};

    void arrived(tern::bytes n) override {
        sums.push_back((sums.empty() ? 0 : sums.back()) + n.count);
        if (sums.size() == stop_after) stop.request_stop();
    }
};

std::vector<float> answer(test::model& m) {
    tern::contiguous_cache kv = m.cache(8);
    return m.logits(std::vector<std::int32_t>{1, 17, 50, 3}, kv);
}

const std::string dense = test::source_file("tests/data/logits/llama_tied.gguf");

} // namespace

TEST_CASE("model/runtime: pinned memory is a device of its own under the RAM's budget, and bytes can be set aside") {
    tern::runtime run({.threads = 1, .ram = 8_MiB, .pinned = 2_MiB, .vram = 1_MiB});
    CHECK(run.devices().size() == 3);
    CHECK(run.machine().budget_of({tern::tier_of<tern::pinned>, 0, 0}) == 2_MiB);
    const tern::location ram{tern::tier_of<tern::pageable>, 0, 0};
    CHECK(run.machine().room_at(ram) == 8_MiB);
    run.reserve(3_MiB);
    run.reserve(1_MiB);
    CHECK(run.machine().room_at(ram) == 4_MiB);
    CHECK(run.machine().budget_of(ram) == 8_MiB);
    const tern::allocation part = run.pinned_ram().allocate(1_MiB, "part");
    CHECK(run.ram().budget().used() == 1_MiB);
    CHECK_THROWS_AS(run.ram().allocate(8_MiB, "too much"), tern::budget_error);
    CHECK_THROWS_AS(run.pinned_ram().allocate(2_MiB, "too much"), tern::budget_error);
}

TEST_CASE("model/runtime: progress only grows and ends at what is to be loaded, from the file and from the mapping") {
    for (const bool direct : {false, true})
        for (const tern::bytes vram : {0_B, 4_MiB}) {
            CAPTURE(direct);
            CAPTURE(vram.count);
            tern::pread_reader reader({.threads = 2});
            test::model m(dense, {.threads = 1, .vram = vram, .disk = direct ? &reader : nullptr});
            const tern::graph g = m.record();
            const tern::placement p = tern::layer_stream{}.place(g, m.run().machine());
            steps seen;
            m.run().load(p, g, {}, &seen);
            REQUIRE(!seen.sums.empty());
            for (std::size_t i = 1; i < seen.sums.size(); ++i) CHECK(seen.sums[i] > seen.sums[i - 1]);
            CHECK(seen.sums.back() == tern::bytes_to_load(p, g).count);
            CHECK(tern::bytes_to_load(p, g) + p.bytes_at(g, {tern::tier_of<tern::mapped>, 0, 0}) == g.weight_bytes());
            CHECK(m.run().store().counters().moved == tern::bytes_to_load(p, g));
            steps again;
            m.run().load(p, g, {}, &again);
            CHECK(again.sums.empty()); // all of it was there
        }
}

TEST_CASE("model/runtime: a stopped load ends within a chunk, keeps no half, and the next load is right") {
    test::model plain(dense, {.threads = 1});
    const std::vector<float> expected = answer(plain);
    for (const std::size_t after : {1u, 2u, 7u}) {
        CAPTURE(after);
        tern::pread_reader reader({.threads = 2});
        test::model m(dense, {.threads = 1, .vram = 4_MiB, .disk = &reader});
        const tern::graph g = m.record();
        const tern::placement p = tern::layer_stream{}.place(g, m.run().machine());
        steps seen;
        seen.stop_after = after;
        CHECK_THROWS_AS(m.run().load(p, g, seen.stop.get_token(), &seen), tern::stopped_error);
        CHECK(seen.sums.size() <= after + 1);
        const tern::residency_counters so_far = m.run().store().counters();
        CHECK(so_far.moved.count <= seen.sums.back()); // whole slices
        CHECK(m.run().staging().budget().used() == 0_B);
        // A model whose weights come to nothing goes on from the mapping, and then no copy is left.
        const tern::placement mapped = tern::all_cpu{}.place(g, m.run().machine());
        m.run().load(mapped, g);
        CHECK(m.run().accelerator()->memory().budget().used() == 0_B);
        CHECK(test::same_bits(answer(m), expected));
        m.run().load(p, g);
        CHECK(m.run().accelerator()->memory().budget().used() >= p.bytes_at(g, {tern::tier_of<tern::vram>, 0, 0}));
        CHECK(test::same_bits(answer(m), expected));
    }
}

TEST_CASE("model/runtime: one placement after another, streamed, cached and resident, each gives the same answer") {
    const std::string path = test::source_file("tests/data/logits/llama_moe.gguf");
    test::model plain(path, {.threads = 1});
    const std::vector<float> expected = answer(plain);
    const tern::graph sizes = plain.record();
    const tern::bytes room{sizes.activation_room().count + sizes.weight_bytes().count / 2};
    tern::pread_reader reader({.threads = 2});
    test::model m(path, {.threads = 2, .ram = 16_MiB, .vram = room, .disk = &reader});
    for (int round = 0; round < 2; ++round) {
        m.place(tern::layer_stream{});
        CHECK(test::same_bits(answer(m), expected));
        m.place(tern::expert_offload{.from = tern::tier_of<tern::direct>});
        CHECK(test::same_bits(answer(m), expected));
        m.place(tern::first_fit{});
        CHECK(test::same_bits(answer(m), expected));
        m.place(tern::all_cpu{tern::tier_of<tern::pageable>});
        CHECK(test::same_bits(answer(m), expected));
        m.place(tern::layer_stream{.from = tern::tier_of<tern::mapped>});
        CHECK(test::same_bits(answer(m), expected));
    }
    CHECK(m.run().accelerator()->memory().budget().peak() <= room);
}

TEST_CASE(
    "model/runtime: a transfer that is stopped while the model streams ends the pass, and the next one is right") {
    test::model plain(dense, {.threads = 1});
    const std::vector<float> expected = answer(plain);
    const tern::graph g = plain.record();
    tern::blocking_reader reader;
    test::model m(dense, {.threads = 1, .vram = {g.activation_room().count + 200'000}, .disk = &reader});
    m.place(tern::layer_stream{});
    std::stop_source stop;
    m.run().store().stop_with(stop.get_token());
    stop.request_stop();
    CHECK_THROWS_AS(answer(m), tern::stopped_error);
    m.run().store().stop_with({});
    CHECK(test::same_bits(answer(m), expected));
}
