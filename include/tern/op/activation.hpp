// An activation: what flows between operators, [rows, cols] floats in the memory of one device.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include <tern/base/checked.hpp>
#include <tern/device/device.hpp>
#include <tern/memory/arena.hpp>
#include <tern/op/scratch_pool.hpp>

namespace tern {

/// Bytes of activations that are alive, and the most there were: what a recorded run finds out.
struct activation_meter {
    bytes alive{};
    bytes peak{};
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
        meter.alive += size_of(rows, cols);
        if (meter.alive > meter.peak) meter.peak = meter.alive;
    }
    activation(activation&& other) noexcept { swap(other); }
    activation& operator=(activation&& other) noexcept {
        activation moved(std::move(other));
        swap(moved);
        return *this;
    }
    ~activation() {
        if (pool_ != nullptr) pool_->give_back(std::move(buffer_));
        if (meter_ != nullptr) meter_->alive.count -= rows_ * cols_ * sizeof(float);
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
