#include <tern/op/attention.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tern/op/any_cache.hpp>
#include <tern/op/contiguous_cache.hpp>
#include <tern/op/null_cache.hpp>
#include <tern/op/paged_cache.hpp>

#include "support.hpp"

namespace test = tern::test;

namespace {

constexpr tern::kv_shape shape{.layers = 1, .width = 2, .context = 16, .sequences = 2};
constexpr tern::attention_options two_heads{.heads = 2, .kv_heads = 1, .head_dim = 2, .scale = 1};

/// Equal scores; the value of position i is i: the result is the mean position that a token sees.
template <class Cache>
std::vector<float> means(test::bench& b, Cache& kv, std::size_t tokens, std::size_t window, bool away = false) {
    tern::batch batch;
    const std::size_t start = kv.length(0);
    for (std::size_t i = 0; i < tokens; ++i) batch.add(0, start + i, 0);
    kv.reserve(batch);
    std::vector<float> v;
    for (std::size_t i = 0; i < tokens; ++i) v.insert(v.end(), 2, static_cast<float>(start + i));
    tern::activation q = b.make(std::vector<float>(tokens * 4, 0), tokens);
    if (away) q = b.on_gpu(std::move(q));
    tern::attention_options how = two_heads;
    how.window = window;
    const std::vector<float> out = b.values(tern::attention(
        b.ctx, std::move(q), b.make(std::vector<float>(tokens * 2, 1), tokens), b.make(v, tokens), batch, kv, 0, how));
    std::vector<float> firsts;
    for (std::size_t i = 0; i < tokens; ++i) firsts.push_back(out[i * 4]);
    return firsts;
}

} // namespace

TEST_CASE("op/attention: a window of four with equal scores at position 10 gives 8.5, in prefill and in decode") {
    test::bench b;
    tern::contiguous_cache whole(b.ram, shape);
    const std::vector<float> prefill = means(b, whole, 11, 4);
    CHECK(prefill[10] == doctest::Approx(8.5));
    CHECK(prefill[2] == doctest::Approx(1));
    tern::paged_cache pages(b.ram, shape, 3);
    for (std::size_t i = 0; i < 11; ++i) CHECK(means(b, pages, 1, 4, i % 2 == 1)[0] == prefill[i]);
    tern::contiguous_cache all(b.ram, shape);
    CHECK(means(b, all, 11, 0)[10] == doctest::Approx(5));
}

TEST_CASE("op/attention: a cache in a device's memory has its attention computed there, with the same bits") {
    test::bench b;
    tern::contiguous_cache here(b.ram, shape);
    const std::vector<float> expected = means(b, here, 9, 3);
    const tern::bytes free = b.gpu.memory().budget().used();
    tern::contiguous_cache there(b.gpu, shape);
    CHECK(b.gpu.memory().budget().used() - free == tern::contiguous_cache::bytes_for(shape));
    tern::any_cache any(there);
    CHECK(any.computes_on(0) == &b.gpu);
    CHECK(tern::any_cache(here).computes_on(0) == nullptr);
    CHECK(means(b, any, 9, 3) == expected);
    tern::batch batch;
    batch.add(0, 9, 0);
    any.reserve(batch);
    const auto one = [&](float x) { return b.make(std::vector<float>(2, x), 1); };
    const tern::activation y = b.loop.run(tern::attention(b.ctx, b.on_gpu(b.make(std::vector<float>(4, 0), 1)), one(1),
                                                          one(9), batch, any, 0, two_heads));
    CHECK(y.on() == &b.gpu);
}

