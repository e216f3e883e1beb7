// Memory for activations: buffers that go back to a pool, so that a steady state takes nothing from the arena.
#pragma once

#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

#include <tern/base/checked.hpp>
#include <tern/base/error.hpp>
#include <tern/memory/arena.hpp>

namespace tern {

/// Keeps the buffers of one device's memory that are free now. Not for use by several threads at once: a decoder's
/// coroutines all run in one loop.
class scratch_pool {
public:
    explicit scratch_pool(arena& memory) : memory_(memory) {}

    arena& memory() const noexcept { return memory_; }

    /// At least `n` bytes; at most a quarter more. Where the arena is full the free buffers are given up first. Throws
    /// budget_error.
    allocation take(bytes n) {
        const bytes size{size_class(n.count)};
        for (std::size_t i = free_.size(); i > 0; --i) {
            if (free_[i - 1].size() != size) continue;
            std::swap(free_[i - 1], free_.back());
            allocation found = std::move(free_.back());
            free_.pop_back();
            return found;
        }
        try {
            return memory_.allocate(size, "activations");
        } catch (const budget_error&) {
            if (free_.empty()) throw;
        }
        free_.clear();
        return memory_.allocate(size, "activations");
    }

    void give_back(allocation buffer) noexcept {
        // Where the list cannot grow, the buffer goes back to the arena instead.
        if (free_.size() == free_.capacity()) {
            try {
                free_.reserve(2 * free_.size() + 16);
            } catch (...) { return; }
        }
        free_.push_back(std::move(buffer));
    }

    /// Gives all free buffers back to the arena.
    void trim() noexcept { free_.clear(); }

    /// Sizes in four steps to a power of two: equal sizes meet again, and little is lost.
    static std::uint64_t size_class(std::uint64_t n) {
        constexpr std::uint64_t smallest = 256;
        if (n <= smallest) return smallest;
        const std::uint64_t step = std::bit_floor(n - 1) / 4;
        return try_round_up(n, step).value_or(n);
    }

private:
    arena& memory_;
    std::vector<allocation> free_;
};

} // namespace tern
