// Placement never changes the answer: the same bits wherever the weights live, inside the budgets.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/plan/first_fit.hpp>

#include <support/data.hpp>
#include <support/model.hpp>

namespace {

namespace test = tern::test;
using namespace tern::literals;

const tern::location vram{tern::tier_of<tern::vram>, 0, 0};
const tern::location pageable{tern::tier_of<tern::pageable>, 0, 0};
const tern::location mapped{tern::tier_of<tern::mapped>, 0, 0};

/// The file, or nothing where it is neither in the tree nor among the shared data.
std::vector<std::string> models() {
    std::vector<std::string> found;
    for (const char* name : {"examples/data/tiny.gguf", "examples/data/tiny-moe.gguf"})
        if (test::exists(test::source_file(name))) found.push_back(test::source_file(name));
    for (const char* name : {"gguf/tinystories656K-q8_0.gguf", "gguf/tinystories656K-moe8x2-noisy-q4_0.gguf"})
        if (const auto path = test::shared_file(name)) found.push_back(*path);
    REQUIRE(!found.empty());
    return found;
}

const std::vector<std::int32_t> prompt{1, 17, 250, 3, 99, 44, 120, 5, 61};

/// Logits of a prompt, then of two tokens one by one.
std::vector<float> answer(test::model& m) {
    tern::contiguous_cache kv = m.cache(16);
    std::vector<float> all = m.logits(prompt, kv);
    for (const std::int32_t token : {7, 200}) {
        const std::vector<float> row = m.logits(std::vector<std::int32_t>{token}, kv);
        all.insert(all.end(), row.begin(), row.end());
    }
    return all;
}

/// Calls fn with each model and each policy of activations that makes a difference to it.
template <class Fn> void each_model(Fn fn) {
    for (const std::string& path : models())
        for (const tern::activation_policy policy : {tern::activation_policy::f32, tern::activation_policy::q8}) {
            if (policy == tern::activation_policy::q8 && path.ends_with("tiny.gguf")) continue; // f16
            CAPTURE(path);
            CAPTURE(name_of(policy));
            fn(path, policy);
        }
}

} // namespace

TEST_CASE("model/placement: ten random splits give the bits of the mapped model, with one thread and with two") {
    const unsigned seed = 20240917;
    std::printf("seed %u\n", seed);
    each_model([&](const std::string& path, tern::activation_policy activations) {
        test::model plain(path, {.threads = 1, .activations = activations});
        const std::vector<float> expected = answer(plain);
        std::mt19937 random(seed);
        for (const std::size_t threads : {1u, 2u}) {
            test::model m(path, {.threads = threads, .ram = 64_MiB, .vram = 64_MiB, .activations = activations});
            const tern::graph g = m.record();
            for (int round = 0; round < 5; ++round) {
                CAPTURE(threads);
                CAPTURE(round);
                std::vector<tern::location> where;
                std::uint64_t in_vram = 0;
                for (const tern::planned_tensor& t : g.tensors) {
                    const tern::location choices[] = {vram, pageable, mapped};
                    where.push_back(choices[random() % 3]);
                    if (where.back() == vram) in_vram += t.size().count;
                }
                m.place(where);
                // Placed again and again: what the last round had there is gone.
                const std::uint64_t held = m.run().accelerator()->memory().budget().used().count;
                CHECK(held >= in_vram);
                CHECK(held <= in_vram + in_vram / 8 + 64 * m.run().store().slices() + (1 << 20));
                CHECK(test::same_bits(answer(m), expected));
            }
            CHECK(m.run().accelerator()->memory().budget().peak() <= 64_MiB);
            CHECK(m.run().ram().budget().peak() <= 64_MiB);
            CHECK(m.run().accelerator()->traffic().to_device.count > 0);
            CHECK(m.run().accelerator()->traffic().to_host.count > 0);
        }
    });
}