TEST_CASE("op/attention: sinks and a window, in prefill and in decode, from any cache and on any device") {
    test::bench b;
    // Scores are 0, so a token at position p that sees n keys gets the sum of their positions over n + e^sink.
    const float sinks[] = {0, 2};
    const auto run = [&](auto& kv, std::size_t tokens) {
        tern::batch batch;
        const std::size_t start = kv.length(0);
        std::vector<float> v;
        for (std::size_t i = 0; i < tokens; ++i) batch.add(0, start + i, 0);
        for (std::size_t i = 0; i < tokens; ++i) v.insert(v.end(), 2, static_cast<float>(start + i));
        kv.reserve(batch);
        tern::attention_options how = two_heads;
        how.window = 4;
        how.sinks = sinks;
        return b.values(tern::attention(b.ctx, b.make(std::vector<float>(tokens * 4, 0), tokens),
                                        b.make(std::vector<float>(tokens * 2, 1), tokens), b.make(v, tokens), batch, kv,
                                        0, how));
    };
    tern::contiguous_cache whole(b.ram, shape);
    const std::vector<float> expected = run(whole, 11);
    for (std::size_t t = 0; t < 11; ++t) {
        double sum = 0, seen = 0;
        for (std::size_t j = t < 4 ? 0 : t - 3; j <= t; ++j) sum += static_cast<double>(j), ++seen;
        for (std::size_t h = 0; h < 2; ++h)
            CHECK(static_cast<double>(expected[t * 4 + h * 2]) ==
                  doctest::Approx(sum / (seen + std::exp(static_cast<double>(sinks[h])))));
    }
    const auto same_in_pieces = [&](auto&& kv) {
        std::vector<float> all = run(kv, 3);
        while (kv.length(0) < 11) {
            const std::vector<float> one = run(kv, 1);
            all.insert(all.end(), one.begin(), one.end());
        }
        CHECK(test::same(all, expected));
    };
    same_in_pieces(tern::contiguous_cache(b.ram, shape));
    same_in_pieces(tern::contiguous_cache(b.gpu, shape));
    same_in_pieces(tern::paged_cache(b.ram, shape, 3));
    tern::contiguous_cache there(b.gpu, shape);
    CHECK(test::same(run(there, 11), expected));
}

TEST_CASE("op/attention: widths, layers and options that do not fit are refused with their sizes") {
    test::bench b;
    tern::contiguous_cache kv(b.ram, shape);
    tern::batch batch;
    batch.add(0, 0, 0);
    kv.reserve(batch);
    const auto text = [&](std::size_t q, std::size_t k, std::size_t v, std::size_t layer, tern::attention_options how) {
        return test::text_of<tern::shape_error>([&] {
            b.loop.run(tern::attention(b.ctx, b.make(1, q), b.make(1, k), b.make(1, v), batch, kv, layer, how));
        });
    };
    CHECK(test::has(text(6, 2, 2, 0, two_heads), "widths 6, 2, 2"));
    CHECK(test::has(text(4, 4, 2, 0, two_heads), "widths 4, 4, 2"));
    CHECK(test::has(text(4, 2, 4, 0, two_heads), "widths 4, 2, 4"));
    CHECK(test::has(text(4, 2, 2, 1, two_heads), "layer 1"));
    tern::attention_options how = two_heads;
    how.kv_heads = 0;
    text(4, 2, 2, 0, how);
    how = {.heads = 3, .kv_heads = 2, .head_dim = 2};
    text(6, 4, 4, 0, how);
    how = {.heads = 2, .kv_heads = 2, .head_dim = 2}; // fits itself, and not the cache
    CHECK(test::has(text(4, 4, 4, 0, how), "width 4"));
    const float sinks[] = {0, 0, 0};
    how = two_heads;
    how.sinks = sinks;
    text(4, 2, 2, 0, how);
    batch.add(0, 1, 0); // another token than there are rows
    text(4, 2, 2, 0, two_heads);
}

TEST_CASE("op/attention: the recorded shape is the computed one") {
    test::bench b;
    tern::null_cache none;
    tern::batch batch;
    batch.add(0, 0, 0);
    const tern::activation y =
        b.loop.run(tern::attention(b.recording, b.recording.make(b.cpu, 1, 4), b.recording.make(b.cpu, 1, 2),
                                   b.recording.make(b.cpu, 1, 2), batch, none, 0, two_heads));
    CHECK(y.rows() == 1);
    CHECK(y.cols() == 4);
    CHECK(std::move(b.notes).finish({}).nodes[0].op == "attention");
}
