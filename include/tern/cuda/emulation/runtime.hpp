// The CUDA runtime under its own names, over the emulated device: memory, copies, streams, events.
//
// Source of what a call waits for: CUDA Runtime API, "API synchronization behavior". A copy from pageable memory reads
// its source before the call returns, and arrives later; a copy from page-locked memory reads it later, in the stream.
// Faults are exceptions: tern::cuda::emulation::fault, from the call that ran what is broken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <tern/cuda/emulation/device.hpp>

// NOLINTBEGIN: the names are CUDA's.
enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
};
using cudaError = cudaError_t;
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
using cudaStream_t = tern::cuda::emulation::stream_handle*;
using cudaEvent_t = tern::cuda::emulation::event_handle*;
using cudaHostFn_t = void (*)(void*);
inline constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2;
inline constexpr unsigned cudaHostAllocDefault = 0;

namespace tern::cuda::emulation {

/// One end of a copy.
struct copy_end {
    allocation* where = nullptr; ///< null: pageable memory of the host
    std::size_t offset = 0;

    bool on_device() const noexcept { return where && where->kind == memory_kind::device; }
    bool pageable() const noexcept { return !where; }
};

inline copy_end end_of(device_memory& memory, const void* at, std::size_t bytes) {
    allocation* a = memory.find(at, bytes);
    return {a, a ? static_cast<std::size_t>(static_cast<const unsigned char*>(at) - a->data) : 0};
}

/// A number that changes with the bytes. Source: Fowler, Noll and Vo, FNV-1a.
inline std::uint64_t digest(const void* data, std::size_t bytes) noexcept {
    std::uint64_t h = 0xCBF29CE484222325u;
    for (std::size_t i = 0; i < bytes; ++i) h = (h ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001B3u;
    return h;
}

/// Moves the bytes and what is known of them.
inline void perform_copy(const copy_end& to, void* to_at, const copy_end& from, const void* from_at,
                         std::size_t bytes) {
    if (from.on_device() && !to.on_device()) {
        if (const std::size_t n = from.where->unwritten_in(from.offset, bytes); n != 0)
            throw fault(fault_kind::unwritten, std::to_string(n) + " of " + std::to_string(bytes) +
                                                   " bytes copied to the host were written by nobody");
    }
    std::memmove(to_at, from_at, bytes);
    if (!to.on_device()) return;
    if (from.on_device() && from.where->unwritten_in(from.offset, bytes) != 0) {
        if (to.where->unwritten.empty()) to.where->unwritten.assign(to.where->bytes, 0);
        for (std::size_t i = 0; i < bytes; ++i)
            to.where->unwritten[to.offset + i] = from.where->unwritten[from.offset + i];
    } else {
        to.where->wrote(to.offset, bytes);
    }
}

/// Queues a copy; `synchronous` for cudaMemcpy.
inline cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream,
                        bool synchronous) {
    device& d = device::get();
    const auto lock = d.lock();
    if (bytes == 0) return cudaSuccess;
    const copy_end target = end_of(d.memory(), to, bytes), source = end_of(d.memory(), from, bytes);
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind != cudaMemcpyDefault && (to_device != target.on_device() || from_device != source.on_device()))
        return cudaErrorInvalidValue;

    if (source.pageable() && target.on_device()) { // staged: the source is free again when the call returns
        const auto* first = static_cast<const unsigned char*>(from);
        auto stage = std::make_shared<std::vector<unsigned char>>(first, first + bytes);
        d.put(stream, [=] { perform_copy(target, to, source, stage->data(), bytes); });
        return cudaSuccess;
    }
    const bool watched = !source.pageable() && !source.on_device();
    const std::uint64_t before = watched && !synchronous ? digest(from, bytes) : 0;
    const work item = d.put(stream, [=] {
        if (watched && !synchronous && digest(from, bytes) != before)
            throw fault(fault_kind::staging_reused, "the host changed the source of a copy of " +
                                                        std::to_string(bytes) + " bytes before the copy read it");
        perform_copy(target, to, source, from, bytes);
    });
    const bool device_only = target.on_device() && source.on_device();
    const bool touches_pageable = target.pageable() || source.pageable();
    if ((synchronous && !device_only) || touches_pageable)
        d.wait(item);
    else if (!target.on_device() && !item->done)
        std::memset(to, poisons[0], bytes); // not there yet
    return cudaSuccess;
}

