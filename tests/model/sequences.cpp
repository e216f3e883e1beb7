// Several sequences in ragged batches give each one the bits of its solo run, whatever cache keeps them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/op/any_cache.hpp>
#include <tern/op/contiguous_cache.hpp>
#include <tern/op/paged_cache.hpp>

#include <support/data.hpp>
#include <support/model.hpp>

namespace {

namespace test = tern::test;

constexpr std::size_t vocabulary = 128;
constexpr std::size_t longest = 40;

std::vector<std::int32_t> tokens_of(std::size_t sequence) {
    std::vector<std::int32_t> tokens;
    for (std::size_t i = 0; i < longest; ++i)
        tokens.push_back(static_cast<std::int32_t>((i * i * 7 + i * 13 + sequence * 41 + 5) % vocabulary));
    return tokens;
}

/// The logits of every token of a sequence that runs alone, one batch.
std::vector<float> solo(test::model& m, std::span<const std::int32_t> tokens) {
    tern::contiguous_cache kv = m.cache(longest);
    return m.logits(tokens, kv);
}

std::span<const float> row(const std::vector<float>& rows, std::size_t i) {
    return std::span(rows).subspan(i * vocabulary, vocabulary);
}

/// Runs ragged batches of three sequences and compares every row; then copies, truncates and goes on.
template <class Cache> void check_cache(test::model& m, Cache& kv) {
    std::vector<std::vector<std::int32_t>> tokens;
    std::vector<std::vector<float>> expected;
    for (std::size_t s = 0; s < 3; ++s) {
        tokens.push_back(tokens_of(s));
        expected.push_back(solo(m, tokens[s]));
    }
    // How many tokens of each sequence every batch holds; its order of sequences turns from batch to batch.
    const std::size_t shares[][3] = {{7, 1, 0}, {1, 12, 3}, {0, 1, 1}, {9, 2, 8}, {1, 1, 1}};
    std::size_t at[3] = {};
    std::size_t turn = 0;
    for (const auto& share : shares) {
        tern::batch b;
        std::vector<std::pair<std::size_t, std::size_t>> rows; // of each output: sequence and position
        std::size_t left[3] = {share[0], share[1], share[2]};
        for (std::size_t k = turn++; left[0] + left[1] + left[2] > 0; ++k) { // one token of each in turn: interleaved
            const std::size_t s = k % 3;
            if (left[s] == 0) continue;
            --left[s];
            rows.emplace_back(s, at[s]);
            b.add(tokens[s][at[s]], at[s], s);
            ++at[s];
        }
        const std::vector<float> got = m.logits(b, kv);
        REQUIRE(got.size() == rows.size() * vocabulary);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            CAPTURE(rows[i].first);
            CAPTURE(rows[i].second);
            CHECK(test::same_bits(row(got, i), row(expected[rows[i].first], rows[i].second)));
        }
    }
    // Sequence 2 becomes a copy of 0, and both go on: 0 as before, 2 with other tokens.
    kv.copy(0, 2);
    CHECK(kv.length(2) == at[0]);
    std::vector<std::int32_t> branch(tokens[0].begin(), tokens[0].begin() + static_cast<std::ptrdiff_t>(at[0]));
    for (std::size_t i = 0; i < 5; ++i) branch.push_back(static_cast<std::int32_t>(100 + i));
    const std::vector<float> branched = solo(m, branch);
    for (std::size_t i = 0; i < 5; ++i) {
        tern::batch b;
        b.add(branch[at[0]], at[0], 2);
        b.add(tokens[0][at[0]], at[0], 0);
        const std::vector<float> got = m.logits(b, kv);
        CHECK(test::same_bits(row(got, 0), row(branched, at[0])));
        CHECK(test::same_bits(row(got, 1), row(expected[0], at[0])));
        ++at[0];
    }
    // A sequence is cut and decoded again, first with the branch's tokens, then with its own.
    kv.truncate(2, 3);
    CHECK(kv.length(2) == 3);
    const std::span<const std::int32_t> again(tokens[0]);
    const std::vector<float> got = m.logits(again.subspan(3, 10), kv, 2);
    for (std::size_t i = 0; i < 10; ++i) CHECK(test::same_bits(row(got, i), row(expected[0], 3 + i)));
    // The others did not notice.
    for (const std::size_t s : {0u, 1u}) {
        const std::vector<float> next = m.logits(std::span(tokens[s]).subspan(at[s], 1), kv, s);
        CHECK(test::same_bits(next, row(expected[s], at[s])));
    }
}

} // namespace

TEST_CASE(
    "model/sequences: three interleaved sequences give the bits of their solo runs, with windows and with experts") {
    for (const char* name : {"gemma3", "llama_moe", "qwen2", "gpt_oss"}) {
        CAPTURE(name);
        test::model m(test::source_file(std::string("tests/data/logits/") + name + ".gguf"));
        tern::contiguous_cache contiguous = m.cache(longest, 3);
        check_cache(m, contiguous);
        for (const std::size_t page : {1u, 7u, 32u}) {
            CAPTURE(page);
            tern::paged_cache paged(m.run().ram(), m.config().cache_for(longest, 3), page);
            check_cache(m, paged);
            tern::any_cache behind(paged);
            for (std::size_t s = 0; s < 3; ++s) behind.truncate(s, 0);
            CHECK(paged.pages_free() == paged.pages_taken());
        }
    }
}

TEST_CASE("model/sequences: the gemma3 file has a window shorter than the sequences") {
    test::model m(test::source_file("tests/data/logits/gemma3.gguf"));
    CHECK(m.config().window == 8);
}
