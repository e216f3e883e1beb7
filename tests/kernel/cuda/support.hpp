// Device memory for tests of kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tern/cuda/launch.hpp>

namespace cuda_test {

/// A copy on the device; `get` brings it back.
template <class T> class on_device {
public:
    explicit on_device(const std::vector<T>& from) : on_device(from.size()) {
        cudaMemcpy(data_, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice);
    }
    explicit on_device(std::size_t count) : count_(count) {
        REQUIRE(cudaMalloc(&data_, count * sizeof(T)) == cudaSuccess);
    }
    on_device(const on_device&) = delete;
    on_device& operator=(const on_device&) = delete;
    ~on_device() { cudaFree(data_); }
    T* get() const { return data_; }
    std::vector<T> read() const {
        std::vector<T> to(count_);
        cudaMemcpy(to.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost);
        return to;
    }

private:
    T* data_ = nullptr;
    std::size_t count_;
};

/// Numbers in (-1, 1), the same everywhere.
inline std::vector<float> numbers(std::size_t count, std::uint32_t state = 7) {
    std::vector<float> v(count);
    for (float& x : v) {
        state = state * 1664525u + 1013904223u;
        x = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f;
    }
    return v;
}

inline double worst(const std::vector<float>& got, const std::vector<float>& want) {
    REQUIRE(got.size() == want.size());
    double most = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double e = std::fabs(double(got[i]) - double(want[i]));
        most = e >= most || e != e ? e : most;
    }
    return most;
}

} // namespace cuda_test
