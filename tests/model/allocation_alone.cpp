// Counts every allocation of the program, to show that decoding in the steady state makes none.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
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

#include <support/data.hpp>
#include <support/model.hpp>

namespace {

std::atomic<long> allocations{0};

void* counted(std::size_t size, std::size_t alignment) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    void* p = alignment <= alignof(std::max_align_t)
                  ? std::malloc(size ? size : 1)
                  : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    return p;
}

} // namespace

// Not inlined: the compiler would take malloc and delete, or new and free, for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
    if (void* p = counted(size, 1)) return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
    if (void* p = counted(size, static_cast<std::size_t>(alignment))) return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return counted(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

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
        if (tokens == warm_up) before = allocations.load();
        if (tokens == warm_up + counted_tokens) after = allocations.load();
        return true;
    };
    m.run().loop().run(
        tern::generate(m.run().ctx(), m.decode(), kv, history, greedy, {.tokens = warm_up + counted_tokens}, on_token));
    REQUIRE(after >= 0);
    return after - before;
}

void check(const std::string& path) {
    CAPTURE(path);
    for (const tern::bytes vram : {0_B, 400_KiB, 64_MiB}) {
        CAPTURE(vram.count);
        test::model m(path, {.threads = 2, .vram = vram});
        const tern::placement p = m.place(tern::first_fit{});
        if (vram != 0_B) CHECK(p.bytes_at(m.record(), {tern::tier_of<tern::vram>, 0, 0}) > 0_B);
        tern::contiguous_cache contiguous = m.cache(64);
        CHECK(decode(m, contiguous) == 0);
        // Within one page; a new page is an allocation.
        tern::paged_cache paged(m.run().ram(), m.config().cache_for(64), 64);
        CHECK(decode(m, paged) == 0);
    }
}

/// The same while weights stream: the lists of the threads that share frames fill over several runs.
long decode_streaming(test::model& m) {
    long fewest = -1;
    for (int round = 0; round < 5 && fewest != 0; ++round) {
        tern::contiguous_cache kv = m.cache(64);
        const long made = decode(m, kv);
        if (fewest < 0 || made < fewest) fewest = made;
    }
    return fewest;
}

/// What a policy may need beside the activations: two of the largest slices, or all that is no expert and one expert.
std::uint64_t tight_room(const tern::graph& g, bool by_expert) {
    constexpr std::uint64_t pages = 3 * 4096;
    std::uint64_t largest = 0;
    std::uint64_t used = 0;
    std::uint64_t expert = 0;
    for (const tern::planned_tensor& t : g.tensors) {
        largest = std::max(largest, t.slice_size.count + pages);
        if (t.shape.experts == 1)
            used += t.slice_size.count + pages;
        else
            expert = std::max(expert, 3 * (t.slice_size.count + pages));
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
        CHECK(decode_streaming(m) == 0);
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

TEST_CASE("model/allocation_alone: allocations are counted") {
    const long before = allocations.load();
    ::operator delete(::operator new(1));
    ::operator delete(::operator new(64, std::align_val_t{64}), std::align_val_t{64});
    CHECK(allocations.load() == before + 2);
}

TEST_CASE("model/allocation_alone: decoding allocates nothing per token, dense or with experts, on one device or two" *
          doctest::skip(tern::frame_arena::pass_through)) {
    for (const char* name : {"llama_tied", "llama_moe", "gemma3", "qwen3moe"})
        check(test::source_file(std::string("tests/data/logits/") + name + ".gguf"));
    for (const char* name : {"examples/data/tiny.gguf", "examples/data/tiny-moe.gguf"}) check(test::source_file(name));
}

TEST_CASE("model/allocation_alone: streaming and caching allocate nothing per token either" *
          doctest::skip(tern::frame_arena::pass_through)) {
    for (const char* name :
         {"tests/data/logits/llama_tied.gguf", "tests/data/logits/llama_moe.gguf", "examples/data/tiny.gguf"})
        check_streaming(test::source_file(name), tern::layer_stream{}, false);
    for (const char* name :
         {"tests/data/logits/llama_moe.gguf", "tests/data/logits/qwen3moe.gguf", "examples/data/tiny-moe.gguf"})
        check_streaming(test::source_file(name), tern::expert_offload{}, true);
}

TEST_CASE("model/allocation_alone: streaming to the host's memory allocates nothing per token" *
          doctest::skip(tern::frame_arena::pass_through)) {
    tern::pread_reader reader({.threads = 2});
    test::model m(test::source_file("examples/data/tiny.gguf"), {.threads = 2, .disk = &reader});
    m.place(large_ones_stream{});
    CHECK(decode_streaming(m) == 0);
    CHECK(m.run().store().counters().arrivals > 150);
}
