// What a kernel's source includes: under nvcc CUDA itself, under any other compiler the emulation. The same source
// compiles under both.
//
// Shared memory is declared with a type that the emulation can watch:
//
//     __shared__ tern::cuda::shared_array<float, 256> tile;    // tile[i], tile.data(), tile.size()
//     auto rows = tern::cuda::dynamic_shared<float>();         // what the launch gave
//
// A plain `__shared__ float tile[256]` works too, without poison and guard zones.
#pragma once

#include <cstddef>
#include <string>

#include <tern/base/config.hpp>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>
#else
#include <tern/cuda/emulation/half.hpp>
#include <tern/cuda/emulation/intrinsics.hpp>
#include <tern/cuda/emulation/qualifiers.hpp>
#include <tern/cuda/emulation/runtime.hpp>
#include <tern/cuda/emulation/schedules.hpp>
#include <tern/cuda/emulation/vector_types.hpp>
#include <tern/cuda/emulation/warp.hpp>
#endif

namespace tern::cuda {

/// True where kernels run on the host.
#if defined(__CUDACC__)
inline constexpr bool emulated = false;
#else
inline constexpr bool emulated = true;
#endif

/// Size elements of T in the shared memory of a block; declare it `__shared__` in a kernel. Its content is undefined
/// until somebody writes.
#if defined(__CUDACC__)
template <class T, std::size_t Size> struct shared_array {
    alignas(16) T elements[Size];

    __device__ T& operator[](std::size_t i) { return elements[i]; }
    __device__ T* data() { return elements; }
    static constexpr std::size_t size() { return Size; }
};
#else
template <class T, std::size_t Size> class shared_array {
public:
    T& operator[](std::size_t i) {
        if (i >= Size) outside(i);
        return data()[i];
    }
    T* data() {
        emulation::shared_memory& memory = emulation::this_block().shared();
        if (epoch_ != memory.epoch()) {
            data_ = reinterpret_cast<T*>(memory.find(this, Size * sizeof(T)));
            epoch_ = memory.epoch();
        }
        return data_;
    }
    static constexpr std::size_t size() { return Size; }

private:
    [[noreturn]] static void outside(std::size_t i) {
        emulation::this_block().fail(
            {emulation::fault_kind::shared_overflow, "element " + std::to_string(static_cast<std::ptrdiff_t>(i)) +
                                                         " of a shared array of " + std::to_string(Size)});
    }
    T* data_ = nullptr;
    std::size_t epoch_ = 0;
};
#endif

/// The bytes of shared memory that the launch asked for, as elements of T: one array for all who ask.
template <class T> class dynamic_array {
public:
    TERN_HOST_DEVICE dynamic_array(T* data, std::size_t size) : data_(data), size_(size) {}
    TERN_HOST_DEVICE T& operator[](std::size_t i) const {
#if !defined(__CUDACC__)
        if (i >= size_)
            emulation::this_block().fail(
                {emulation::fault_kind::shared_overflow, "element " + std::to_string(static_cast<std::ptrdiff_t>(i)) +
                                                             " of a dynamic shared array of " + std::to_string(size_)});
#endif
        return data_[i];
    }
    TERN_HOST_DEVICE T* data() const { return data_; }
    TERN_HOST_DEVICE std::size_t size() const { return size_; }

private:
    T* data_;
    std::size_t size_;
};

#if defined(__CUDACC__)
template <class T> __device__ dynamic_array<T> dynamic_shared() {
    extern __shared__ unsigned char tern_dynamic_shared[];
    unsigned bytes = 0;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return {reinterpret_cast<T*>(tern_dynamic_shared), bytes / sizeof(T)};
}
#else
template <class T> dynamic_array<T> dynamic_shared() {
    emulation::block_runner& block = emulation::this_block();
    static const char key = 0;
    auto* data = block.shared().find(&key, block.dynamic_shared);
    return {reinterpret_cast<T*>(data), block.dynamic_shared / sizeof(T)};
}
#endif

} // namespace tern::cuda
