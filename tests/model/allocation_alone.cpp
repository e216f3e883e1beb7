// Counts every allocation of the program, to show that decoding in the steady state makes none.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/async/frame_arena.hpp>
#include <tern/memory/pread_reader.hpp>
#include <tern/model/generate.hpp>
#include <tern/op/paged_cache.hpp>
#include <tern/op/sampler.hpp>
#include <tern/plan/expert_offload.hpp>
#include <tern/plan/first_fit.hpp>
#include <tern/plan/layer_stream.hpp>

#include <support/allocations.hpp>
#include <support/data.hpp>
#include <support/model.hpp>

namespace {

namespace test = tern::test;
using namespace tern::literals;

constexpr std::size_t warm_up = 12;
constexpr std::size_t counted_tokens = 20;

/// Allocations while the twenty tokens after the warm-up were generated.
template <class Cache> long decode(test::model& m, Cache& kv) {
    std::vector<std::int32_t> history{1, 5, 9};
    history.reserve(100);
    tern::sampler greedy{{}};
    std::size_t tokens = 0;
    long before = 0;
    long after = -1;
    auto on_token = [&](std::int32_t) {
        ++tokens;
        if (tokens == warm_up) before = test::allocations.load();
        if (tokens == warm_up + counted_tokens) after = test::allocations.load();
        return true;
    };
    m.run().loop().run(
        tern::generate(m.run().ctx(), m.decode(), kv, history, greedy, {.tokens = warm_up + counted_tokens}, on_token));
    REQUIRE(after >= 0);
    return after - before;
}

/// The fewest of several runs, each with a new cache: the lists of the threads that share frames fill at first.
template <class Make> long fewest(test::model& m, Make make) {
    long least = -1;
    for (int round = 0; round < 5 && least != 0; ++round) {
        auto kv = make();
        const long made = decode(m, kv);
        if (least < 0 || made < least) least = made;
    }
    return least;
}
long fewest(test::model& m) {
    return fewest(m, [&] { return m.cache(64); });
}

void check(const std::string& path) {
    CAPTURE(path);
    for (const tern::bytes vram : {0_B, 400_KiB, 64_MiB}) {
        CAPTURE(vram.count);
        test::model m(path, {.threads = 2, .vram = vram});
        const tern::placement p = m.place(tern::first_fit{});
        if (vram != 0_B) CHECK(p.bytes_at(m.record(), {tern::tier_of<tern::vram>, 0, 0}) > 0_B);
        CHECK(fewest(m) == 0);
        // Within one page; a new page is an allocation.
        CHECK(fewest(m, [&] { return tern::paged_cache(m.run().ram(), m.config().cache_for(64), 64); }) == 0);
    }
}

/// What a policy may need beside the activations: two of the largest slices, or all that is no expert and one expert.
std::uint64_t tight_room(const tern::graph& g, bool by_expert) {
    constexpr std::uint64_t pages = 3 * 4096;
    std::uint64_t largest = 0;
    std::uint64_t used = 0;
    std::uint64_t expert = 0;
    for (const tern::planned_tensor& t : g.tensors) {
        largest = std::max(largest, t.slice_size.count + pages);
        if (t.shape.experts == 1) used += t.slice_size.count + pages;
    }
    for (const tern::graph_node& node : g.nodes) {
        std::uint64_t parts = 0;
        for (const std::size_t t : node.tensors) parts += g.tensors[t].slice_size.count + pages;
        if (node.active != 0) expert = std::max(expert, parts);
    }
    return by_expert ? used + expert : 2 * largest;
}

/// By a policy, on an accelerator that holds little more than that, from the file and from the mapping.
template <class Policy> void check_streaming(const std::string& path, Policy policy, bool by_expert) {
    CAPTURE(path);
    for (const tern::tier_info& from : {tern::tier_of<tern::direct>, tern::tier_of<tern::mapped>}) {
        CAPTURE(from.name);
        test::model plain(path, {.threads = 1});
        const tern::graph g = plain.record();
        tern::pread_reader reader({.threads = 2});
        test::model m(path,
                      {.threads = 2, .vram = {g.activation_room().count + tight_room(g, by_expert)}, .disk = &reader});
        policy.from = from;
        const tern::placement p = m.place(policy);
        std::size_t streamed = 0;
        for (const tern::placed_tensor& t : p.tensors) streamed += t.streamed();
        CHECK(streamed > 0);
        CHECK(fewest(m) == 0);
        CHECK(m.run().store().counters().arrivals > 150); // they came again and again
    }
}

/// What is large comes from the file for each use, to the host's memory; the rest stays there.
struct large_ones_stream {
    static constexpr std::string_view name = "large_ones_stream";
    tern::placement place(const tern::graph& g, const tern::machine&) const {
        const tern::location ram{tern::tier_of<tern::pageable>, 0, 0};
        tern::placement p{name, {}, {{.where = ram, .limit = 2_MiB}}};
        for (const tern::planned_tensor& t : g.tensors) {
            if (t.slice_size < 64_KiB)
                p.tensors.push_back({ram, "small", {}});
            else
                p.tensors.push_back({{tern::tier_of<tern::direct>}, "large", ram});
        }
        return p;
    }
};

} // namespace