inline cudaError_t fill(void* to, int value, std::size_t bytes, cudaStream_t stream) {
    device& d = device::get();
    const auto lock = d.lock();
    if (bytes == 0) return cudaSuccess;
    const copy_end target = end_of(d.memory(), to, bytes);
    if (target.pageable()) return cudaErrorInvalidValue;
    d.put(stream, [=] {
        std::memset(to, value, bytes);
        target.where->wrote(target.offset, bytes);
    });
    return cudaSuccess;
}

inline cudaError_t allocate(memory_kind kind, void** out, std::size_t bytes) {
    device& d = device::get();
    const auto lock = d.lock();
    *out = bytes == 0 ? nullptr : d.memory().allocate(kind, bytes);
    return *out || bytes == 0 ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t release(void* at) {
    if (!at) return cudaSuccess;
    device& d = device::get();
    const auto lock = d.lock();
    d.wait_all_quietly();
    return d.memory().release(at) ? cudaSuccess : cudaErrorInvalidValue;
}

} // namespace tern::cuda::emulation

template <class T> cudaError_t cudaMalloc(T** out, std::size_t bytes) {
    void* at = nullptr;
    const cudaError_t status = tern::cuda::emulation::allocate(tern::cuda::emulation::memory_kind::device, &at, bytes);
    *out = static_cast<T*>(at);
    return status;
}
template <class T> cudaError_t cudaMallocHost(T** out, std::size_t bytes) {
    void* at = nullptr;
    const cudaError_t status = tern::cuda::emulation::allocate(tern::cuda::emulation::memory_kind::pinned, &at, bytes);
    *out = static_cast<T*>(at);
    return status;
}
template <class T> cudaError_t cudaHostAlloc(T** out, std::size_t bytes, unsigned) {
    return cudaMallocHost(out, bytes);
}
inline cudaError_t cudaFree(void* at) { return tern::cuda::emulation::release(at); }
inline cudaError_t cudaFreeHost(void* at) { return tern::cuda::emulation::release(at); }
inline cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    auto& memory = tern::cuda::emulation::device::get().memory();
    *total = memory.capacity, *free = memory.capacity - memory.used();
    return cudaSuccess;
}

inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream = nullptr) {
    return tern::cuda::emulation::copy(to, from, bytes, kind, stream, false);
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    return tern::cuda::emulation::copy(to, from, bytes, kind, nullptr, true);
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream = nullptr) {
    return tern::cuda::emulation::fill(to, value, bytes, stream);
}
inline cudaError_t cudaMemset(void* to, int value, std::size_t bytes) { return cudaMemsetAsync(to, value, bytes); }

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
    auto& d = tern::cuda::emulation::device::get();
    const auto lock = d.lock();
    *out = d.make_stream((flags & cudaStreamNonBlocking) == 0);
    return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t* out) { return cudaStreamCreateWithFlags(out, cudaStreamDefault); }
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    auto& d = tern::cuda::emulation::device::get();
    const auto lock = d.lock();
    d.destroy_stream(stream);
    return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    auto& d = tern::cuda::emulation::device::get();
    const auto lock = d.lock();
    d.wait_stream(stream);
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() {
    auto& d = tern::cuda::emulation::device::get();
    const auto lock = d.lock();
    d.wait_all();
    return cudaSuccess;
}
inline cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t f, void* argument) {
    auto& d = tern::cuda::emulation::device::get();
    const auto lock = d.lock();
    d.put(stream, [=] { f(argument); });
    return cudaSuccess;
}

inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned) {
    *out = new tern::cuda::emulation::event_handle;
    return cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, cudaEventDefault); }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr) {
    auto& d = tern::cuda::emulation::device::get();
    const auto lock = d.lock();
    event->recorded = d.put(stream, [] {});
    return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0) {
    auto& d = tern::cuda::emulation::device::get();
    const auto lock = d.lock();
    d.put(
        stream, [] {}, event->recorded);
    return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    auto& d = tern::cuda::emulation::device::get();
    const auto lock = d.lock();
    d.wait(event->recorded);
    return cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t event) {
    auto& d = tern::cuda::emulation::device::get();
    const auto lock = d.lock();
    return d.poll(event->recorded) ? cudaSuccess : cudaErrorNotReady;
}
/// Time is not emulated: always 0.
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
    *milliseconds = 0;
    return cudaSuccess;
}

inline cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidValue; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t status) {
    switch (status) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorNotReady: return "device not ready";
    }
    return "unknown error";
}
// NOLINTEND
