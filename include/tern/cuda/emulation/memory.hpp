// The memory of the emulated device: allocations between guard zones, and which of their bytes somebody wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <tern/cuda/emulation/fault.hpp>
#include <tern/cuda/emulation/guard.hpp>

namespace tern::cuda::emulation {

enum class memory_kind { device, pinned };

/// One allocation: of the device, or of the host and page-locked. Page-locked memory counts as written.
struct allocation {
    memory_kind kind = memory_kind::device;
    unsigned char* data = nullptr;
    std::size_t bytes = 0;
    std::vector<std::uint8_t> unwritten; ///< 1 for each byte that nobody wrote; empty where all are written

    void wrote(std::size_t from, std::size_t count) {
        if (unwritten.empty() || count == 0) return;
        std::memset(unwritten.data() + from, 0, count);
    }
    std::size_t unwritten_in(std::size_t from, std::size_t count) const {
        std::size_t n = 0;
        if (!unwritten.empty())
            for (std::size_t i = from; i < from + count; ++i) n += unwritten[i];
        return n;
    }
    void poison(unsigned char value) {
        for (std::size_t i = 0; i < unwritten.size(); ++i)
            if (unwritten[i]) data[i] = value;
    }
};

class device_memory {
public:
    /// The bytes that `cudaMalloc` may give in all; the next call returns cudaErrorMemoryAllocation.
    std::size_t capacity = std::size_t{1} << 32;

    device_memory() = default;
    device_memory(const device_memory&) = delete;
    device_memory& operator=(const device_memory&) = delete;
    ~device_memory() {
        while (!all_.empty()) release(all_.begin()->second->data);
    }

    /// Null where it does not fit.
    void* allocate(memory_kind kind, std::size_t bytes) {
        if (kind == memory_kind::device && bytes > capacity - used_) return nullptr;
        if (bytes > SIZE_MAX / 2) return nullptr;
        auto a = std::make_unique<allocation>();
        a->kind = kind, a->bytes = bytes;
        void* room = nullptr;
        if (posix_memalign(&room, alignment, alignment + padded(bytes) + guard_bytes) != 0) return nullptr;
        a->data = static_cast<unsigned char*>(room) + alignment;
        if (kind == memory_kind::device) a->unwritten.assign(bytes, 1);
        std::memset(a->data, poison_value, padded(bytes));
        raise_guard(a->data - guard_bytes);
        forbid(a->data + bytes, padded(bytes) - bytes);
        raise_guard(a->data + padded(bytes));
        if (kind == memory_kind::device) used_ += bytes;
        void* data = a->data;
        all_.emplace(a->data, std::move(a));
        return data;
    }
    /// False where no allocation begins there.
    bool release(void* data) {
        const auto found = all_.find(static_cast<unsigned char*>(data));
        if (found == all_.end()) return false;
        const allocation& a = *found->second;
        allow(a.data - guard_bytes, guard_bytes + padded(a.bytes) + guard_bytes);
        if (a.kind == memory_kind::device) used_ -= a.bytes;
        std::free(a.data - alignment);
        all_.erase(found);
        return true;
    }

    /// The allocation that holds all of `bytes` bytes from `address`; null for other memory of the host. Throws where
    /// the range begins inside one and ends outside.
    allocation* find(const void* address, std::size_t bytes) {
        const auto* at = static_cast<const unsigned char*>(address);
        auto next = all_.upper_bound(const_cast<unsigned char*>(at));
        if (next == all_.begin()) return nullptr;
        allocation& a = *std::prev(next)->second;
        if (at >= a.data + a.bytes && !(at == a.data && a.bytes == 0)) return nullptr;
        const auto from = static_cast<std::size_t>(at - a.data);
        if (bytes > a.bytes - from)
            throw fault(fault_kind::global_overflow, std::to_string(bytes) + " bytes from byte " +
                                                         std::to_string(from) + " of an allocation of " +
                                                         std::to_string(a.bytes));
        return &a;
    }

    template <class Visit> void for_each(Visit visit) {
        for (auto& [at, a] : all_) visit(*a);
    }
    /// Throws where somebody wrote beside an allocation.
    void check() const {
        for (const auto& [at, a] : all_) {
            bool stands = guard_stands(a->data - guard_bytes) && guard_stands(a->data + padded(a->bytes));
            if constexpr (!has_asan)
                for (std::size_t i = a->bytes; i < padded(a->bytes); ++i) stands = stands && a->data[i] == poison_value;
            if (!stands)
                throw fault(fault_kind::global_overflow,
                            "a kernel wrote beside an allocation of " + std::to_string(a->bytes) + " bytes");
        }
    }
    std::size_t count() const noexcept { return all_.size(); }
    std::size_t used() const noexcept { return used_; }

private:
    static constexpr std::size_t alignment = 256;
    static constexpr unsigned char poison_value = 0xFF;
    static std::size_t padded(std::size_t bytes) noexcept { return (bytes + 15) / 16 * 16; }

    std::map<unsigned char*, std::unique_ptr<allocation>> all_;
    std::size_t used_ = 0;
};

} // namespace tern::cuda::emulation