TEST_CASE("model/allocation_alone: operator new is counted") { test::check_allocations_count(); }

TEST_CASE("model/allocation_alone: decoding allocates nothing per token, dense or with experts, on one device or two" *
          doctest::skip(tern::frame_arena::pass_through)) {
    for (const char* name : {"llama_tied", "llama_moe", "gemma3", "qwen3moe", "gpt_oss"})
        check(test::source_file(std::string("tests/data/logits/") + name + ".gguf"));
    for (const char* name : {"examples/data/tiny.gguf", "examples/data/tiny-moe.gguf"}) check(test::source_file(name));
}

TEST_CASE("model/allocation_alone: streaming and caching allocate nothing per token either" *
          doctest::skip(tern::frame_arena::pass_through)) {
    for (const char* name :
         {"tests/data/logits/llama_tied.gguf", "tests/data/logits/llama_moe.gguf", "examples/data/tiny.gguf"})
        check_streaming(test::source_file(name), tern::layer_stream{}, false);
    for (const char* name : {"tests/data/logits/llama_moe.gguf", "tests/data/logits/qwen3moe.gguf",
                             "tests/data/logits/gpt_oss.gguf", "examples/data/tiny-moe.gguf"})
        check_streaming(test::source_file(name), tern::expert_offload{}, true);
}

TEST_CASE("model/allocation_alone: streaming to the host's memory allocates nothing per token" *
          doctest::skip(tern::frame_arena::pass_through)) {
    tern::pread_reader reader({.threads = 2});
    test::model m(test::source_file("examples/data/tiny.gguf"), {.threads = 2, .disk = &reader});
    m.place(large_ones_stream{});
    CHECK(fewest(m) == 0);
    CHECK(m.run().store().counters().arrivals > 150);
}

TEST_CASE("model/allocation_alone: experts cached in the host's memory allocate nothing per token, small or large" *
          doctest::skip(tern::frame_arena::pass_through)) {
    for (const char* name :
         {"tests/data/logits/llama_moe.gguf", "tests/data/logits/qwen3moe.gguf", "examples/data/tiny-moe.gguf"}) {
        CAPTURE(name);
        const std::string path = test::source_file(name);
        test::model plain(path, {.threads = 1});
        const tern::graph g = plain.record();
        tern::pread_reader reader({.threads = 2});
        // Room for everything that is no expert, and for few of the experts.
        const tern::contiguous_cache kv = plain.cache(64);
        const std::uint64_t beside = plain.run().ram().budget().used().count + g.activation_room().count;
        test::model m(path, {.threads = 2, .ram = {beside + tight_room(g, true)}, .disk = &reader});
        m.place(tern::expert_offload{.from = tern::tier_of<tern::direct>});
        CHECK(fewest(m) == 0);
        CHECK(m.run().store().counters(m.run().cpu()).evictions > 50);
    }
}

TEST_CASE(
    "model/allocation_alone: slices of many sizes that take turns in the host's memory allocate nothing per token" *
    doctest::skip(tern::frame_arena::pass_through)) {
    for (const char* name :
         {"tests/data/logits/llama_tied.gguf", "tests/data/logits/gemma3.gguf", "examples/data/tiny.gguf"}) {
        CAPTURE(name);
        const std::string path = test::source_file(name);
        test::model plain(path, {.threads = 1});
        const tern::graph g = plain.record();
        const tern::contiguous_cache kv = plain.cache(64);
        const std::uint64_t beside = plain.run().ram().budget().used().count + g.activation_room().count;
        tern::pread_reader reader({.threads = 2});
        // Room for two of the largest slices and a little, for what is streamed.
        test::model m(path, {.threads = 2, .ram = {beside + tight_room(g, false) + 65'536}, .disk = &reader});
        m.place(tern::layer_stream{.from = tern::tier_of<tern::direct>});
        CHECK(fewest(m) == 0);
        CHECK(m.run().store().counters().arrivals > 150);
    }
}
