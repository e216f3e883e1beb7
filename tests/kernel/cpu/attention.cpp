#include <doctest/doctest.h>

#include <limits>

#include <tern/kernel/cpu/attention.hpp>

#include "support.hpp"

#if defined(__x86_64__)

using namespace tern;
using namespace tern::test;
using kernel::kv_page;
using kernel::sequence_pages;
using kernel::cpu::attention_avx2;

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
    attention_avx2({&q, 1, 1, 1, 1, 1, 1.0f, soft_cap, window, sink, &sequence, &sequence_of, &position, &out, 1}, 0,
                   1);
    return out;
}

} // namespace

TEST_CASE("kernel/cpu/attention: hand-computed cases") {
    if (!has_avx2()) return;
    CHECK(one({0, 0}, {1, 3}, 1) == 2);
    CHECK(one({0, 0}, {1, 3}, 0) == 1);
    CHECK(one({0, std::log(3.0f)}, {0, 4}, 1) == doctest::Approx(3));
    CHECK(one({100, 0}, {1, 0}, 1, 0, nullptr, 1) == doctest::Approx(1 / (1 + std::exp(-1))));
    CHECK(one({-20000, 0}, {1, 100}, 0) == 1);
    CHECK(one({1, 2}, {1, 2}, -1) == 0);
    CHECK(one({-inf, -inf}, {1, 2}, 1) == 0);
    CHECK(one({-inf, 0}, {1, 2}, 1) == 2);
    CHECK(one({}, {}, 3) == 0);
    CHECK(one({0, 0, not_a_number}, {1, 3, not_a_number}, 1) == 2);
    CHECK(one({not_a_number, not_a_number, 0, not_a_number}, {not_a_number, inf, 5, not_a_number}, 2, 1) == 5);
    CHECK(std::isnan(one({0, not_a_number}, {1, 3}, 1)));
    CHECK(std::isnan(one({not_a_number}, {1}, 0)));
    const float sink = 0, none = -inf;
    CHECK(one({0}, {3}, 0, 0, &sink) == 1.5f);
    CHECK(one({0}, {3}, 0, 0, &none) == 3);
    CHECK(one({}, {}, 0, 0, &sink) == 0);
    std::vector<float> k(12), v(12);
    for (std::size_t i = 0; i < 12; ++i) v[i] = static_cast<float>(i);
    CHECK(one(k, v, 10, 4) == 8.5f);
}

TEST_CASE("kernel/cpu/attention: sinks far from the scores leave everything or nothing, as in the reference") {
    if (!has_avx2()) return;
    constexpr std::size_t heads = 6, dim = 8, keys = 77, width = heads * dim;
    numbers from{3};
    const auto k = from(keys * dim, -2, 2), v = from(keys * dim, -2, 2), q = from(keys * width, -2, 2);
    const float sinks[heads] = {-1e4f, -30, 0, 30, 1e4f, -std::numeric_limits<float>::infinity()};
    const kv_page page{k.data(), v.data(), keys};
    const sequence_pages sequence{&page, 1};
    std::vector<std::int32_t> positions(keys), sequence_of(keys);
    for (std::size_t t = 0; t < keys; ++t) positions[t] = static_cast<std::int32_t>(t);
    for (const std::size_t window : {0u, 5u, 40u}) {
        std::vector<float> out(keys * width), expected(out);
        kernel::attention::args args{
            q.data(),         width,      keys, heads, 1, dim, 0.4f, 0, window, sinks, &sequence, sequence_of.data(),
            positions.data(), out.data(), width};
        attention_avx2(args, 0, kernel::attention::items(args));
        args.out = expected.data();
        run<kernel::attention>(args);
        for (std::size_t i = 0; i < out.size(); ++i) {
            REQUIRE(std::abs(double(out[i]) - double(expected[i])) <= 4e-6);
            if (i % width / dim == 4) REQUIRE(out[i] == 0); // the sink takes all
        }
    }
}

TEST_CASE("kernel/cpu/attention: within 2e-6 of the reference; pages, batches and splits change no bit") {
    if (!has_avx2()) return;
    struct shape {
        std::size_t heads, kv_heads, dim, window;
        float cap;
        bool sinks;
    };
    for (const shape& s : {shape{6, 2, 5, 0, 0, false}, shape{4, 4, 64, 20, 5, true}, shape{10, 1, 72, 0, 0, true},
                           shape{2, 1, 136, 3, 0, false}}) {
        const std::size_t keys = 101, row = s.kv_heads * s.dim, width = s.heads * s.dim, tokens = 2 * keys;
        numbers from{s.dim};
        const auto k = from(2 * keys * row, -2, 2), v = from(2 * keys * row, -2, 2), q = from(tokens * width, -2, 2);
        const auto sinks = from(s.heads, -1, 1);
        std::vector<std::int32_t> positions, sequence_of;
        for (std::size_t t = 0; t < tokens; ++t) {
            positions.push_back(static_cast<std::int32_t>(t / 2));
            sequence_of.push_back(static_cast<std::int32_t>(t % 2));
        }
        std::vector<float> first_result;
        for (const std::size_t size : {101, 16, 7, 1}) {
            std::vector<kv_page> pages[2];
            for (std::size_t n = 0; n < 2; ++n)
                for (std::size_t at = 0; at < keys; at += size)
                    pages[n].push_back({k.data() + (n * keys + at) * row, v.data() + (n * keys + at) * row,
                                        size < keys - at ? size : keys - at});
            const sequence_pages sequences[] = {{pages[0].data(), pages[0].size()}, {pages[1].data(), pages[1].size()}};
            std::vector<float> out(tokens * width), expected(out), split(out);
            kernel::attention::args args{q.data(),
                                         width,
                                         tokens,
                                         s.heads,
                                         s.kv_heads,
                                         s.dim,
                                         0.3f,
                                         s.cap,
                                         s.window,
                                         s.sinks ? sinks.data() : nullptr,
                                         sequences,
                                         sequence_of.data(),
                                         positions.data(),
                                         out.data(),
                                         width};
            attention_avx2(args, 0, kernel::attention::items(args));
            if (first_result.empty()) {
                first_result = out;
                args.out = expected.data();
                run<kernel::attention>(args);
                for (std::size_t i = 0; i < out.size(); ++i)
                    REQUIRE(std::abs(double(out[i]) - double(expected[i])) <= 2e-6 * 2 * 2);
            }
            REQUIRE(same(out, first_result));
            args.out = split.data();
            for (std::size_t item = 0; item < kernel::attention::items(args);) {
                const std::size_t take = 1 + from.bits() % 7, left = kernel::attention::items(args) - item;
                attention_avx2(args, item, item + (take < left ? take : left));
                item += take < left ? take : left;
            }
            REQUIRE(same(split, first_result));
            for (std::size_t t = 0; t < tokens; t += 13) {
                std::vector<float> single(width);
                attention_avx2({q.data() + t * width, 0, 1, s.heads, s.kv_heads, s.dim, 0.3f, s.cap, s.window,
                                s.sinks ? sinks.data() : nullptr, sequences, &sequence_of[t], &positions[t],
                                single.data(), 0},
                               0, s.heads);
                for (std::size_t i = 0; i < width; ++i) REQUIRE(same(single[i], first_result[t * width + i]));
            }
        }
    }
}

#endif
