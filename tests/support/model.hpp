// A model file opened, placed and run, for tests. The decoders are compiled once, in model.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tern/file/checkpoint.hpp>
#include <tern/model/decoder.hpp>
#include <tern/model/runtime.hpp>
#include <tern/op/any_cache.hpp>
#include <tern/op/contiguous_cache.hpp>

namespace tern::test {

/// Opens the decoder of a file: open_decoder, without its compile time.
std::unique_ptr<decoder> open(const checkpoint& file, residency_store& store);

/// A decoder with its file and its runtime. Nothing is placed at first: then everything is computed on the host, from
/// the mapping.
class model {
public:
    explicit model(const std::string& path, const runtime_options& options = {.threads = 2});

    runtime& run() noexcept { return run_; }
    const checkpoint& file() const noexcept { return file_; }
    const decoder& decode() const noexcept { return *decoder_; }
    const decoder_config& config() const noexcept { return decoder_->config(); }
    /// The graph of `tokens` tokens at once.
    graph record(std::size_t tokens = 32);

    /// Places by a policy; gives the placement.
    template <placement_policy P> placement place(const P& policy) {
        const graph g = record();
        placement p = policy.place(g, run_.machine());
        run_.load(p, g);
        return p;
    }
    /// Places the tensors of the graph at these locations, in order.
    void place(const std::vector<location>& where);

    /// A cache for `sequences` of at most `tokens`.
    contiguous_cache cache(std::size_t tokens, std::size_t sequences = 1) {
        return {run_.ram(), config().cache_for(tokens, sequences)};
    }

    /// The logits [outputs, vocabulary] of a batch.
    template <kv_cache Cache> std::vector<float> logits(const batch& b, Cache& cache) {
        any_cache any(cache);
        return logits(b, any);
    }
    std::vector<float> logits(const batch& b, any_cache& cache);
    /// The logits of every token of a run that continues sequence `sequence`.
    template <kv_cache Cache>
    std::vector<float> logits(std::span<const std::int32_t> tokens, Cache& cache, std::size_t sequence = 0) {
        batch b;
        b.add(tokens, cache.length(sequence), sequence, true);
        return logits(b, cache);
    }

    /// `count` tokens, each the most probable one, after `prompt`.
    std::vector<std::int32_t> greedy(std::span<const std::int32_t> prompt, std::size_t count);

    /// The sum of -ln p(token i | tokens before it) over tokens 1 to n - 1, all in one sequence.
    double negative_log_likelihood(std::span<const std::int32_t> tokens, std::size_t batch_size = 64);

private:
    checkpoint file_;
    runtime run_;
    std::unique_ptr<decoder> decoder_;
};

/// -ln of the probability that logits give to a token.
double negative_log_probability(std::span<const float> logits, std::int32_t token);

/// The largest difference between two rows of logits, relative to the largest magnitude in `expected`.
double relative_error(std::span<const float> got, std::span<const float> expected);

/// True where two vectors hold the same bits.
bool same_bits(std::span<const float> a, std::span<const float> b);

} // namespace tern::test
