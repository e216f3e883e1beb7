// In which order the threads of a kernel run, and what memory that nobody wrote holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace tern::cuda::emulation {

/// A small generator of random numbers, the same everywhere. Source: Steele, Lea and Flood, "SplitMix", 2014.
class random_source {
public:
    explicit random_source(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() noexcept {
        std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    /// 0 .. below - 1; below > 0.
    std::size_t below(std::size_t below) noexcept { return static_cast<std::size_t>(next() % below); }

private:
    std::uint64_t state_;
};

enum class thread_order { forward, reverse, random };

/// One run of a kernel: the order of its threads, blocks and deferred copies, and the byte of unwritten memory.
struct schedule {
    thread_order order = thread_order::forward;
    std::uint64_t seed = 0;
    unsigned char poison = 0xFF;

    /// Puts `count` things into order.
    template <class Sequence> void arrange(Sequence& things, random_source& random) const {
        const std::size_t count = things.size();
        for (std::size_t i = 0; i < count; ++i)
            things[i] = static_cast<typename Sequence::value_type>(order == thread_order::reverse ? count - 1 - i : i);
        if (order == thread_order::random)
            for (std::size_t i = count; i > 1; --i) std::swap(things[i - 1], things[random.below(i)]);
    }
};

/// The bytes of unwritten memory in two runs: whatever depends on them differs. The first makes floats NaN and whole
/// numbers -1, the second 2.7e-32 and 185273099.
inline constexpr unsigned char poisons[2] = {0xFF, 0x0B};

/// Run k of a kernel: 0 is forward, 1 backward with the other poison, later ones are random.
constexpr schedule schedule_of(unsigned k, std::uint64_t seed) noexcept {
    const thread_order order = k == 0 ? thread_order::forward : k == 1 ? thread_order::reverse : thread_order::random;
    return {order, seed + k, poisons[k % 2]};
}

} // namespace tern::cuda::emulation
