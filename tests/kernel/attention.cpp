#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "support.hpp"
#include <tern/kernel/attention.hpp>

using namespace tern;
using namespace tern::test;
using kernel::kv_page;
using kernel::sequence_pages;

namespace {

const float not_a_number = std::numeric_limits<float>::quiet_NaN();
const float inf = std::numeric_limits<float>::infinity();

/// One head of one number and one sequence: scores are q times k.
float one(std::vector<float> k, std::vector<float> v, std::int32_t position, std::size_t window = 0,
          const float* sink = nullptr, float soft_cap = 0, float q = 1) {
    const kv_page page{k.data(), v.data(), k.size()};
    const sequence_pages sequence{&page, 1};
    const std::int32_t sequence_of = 0;
    float out = 7;
    run<kernel::attention>(
        {&q, 1, 1, 1, 1, 1, 1.0f, soft_cap, window, sink, &sequence, &sequence_of, &position, &out, 1});
    return out;
}

} // namespace

TEST_CASE("kernel/attention: hand-computed weights") {
    CHECK(one({0, 0}, {1, 3}, 1) == 2);
    CHECK(one({0, 0}, {1, 3}, 0) == 1); // causal: key 1 is not seen
    CHECK(one({0, std::log(3.0f)}, {0, 4}, 1) == doctest::Approx(3));
    CHECK(one({1, -1}, {1, 0}, 1, 0, nullptr, 0, 100) == 1);
    CHECK(one({100, 0}, {1, 0}, 1, 0, nullptr, 1) == doctest::Approx(1 / (1 + std::exp(-1)))); // cap 1: tanh(100) = 1
}

TEST_CASE("kernel/attention: a score far below zero with one visible key has weight 1") {
    CHECK(one({-20000, 0}, {1, 100}, 0) == 1);
    CHECK(one({-20000}, {1}, 0) == 1);
}

TEST_CASE("kernel/attention: nothing to see gives 0, and unused slots have no effect") {
    CHECK(one({1, 2}, {1, 2}, -1) == 0);
    CHECK(one({-inf, -inf}, {1, 2}, 1) == 0);
    CHECK(one({}, {}, 3) == 0);
    CHECK(one({0, 0, not_a_number}, {1, 3, not_a_number}, 1) == 2);
    CHECK(one({not_a_number, not_a_number, 0, not_a_number}, {not_a_number, inf, 5, not_a_number}, 2, 1) ==
          5);                                             // before the window, too
    CHECK(std::isnan(one({0, not_a_number}, {1, 3}, 1))); // a NaN that is seen is not hidden
}

TEST_CASE("kernel/attention: a window counts the token itself") {
    std::vector<float> k(12), v(12);
    for (std::size_t i = 0; i < 12; ++i) v[i] = static_cast<float>(i);
    CHECK(one(k, v, 10, 4) == 8.5f); // keys 7 8 9 10
    CHECK(one(k, v, 2, 4) == 1);     // fewer keys than the window
    CHECK(one(k, v, 3, 4) == 1.5f);
    // The same in a batch of all positions.
    const kv_page page{k.data(), v.data(), 12};
    const sequence_pages sequence{&page, 1};
    std::vector<float> q(12, 1), out(12);
    std::vector<std::int32_t> positions(12), sequence_of(12);
    for (std::size_t i = 0; i < 12; ++i) positions[i] = static_cast<std::int32_t>(i);
    run<kernel::attention>({q.data(), 1, 12, 1, 1, 1, 1.0f, 0, 4, nullptr, &sequence, sequence_of.data(),
                            positions.data(), out.data(), 1});
    CHECK(out[10] == 8.5f);
}

TEST_CASE("kernel/attention: a sink is one more key whose value is 0, and neither scale nor cap apply to it") {
    const float k[] = {0.25f, -1, 2, 0.5f}, v[] = {4, 8, -2, 1};
    for (const float sink : {-100.0f, -1.0f, 0.0f, 3.0f, 100.0f})
        for (const std::size_t window : {0u, 2u})
            for (const float cap : {0.0f, 1.5f}) {
                CAPTURE(sink);
                CAPTURE(window);
                CAPTURE(cap);
                double sum = 0, weights = std::exp(double(sink));
                for (std::size_t j = window == 0 ? 0 : 4 - window; j < 4; ++j) {
                    const double s = 0.5 * 3 * double(k[j]);
                    const double w = std::exp(cap != 0 ? double(cap) * std::tanh(s / double(cap)) : s);
                    sum += w * double(v[j]);
                    weights += w;
                }
                const kv_page page{k, v, 4};
                const sequence_pages sequence{&page, 1};
                const std::int32_t sequence_of = 0, position = 3;
                const float q = 3;
                float out = 7;
                run<kernel::attention>(
                    {&q, 1, 1, 1, 1, 1, 0.5f, cap, window, &sink, &sequence, &sequence_of, &position, &out, 1});
                CHECK(double(out) == doctest::Approx(sum / weights));
            }
}

