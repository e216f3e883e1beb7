// A key-value cache without keys and values: it knows how long each sequence is.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <tern/device/device.hpp>
#include <tern/op/kv_cache.hpp>

namespace tern {

/// Satisfies kv_cache. `start_at` pretends that a sequence has tokens already: a depth to decode at.
///
///     tern::sim_cache cache(model->config().cache_for(4096));
///     cache.start_at(2048);
class sim_cache {
public:
    /// `on`: for each layer the device that keeps it; null, or missing, is the host.
    explicit sim_cache(const kv_shape& shape, std::vector<device*> on = {})
        : shape_(shape), on_(std::move(on)), sequences_(shape.sequences) {}

    device* computes_on(std::size_t layer) const noexcept { return layer < on_.size() ? on_[layer] : nullptr; }

    /// Sequence 0 has this many tokens.
    void start_at(std::size_t tokens) noexcept { sequences_[0].tokens = tokens; }

    kv_shape shape() const noexcept { return shape_; }
    std::size_t length(std::size_t sequence) const { return at(sequence).tokens; }
    void reserve(const batch& b) {
        detail::continue_sequences(
            shape_, b, [&](std::size_t s) { return sequences_[s].tokens; },
            [&](std::size_t s) { ++sequences_[s].tokens; });
    }
    void append(std::size_t, const batch&, const float*, const float*) noexcept {}
    kernel::sequence_pages pages(std::size_t, std::size_t sequence) const { return {&at(sequence), 1}; }
    void truncate(std::size_t sequence, std::size_t length) {
        if (length < at(sequence).tokens) sequences_[sequence].tokens = length;
    }
    void copy(std::size_t from, std::size_t to) {
        const std::size_t tokens = at(from).tokens;
        detail::check_sequence(shape_, to);
        sequences_[to].tokens = tokens;
    }

private:
    const kernel::kv_page& at(std::size_t sequence) const {
        detail::check_sequence(shape_, sequence);
        return sequences_[sequence];
    }

    kv_shape shape_;
    std::vector<device*> on_;
    std::vector<kernel::kv_page> sequences_; // one page without bytes for each
};

static_assert(kv_cache<sim_cache>);

} // namespace tern