TEST_CASE(
    "model/placement: with activations in 8 bits the size of a batch changes no bit, and the policy changes some") {
    each_model([](const std::string& path, tern::activation_policy activations) {
        if (activations == tern::activation_policy::f32) return;
        test::model m(path, {.threads = 2, .activations = activations});
        const std::vector<float> whole = answer(m);
        tern::contiguous_cache kv = m.cache(16);
        std::vector<float> single;
        std::vector<std::int32_t> tokens = prompt;
        tokens.insert(tokens.end(), {7, 200});
        for (const std::int32_t token : tokens) {
            const std::vector<float> row = m.logits(std::vector<std::int32_t>{token}, kv);
            single.insert(single.end(), row.begin(), row.end());
        }
        CHECK(test::same_bits(single, whole));
        test::model exact(path);
        const std::vector<float> expected = answer(exact);
        CHECK(!test::same_bits(whole, expected));
        CHECK(test::relative_error(whole, expected) < 0.15);
    });
}

TEST_CASE("model/placement: first_fit into a few budgets, from smaller than one layer to all of it") {
    each_model([](const std::string& path, tern::activation_policy activations) {
        test::model plain(path, {.threads = 1, .activations = activations});
        const std::vector<float> expected = answer(plain);
        const tern::graph g = plain.record(32);
        std::uint64_t largest = 0;
        for (const tern::planned_tensor& t : g.tensors)
            if (t.size().count > largest) largest = t.size().count;
        const std::uint64_t scratch = g.activation_peak.count + g.activation_peak.count / 4;
        for (const std::uint64_t room :
             {std::uint64_t{8192}, largest, g.weight_bytes().count / 2, 2 * g.weight_bytes().count}) {
            const tern::bytes budget{scratch + room};
            CAPTURE(budget.count);
            test::model m(path, {.threads = 1, .vram = budget, .activations = activations});
            const tern::placement p = m.place(tern::first_fit{});
            CHECK(p.bytes_at(g, vram).count <= room);
            if (room > g.weight_bytes().count) CHECK(p.bytes_at(g, vram).count > g.weight_bytes().count / 2);
            CHECK(test::same_bits(answer(m), expected));
            const tern::budget& used = m.run().accelerator()->memory().budget();
            CHECK(used.peak() <= budget);
            CHECK((p.bytes_at(g, vram).count == 0 || used.peak() >= p.bytes_at(g, vram)));
        }
    });
}

namespace {

/// Weights in units of the arena.
std::uint64_t padded(const tern::graph& g) {
    std::uint64_t sum = 0;
    for (const tern::planned_tensor& t : g.tensors) sum += (t.slice_size.count + 63) / 64 * 64 * t.shape.experts;
    return sum;
}

} // namespace

TEST_CASE("model/placement: a budget one byte short of a listed placement says what is needed and there") {
    const std::string path = models().front();
    test::model plain(path, {.threads = 1});
    const tern::graph g = plain.record();
    const std::uint64_t needed = padded(g) + g.activation_room().count;
    test::model m(path, {.threads = 1, .vram = {needed - 1}});
    const std::vector<tern::location> everything(g.tensors.size(), vram);
    try {
        m.place(everything);
        FAIL("the placement does not fit");
    } catch (const tern::budget_error& e) {
        CHECK(e.needed() == needed);
        CHECK(e.available() == needed - 1);
        CHECK(std::string(e.what()).find("vram:0") != std::string::npos);
    }
    CHECK(m.run().accelerator()->memory().budget().used() == 0_B); // refused before anything was moved
    CHECK(m.run().accelerator()->traffic().to_device == 0_B);
    CHECK(test::same_bits(answer(m), answer(plain)));
}

TEST_CASE("model/placement: a batch larger than was planned for fails in the run, and the model goes on elsewhere") {
    const std::string path = models().front();
    test::model plain(path, {.threads = 1});
    const tern::graph g = plain.record();
    test::model m(path, {.threads = 1, .vram = {padded(g) + g.activation_room().count}});
    m.place(std::vector<tern::location>(g.tensors.size(), vram));
    CHECK(test::same_bits(answer(m), answer(plain)));
    tern::contiguous_cache kv = m.cache(400);
    CHECK_THROWS_AS(m.logits(std::vector<std::int32_t>(400, 7), kv), tern::budget_error);
    m.place(std::vector<tern::location>(g.tensors.size(), mapped));
    CHECK(m.run().accelerator()->memory().budget().used() <= 1_MiB);
    CHECK(test::same_bits(answer(m), answer(plain)));
}