TEST_CASE("kernel/attention: a sink takes its share of the weight") {
    const float sink = 0;
    CHECK(one({0}, {3}, 0, 0, &sink) == 1.5f);
    CHECK(one({0, 0}, {3, 3}, 1, 0, &sink) == doctest::Approx(2));
    const float none = -inf;
    CHECK(one({0}, {3}, 0, 0, &none) == 3);
    CHECK(one({}, {}, 0, 0, &sink) == 0);
}

TEST_CASE("kernel/attention: pages, batches and splits change no bit; sequences do not mix") {
    const std::size_t heads = 6, kv_heads = 2, dim = 5, keys = 37, row = kv_heads * dim;
    numbers from{3};
    std::vector<float> k = from(2 * keys * row, -2, 2), v = from(2 * keys * row, -2, 2);
    const std::size_t tokens = 2 * keys;
    std::vector<float> q = from(tokens * heads * dim, -2, 2), sinks = from(heads, -1, 1);
    std::vector<std::int32_t> positions, sequence_of;
    for (std::size_t t = 0; t < tokens; ++t) {
        positions.push_back(static_cast<std::int32_t>(t / 2));
        sequence_of.push_back(static_cast<std::int32_t>(t % 2));
    }
    const auto pages_of = [&](std::size_t sequence, std::size_t size) {
        std::vector<kv_page> pages;
        for (std::size_t at = 0; at < keys; at += size) {
            const std::size_t first = (sequence * keys + at) * row;
            pages.push_back({k.data() + first, v.data() + first, size < keys - at ? size : keys - at});
        }
        return pages;
    };
    std::vector<float> expected;
    for (const std::size_t size : {37, 16, 7, 1}) {
        const auto first = pages_of(0, size), second = pages_of(1, size);
        const sequence_pages sequences[] = {{first.data(), first.size()}, {second.data(), second.size()}};
        std::vector<float> out(tokens * heads * dim), single(heads * dim), split(out);
        kernel::attention::args args{
            q.data(),  heads * dim,        tokens,           heads,      kv_heads,   dim, 0.4f, 5.0f, 20, sinks.data(),
            sequences, sequence_of.data(), positions.data(), out.data(), heads * dim};
        run<kernel::attention>(args);
        if (expected.empty()) expected = out;
        CHECK(out == expected);
        args.out = split.data();
        for (std::size_t item = kernel::attention::items(args); item > 0; --item)
            kernel::attention::reference<kernel::no_format>(args, item - 1, item);
        CHECK(split == expected);
        for (std::size_t t = 0; t < tokens; ++t) { // decoding: one token at a time
            run<kernel::attention>({q.data() + t * heads * dim, 0, 1, heads, kv_heads, dim, 0.4f, 5.0f, 20,
                                    sinks.data(), sequences, &sequence_of[t], &positions[t], single.data(), 0});
            for (std::size_t i = 0; i < heads * dim; ++i) CHECK(single[i] == expected[t * heads * dim + i]);
        }
    }
}

TEST_CASE("kernel/attention: heads share key heads, and a head may be longer than a chunk of the sum") {
    const std::size_t dim = 300;
    std::vector<float> q(2 * dim), k(2 * dim), v(2 * dim), out(2 * dim);
    for (std::size_t i = 0; i < 2 * dim; ++i) v[i] = static_cast<float>(i);
    const kv_page page{k.data(), v.data(), 2}; // two keys of one key head
    const sequence_pages sequence{&page, 1};
    const std::int32_t position = 1, sequence_of = 0;
    run<kernel::attention>(
        {q.data(), 2 * dim, 1, 2, 1, dim, 1, 0, 0, nullptr, &sequence, &sequence_of, &position, out.data(), 2 * dim});
    for (std::size_t i = 0; i < dim; ++i) {
        CHECK(out[i] == static_cast<float>(i) + 150);
        CHECK(out[dim + i] == out[i]);
    }
}

TEST_CASE("kernel/attention: its amount of work follows from what each token sees") {
    const std::int32_t positions[] = {9, 10, 2};
    const std::int32_t sequence_of[] = {0, 0, 1};
    kernel::attention::args a{};
    a.tokens = 3;
    a.heads = 4;
    a.kv_heads = 2;
    a.head_dim = 8;
    a.positions = positions;
    a.sequence_of = sequence_of;
    const kernel::amount all = kernel::attention::work(a);
    CHECK(all.tokens == 3);
    CHECK(all.operations == 4.0 * 4 * 8 * (10 + 11 + 3)); // a product with the key and one with the value
    CHECK(all.other_bytes == 4.0 * (2 * 2 * 8 * (11 + 3) + 2 * 4 * 8 * 3)); // both sequences' keys and values once
    a.window = 4;
    CHECK(kernel::attention::work(a).operations == 4.0 * 4 * 8 * (4 + 4 + 3));
}
