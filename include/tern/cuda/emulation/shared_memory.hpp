// The shared memory of a block: arrays between guard zones, poisoned when the block begins.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <tern/cuda/emulation/fault.hpp>
#include <tern/cuda/emulation/guard.hpp>

namespace tern::cuda::emulation {

class shared_memory {
public:
    static constexpr std::size_t most = 227 * 1024; // of one block, on sm_90

    shared_memory() : room_(new unsigned char[room_bytes + alignment]) {
        const auto address = reinterpret_cast<std::uintptr_t>(room_.get());
        base_ = room_.get() + (alignment - address % alignment) % alignment;
    }
    ~shared_memory() { allow(base_, room_bytes); }
    shared_memory(const shared_memory&) = delete;
    shared_memory& operator=(const shared_memory&) = delete;

    /// A new block begins: no arrays, and `limit` bytes for those to come.
    void begin(unsigned char poison, std::size_t limit) {
        poison_ = poison, limit_ = limit, used_ = top_ = 0;
        arrays_.clear();
        ++epoch_;
    }
    /// Changes with each block: an address that was found is good for one epoch.
    std::size_t epoch() const noexcept { return epoch_; }

    /// The array of `key` in this block; the first who asks makes it.
    unsigned char* find(const void* key, std::size_t bytes) {
        for (const array& a : arrays_)
            if (a.key == key) return a.data;
        if (bytes > limit_ - used_)
            throw fault(fault_kind::shared_overflow, "a block has " + std::to_string(limit_) +
                                                         " bytes of shared memory, and needs " +
                                                         std::to_string(used_ + bytes));
        const std::size_t padding = (bytes + alignment - 1) / alignment * alignment - bytes;
        if (top_ + 2 * guard_bytes + bytes + padding > room_bytes)
            throw fault(fault_kind::shared_overflow, "too many shared arrays in one block");
        used_ += bytes;
        unsigned char* data = base_ + top_ + guard_bytes;
        raise_guard(data - guard_bytes);
        allow(data, bytes);
        std::memset(data, poison_, bytes);
        // The guard begins with the first byte past the array, whatever its size.
        allow(data + bytes, padding);
        std::memset(data + bytes, guard_value, padding);
        forbid(data + bytes, padding);
        raise_guard(data + bytes + padding);
        top_ += guard_bytes + bytes + padding;
        arrays_.push_back({key, data, bytes, padding});
        return data;
    }

    /// Throws where somebody wrote beside an array.
    void check() const {
        for (const array& a : arrays_) {
            bool stands = guard_stands(a.data - guard_bytes) && guard_stands(a.data + a.bytes + a.padding);
            if constexpr (!has_asan)
                for (std::size_t i = 0; i < a.padding; ++i) stands = stands && a.data[a.bytes + i] == guard_value;
            if (!stands)
                throw fault(fault_kind::shared_overflow,
                            "a thread wrote beside a shared array of " + std::to_string(a.bytes) + " bytes");
        }
    }

private:
    static constexpr std::size_t alignment = 128;
    static constexpr std::size_t room_bytes = 2 * most;
    struct array {
        const void* key;
        unsigned char* data;
        std::size_t bytes, padding;
    };

    std::unique_ptr<unsigned char[]> room_;
    unsigned char* base_ = nullptr;
    unsigned char poison_ = 0;
    std::size_t limit_ = 0, used_ = 0, top_ = 0, epoch_ = 0;
    std::vector<array> arrays_;
};

} // namespace tern::cuda::emulation
