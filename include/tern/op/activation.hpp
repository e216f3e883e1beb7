// An activation: what flows between operators, [rows, cols] floats in the memory of one device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tern/base/checked.hpp>
#include <tern/device/device.hpp>
#include <tern/memory/arena.hpp>
#include <tern/op/scratch_pool.hpp>

namespace tern {

/// What a recorded run finds out: the bytes that a pool will have taken after a run of the same shape. A pool keeps
/// buffers by size, so that is, for each size, the most that were alive at once.
class activation_meter {
public:
    bytes peak() const noexcept { return peak_; }

    void add(bytes n) {
        const std::uint64_t size = scratch_pool::size_class(n.count);
        std::size_t i = 0;
        while (i < sizes_.size() && sizes_[i].size != size) ++i;
        if (i == sizes_.size()) sizes_.push_back({size});
        if (++sizes_[i].alive <= sizes_[i].peak) return;
        ++sizes_[i].peak;
        peak_ += bytes{size};
    }
    void remove(bytes n) noexcept {
        for (counted& c : sizes_)
            if (c.size == scratch_pool::size_class(n.count)) --c.alive;
    }

private:
    struct counted {
        std::uint64_t size;
        std::size_t alive = 0;
        std::size_t peak = 0;
    };
    std::vector<counted> sizes_;
    bytes peak_{};
};

/// [rows, cols] f32, contiguous. Move-only; its buffer goes back to the pool it came from, which must outlive it. While
/// a decoder is recorded an activation has a shape and no data.
class activation {
public:
    activation() = default;
    /// Room on a device.
    activation(device& on, scratch_pool& pool, std::size_t rows, std::size_t cols)
        : on_(&on), pool_(&pool), rows_(rows), cols_(cols), buffer_(pool.take(size_of(rows, cols))) {}
    /// A shape without data, counted by a meter.
    activation(activation_meter& meter, std::size_t rows, std::size_t cols) : meter_(&meter), rows_(rows), cols_(cols) {
        meter.add(size_of(rows, cols));
    }
    activation(activation&& other) noexcept { swap(other); }
    activation& operator=(activation&& other) noexcept {
        activation moved(std::move(other));
        swap(moved);
        return *this;
    }
    ~activation() {
        if (pool_ != nullptr) pool_->give_back(std::move(buffer_));
        if (meter_ != nullptr) meter_->remove(size());
    }

    std::size_t rows() const noexcept { return rows_; }
    std::size_t cols() const noexcept { return cols_; }
    bytes size() const noexcept { return {rows_ * cols_ * sizeof(float)}; }
    /// Where it lies; null for a shape without data.
    device* on() const noexcept { return on_; }
    /// Readable by `on()` alone; null for a shape without data.
    float* data() const noexcept { return reinterpret_cast<float*>(buffer_.data()); }
    float* row(std::size_t r) const noexcept { return data() + r * cols_; }

private:
    static bytes size_of(std::size_t rows, std::size_t cols) {
        return {checked_mul<std::uint64_t>(checked_mul<std::uint64_t>(rows, cols, "the size of an activation"),
                                           sizeof(float), "the size of an activation")};
    }
    void swap(activation& other) noexcept {
        std::swap(on_, other.on_);
        std::swap(pool_, other.pool_);
        std::swap(meter_, other.meter_);
        std::swap(rows_, other.rows_);
        std::swap(cols_, other.cols_);
        std::swap(buffer_, other.buffer_);
    }

    device* on_ = nullptr;
    scratch_pool* pool_ = nullptr;
    activation_meter* meter_ = nullptr;
    std::size_t rows_ = 0;
    std::size_t cols_ = 0;
    allocation buffer_{};
};

} // namespace tern
