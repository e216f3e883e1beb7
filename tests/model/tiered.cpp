// Plans by the number of tokens: weights move between prompt and decoding, and the tokens stay the same.
#include <tern/model/tiered.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/cost/presets.hpp>
#include <tern/model/generate.hpp>
#include <tern/op/sampler.hpp>
#include <tern/plan/expert_offload.hpp>
#include <tern/plan/first_fit.hpp>
#include <tern/plan/layer_stream.hpp>

#include <support/data.hpp>
#include <support/model.hpp>

namespace test = tern::test;
using namespace tern::literals;

namespace {

std::vector<std::int32_t> written(test::model& m, const auto& decoder, std::vector<std::int32_t> tokens) {
    tern::contiguous_cache cache = m.cache(128);
    tern::any_cache any(cache);
    tern::sampler choose({.temperature = 0});
    m.run().loop().run(tern::generate(m.run().ctx(), decoder, any, tokens, choose, {.tokens = 24, .prefill_batch = 16},
                                      [](std::int32_t) { return true; }));
    return tokens;
}

std::vector<std::int32_t> prompt() {
    std::vector<std::int32_t> tokens;
    for (std::int32_t i = 0; i < 40; ++i) tokens.push_back(1 + 7 * i % 90);
    return tokens; // passes of 16, 16 and 8 tokens, then of one
}

/// The machine of a runtime as it would be with the preset's processors and links.
tern::machine priced(const tern::machine& m) {
    tern::machine priced = tern::machines::rtx4090_64g();
    for (tern::memory_space& s : priced.memories) s.budget = m.budget_of(s.where), s.reserved = {};
    return priced;
}

} // namespace

TEST_CASE("model/tiered: another plan for a prompt than for single tokens, the same tokens") {
    for (const char* name : {"llama_untied", "qwen3moe"}) {
        CAPTURE(name);
        const std::string path = test::source_file(std::string("tests/data/logits/") + name + ".gguf");
        test::model plain(path);
        const std::vector<std::int32_t> expected = written(plain, plain.decode(), prompt());

        test::model m(path, {.threads = 2, .vram = 512_KiB});
        const tern::graph g = m.record();
        const tern::machine& on = m.run().machine();
        const tern::placement split = tern::first_fit{}.place(g, on);
        const tern::placement cached = tern::expert_offload{.fill = true}.place(g, on);
        const tern::placement streamed = tern::layer_stream{.from = tern::tier_of<tern::mapped>}.place(g, on);
        const tern::tiered_placement plans{{{1, split, {}, {}}, {8, cached, {}, {}}, {512, streamed, {}, {}}}};
        const tern::tiered_decoder tiered(m.decode(), m.run(), plans, g);
        CHECK(written(m, tiered, prompt()) == expected);
        CHECK(tiered.changes() == 3); // once for each
        CHECK(written(m, tiered, prompt()) == expected);
        CHECK(tiered.changes() == (tern::same_plan(split, streamed) ? 5 : 6)); // where all fits, those two are the same
        // The same plan in other tiers is no change.
        const tern::tiered_placement one{{{1, split, {}, {}}, {8, split, {}, {}}, {512, split, {}, {}}}};
        const tern::tiered_decoder same(m.decode(), m.run(), one, g);
        CHECK(written(m, same, prompt()) == expected);
        CHECK(same.changes() == 1);
    }
}

TEST_CASE("model/tiered: the plans of token_tiers and of automatic, whatever they share, give the same tokens") {
    for (const char* name : {"llama_untied", "llama_moe", "qwen3moe"})
        for (const tern::bytes vram : {300_KiB, 600_KiB}) {
            CAPTURE(name);
            CAPTURE(vram.count);
            const std::string path = test::source_file(std::string("tests/data/logits/") + name + ".gguf");
            test::model plain(path);
            const std::vector<std::int32_t> expected = written(plain, plain.decode(), prompt());
            test::model m(path, {.threads = 2, .vram = vram});
            const tern::graph g = m.record();
            const tern::machine on = priced(m.run().machine());
            tern::token_tiers<> policy;
            policy.ranges = {{1, 1e9}, {8, 1e9}, {512, 1e9}};
            const tern::tiered_placement plans = policy.place(g, on);
            const tern::tiered_decoder tiered(m.decode(), m.run(), plans, g);
            CHECK(written(m, tiered, prompt()) == expected);
            std::string_view last;
            for (const tern::tried_placement& t : policy.policy.tried(g, on)) {
                if (t.plan.policy == last) continue; // one of each kind
                last = t.plan.policy;
                CAPTURE(last);
                const tern::tiered_placement one{{{1, t.plan, {}, {}}}};
                const tern::tiered_decoder alone(m.decode(), m.run(), one, g);
                CHECK(written(m, alone, prompt()) == expected);
            }
        }
}
