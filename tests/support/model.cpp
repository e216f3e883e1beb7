#include <support/model.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <tern/file/open_checkpoint.hpp>
#include <tern/model/open_decoder.hpp>

namespace tern::test {

namespace {

task<std::vector<float>> run_forward(context& ctx, const decoder& model, const batch& b, any_cache& cache) {
    activation logits = co_await model.forward(ctx, b, cache);
    logits = co_await ctx.bring(std::move(logits), ctx.host());
    co_return std::vector<float>(logits.data(), logits.data() + logits.rows() * logits.cols());
}

} // namespace

std::unique_ptr<decoder> open(const checkpoint& file, residency_store& store) { return open_decoder(file, store); }

model::model(const std::string& path, const runtime_options& options)
    : file_(open_gguf(path)), run_(options), decoder_(open_decoder(file_, run_.store())) {}

graph model::record(std::size_t tokens) {
    return tern::record(*decoder_, run_.loop(), run_.cpu(), tokens, run_.ctx().activations());
}

void model::place(const std::vector<location>& where) {
    placement p{"listed", {}};
    for (const location& l : where) p.tensors.push_back({l, "listed"});
    run_.load(p, record());
}

std::vector<float> model::logits(const batch& b, any_cache& cache) {
    return run_.loop().run(run_forward(run_.ctx(), *decoder_, b, cache));
}

std::vector<std::int32_t> model::greedy(std::span<const std::int32_t> prompt, std::size_t count) {
    contiguous_cache kv = cache(prompt.size() + count);
    std::vector<std::int32_t> chosen;
    batch b;
    b.add(prompt);
    while (chosen.size() < count) {
        const std::vector<float> row = logits(b, kv);
        chosen.push_back(static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin()));
        b.clear();
        b.add(chosen.back(), kv.length(0));
    }
    return chosen;
}

double model::negative_log_likelihood(std::span<const std::int32_t> tokens, std::size_t batch_size) {
    contiguous_cache kv = cache(tokens.size());
    const std::size_t vocabulary = config().vocabulary;
    double sum = 0;
    for (std::size_t begin = 0; begin + 1 < tokens.size(); begin += batch_size) {
        const std::size_t size = std::min(batch_size, tokens.size() - 1 - begin);
        const std::vector<float> rows = logits(tokens.subspan(begin, size), kv);
        for (std::size_t i = 0; i < size; ++i)
            sum += negative_log_probability(std::span(rows).subspan(i * vocabulary, vocabulary), tokens[begin + i + 1]);
    }
    return sum;
}

double negative_log_probability(std::span<const float> logits, std::int32_t token) {
    const auto greatest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
    double total = 0;
    for (const float x : logits) total += std::exp(static_cast<double>(x) - greatest);
    return std::log(total) + greatest - static_cast<double>(logits[static_cast<std::size_t>(token)]);
}

double relative_error(std::span<const float> got, std::span<const float> expected) {
    double largest = 0;
    double difference = got.size() == expected.size() ? 0 : 1e30;
    for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
        largest = std::max(largest, std::fabs(static_cast<double>(expected[i])));
        const double d = std::fabs(static_cast<double>(got[i]) - static_cast<double>(expected[i]));
        difference = d <= difference ? difference : d; // a NaN counts
    }
    return difference / largest;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

} // namespace tern::test
