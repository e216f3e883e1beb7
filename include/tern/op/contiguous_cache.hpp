// A key-value cache with one stretch of memory for each sequence.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include <tern/base/checked.hpp>
#include <tern/device/device.hpp>
#include <tern/memory/arena.hpp>
#include <tern/op/kv_cache.hpp>

namespace tern {

/// All memory is taken at once: 2 * layers * sequences * context * width floats. Nothing is allocated afterwards.
///
///     tern::contiguous_cache cache{ram, {.layers = 5, .width = 32, .context = 512}};
template <class = void> class basic_contiguous_cache {
public:
    /// Throws budget_error where `memory` does not hold it. `memory` must be readable by the host and outlive the
    /// cache.
    basic_contiguous_cache(arena& memory, const kv_shape& shape)
        : shape_(shape), data_(memory.allocate(bytes_for(shape), "the key-value cache")), lengths_(shape.sequences),
          pages_(shape.layers * shape.sequences) {
        for (std::size_t layer = 0; layer < shape.layers; ++layer)
            for (std::size_t sequence = 0; sequence < shape.sequences; ++sequence)
                pages_[layer * shape.sequences + sequence] = {keys(layer, sequence), values(layer, sequence), 0};
    }

    /// The same in the memory of a device, where attention is computed then. The host must be able to write there: it
    /// is for an emulated accelerator, whose memory is the host's.
    basic_contiguous_cache(device& on, const kv_shape& shape) : basic_contiguous_cache(on.memory(), shape) {
        on_ = &on;
    }

    /// Where attention is computed; null: on the host.
    device* computes_on(std::size_t) const noexcept { return on_; }

    /// Bytes that a cache of a shape takes.
    static bytes bytes_for(const kv_shape& s) {
        std::uint64_t n = 2 * sizeof(float);
        for (const std::uint64_t f : {s.layers, s.sequences, s.context, s.width})
            n = checked_mul<std::uint64_t>(n, f, "the size of a key-value cache");
        return {n};
    }

    const kv_shape& shape() const noexcept { return shape_; }
    std::size_t length(std::size_t sequence) const {
        detail::check_sequence(shape_, sequence);
        return lengths_[sequence];
    }

    void reserve(const batch& b) {
        planned_ = lengths_;
        detail::continue_sequences(
            shape_, b, [this](std::size_t s) { return planned_[s]; }, [this](std::size_t s) { ++planned_[s]; });
        lengths_ = planned_;
        for (std::size_t s = 0; s < shape_.sequences; ++s) set_length(s, lengths_[s]);
    }

    void append(std::size_t layer, const batch& b, const float* k, const float* v) {
        for (std::size_t i = 0; i < b.size(); ++i) {
            const auto sequence = static_cast<std::size_t>(b.sequences[i]);
            const std::size_t at = static_cast<std::size_t>(b.positions[i]) * shape_.width;
            std::memcpy(keys(layer, sequence) + at, k + i * shape_.width, shape_.width * sizeof(float));
            std::memcpy(values(layer, sequence) + at, v + i * shape_.width, shape_.width * sizeof(float));
        }
    }

    kernel::sequence_pages pages(std::size_t layer, std::size_t sequence) const {
        return {&pages_[layer * shape_.sequences + sequence], 1};
    }

    /// Forgets the tokens from `length` on; a longer length changes nothing.
    void truncate(std::size_t sequence, std::size_t length) {
        detail::check_sequence(shape_, sequence);
        if (length < lengths_[sequence]) set_length(sequence, length);
    }

    void copy(std::size_t from, std::size_t to) {
        detail::check_sequence(shape_, from);
        detail::check_sequence(shape_, to);
        if (from == to) return;
        const std::size_t size = lengths_[from] * shape_.width * sizeof(float);
        for (std::size_t layer = 0; layer < shape_.layers; ++layer) {
            if (size != 0) std::memcpy(keys(layer, to), keys(layer, from), size);
            if (size != 0) std::memcpy(values(layer, to), values(layer, from), size);
        }
        set_length(to, lengths_[from]);
    }

private:
    float* keys(std::size_t layer, std::size_t sequence) const noexcept {
        return reinterpret_cast<float*>(data_.data()) +
               2 * (layer * shape_.sequences + sequence) * shape_.context * shape_.width;
    }
    float* values(std::size_t layer, std::size_t sequence) const noexcept {
        return keys(layer, sequence) + shape_.context * shape_.width;
    }
    void set_length(std::size_t sequence, std::size_t length) {
        lengths_[sequence] = length;
        for (std::size_t layer = 0; layer < shape_.layers; ++layer)
            pages_[layer * shape_.sequences + sequence].tokens = length;
    }

    kv_shape shape_;
    device* on_ = nullptr;
    allocation data_;
    std::vector<std::size_t> lengths_;
    std::vector<std::size_t> planned_; // of `reserve`, kept so that nothing is allocated
    std::vector<kernel::kv_page> pages_;
};

/// The cache. (A template underneath, so that a program compiles it only where it is used.)
using contiguous_cache = basic_contiguous_cache<>;

static_assert(kv_cache<contiguous_cache>);

} // namespace tern
