// Warp operations and barriers under CUDA's names: shuffles, votes, matches, reductions.
//
// Source: CUDA C++ Programming Guide, "Warp Shuffle Functions", "Warp Vote Functions", "Synchronization Functions".
// A lane that reads from a lane which does not take part gets poison.
#pragma once

#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#include <tern/cuda/emulation/block.hpp>

namespace tern::cuda::emulation {

enum class shuffle_kind { index, up, down, exclusive_or };

template <class T> struct shuffle_request {
    T value;
    unsigned source;
};

/// The lane that lane `lane` reads, in groups of `width` lanes.
inline unsigned shuffle_source(shuffle_kind kind, unsigned lane, unsigned operand, unsigned width) noexcept {
    const unsigned inside = lane % width, first = lane - inside;
    switch (kind) {
    case shuffle_kind::index: return first + operand % width;
    case shuffle_kind::up: return operand > inside ? lane : lane - operand;
    case shuffle_kind::down: return operand >= width - inside ? lane : lane + operand;
    case shuffle_kind::exclusive_or: break;
    }
    const unsigned source = lane ^ (operand & 31u);
    return source >= first + width ? lane : source;
}

template <shuffle_kind Kind, class T>
T shuffle(unsigned mask, T value, unsigned operand, int width, std::source_location where) {
    static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8),
                  "a shuffle takes 2, 4 or 8 bytes");
    block_runner& block = this_block();
    if (width < 1 || width > 32 || (width & (width - 1)) != 0)
        block.fail({fault_kind::misuse, "the width of a shuffle is " + std::to_string(width)});
    const shuffle_request<T> request{value, shuffle_source(Kind, block.lane(), operand, static_cast<unsigned>(width))};
    T result = value;
    const warp_operation exchange = [](const warp_slots& slots) {
        for (unsigned lane = 0; lane < 32; ++lane) {
            if (((slots.there >> lane) & 1u) == 0) continue;
            const auto* mine = static_cast<const shuffle_request<T>*>(slots.in[lane]);
            auto* out = static_cast<T*>(slots.out[lane]);
            if ((slots.there >> mine->source) & 1u)
                *out = static_cast<const shuffle_request<T>*>(slots.in[mine->source])->value;
            else
                std::memset(static_cast<void*>(out), slots.poison, sizeof(T));
        }
    };
    block.meet(exchange, mask, &request, &result, where);
    return result;
}

/// An operation whose lanes bring T and take R: Combine(slots, lane) gives a lane's result.
template <class R, class T, class Combine> R warp_reduce(unsigned mask, T value, Combine, std::source_location where) {
    static_assert(std::is_empty_v<Combine>);
    R result{};
    const warp_operation run = [](const warp_slots& slots) {
        for (unsigned lane = 0; lane < 32; ++lane)
            if ((slots.there >> lane) & 1u) *static_cast<R*>(slots.out[lane]) = Combine{}(slots, lane);
    };
    this_block().meet(run, mask, &value, &result, where);
    return result;
}

/// What lane `lane` brought.
template <class T> T brought(const warp_slots& slots, unsigned lane) noexcept {
    return *static_cast<const T*>(slots.in[lane]);
}
/// fold(a, b) over the lanes that are there.
template <class T, class Fold> T fold(const warp_slots& slots, Fold f) noexcept {
    T sum{};
    bool first = true;
    for (unsigned lane = 0; lane < 32; ++lane)
        if ((slots.there >> lane) & 1u) {
            sum = first ? brought<T>(slots, lane) : f(sum, brought<T>(slots, lane));
            first = false;
        }
    return sum;
}

} // namespace tern::cuda::emulation

// NOLINTBEGIN: the names are CUDA's.
inline void __syncthreads(std::source_location where = std::source_location::current()) {
    using namespace tern::cuda::emulation;
    this_block().barrier(barrier_result::none, 0, where);
}
inline int __syncthreads_count(int p, std::source_location where = std::source_location::current()) {
    using namespace tern::cuda::emulation;
    return this_block().barrier(barrier_result::count, p, where);
}
inline int __syncthreads_and(int p, std::source_location where = std::source_location::current()) {
    using namespace tern::cuda::emulation;
    return this_block().barrier(barrier_result::all, p, where);
}
inline int __syncthreads_or(int p, std::source_location where = std::source_location::current()) {
    using namespace tern::cuda::emulation;
    return this_block().barrier(barrier_result::any, p, where);
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, std::source_location where = std::source_location::current()) {
    tern::cuda::emulation::this_block().meet(nullptr, mask, nullptr, nullptr, where);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              std::source_location where = std::source_location::current()) {
    using namespace tern::cuda::emulation;
    return shuffle<shuffle_kind::index>(mask, value, static_cast<unsigned>(source), width, where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 std::source_location where = std::source_location::current()) {
    using namespace tern::cuda::emulation;
    return shuffle<shuffle_kind::up>(mask, value, delta, width, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   std::source_location where = std::source_location::current()) {
    using namespace tern::cuda::emulation;
    return shuffle<shuffle_kind::down>(mask, value, delta, width, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                  std::source_location where = std::source_location::current()) {
    using namespace tern::cuda::emulation;
    return shuffle<shuffle_kind::exclusive_or>(mask, value, static_cast<unsigned>(lanes), width, where);
}

inline unsigned __ballot_sync(unsigned mask, int p, std::source_location where = std::source_location::current()) {
    using namespace tern::cuda::emulation;
    const auto votes = [](const warp_slots& slots, unsigned) {
        unsigned set = 0;
        for (unsigned lane = 0; lane < 32; ++lane)
            if ((slots.there >> lane) & 1u) set |= unsigned{brought<int>(slots, lane) != 0} << lane;
        return set;
    };
    return warp_reduce<unsigned>(mask, p, votes, where);
}
inline int __any_sync(unsigned mask, int p, std::source_location where = std::source_location::current()) {
    using namespace tern::cuda::emulation;
    return warp_reduce<int>(
        mask, int{p != 0},
        [](const warp_slots& s, unsigned) { return fold<int>(s, [](int a, int b) { return a | b; }); }, where);
}
inline int __all_sync(unsigned mask, int p, std::source_location where = std::source_location::current()) {
    using namespace tern::cuda::emulation;
    return warp_reduce<int>(
        mask, int{p != 0},
        [](const warp_slots& s, unsigned) { return fold<int>(s, [](int a, int b) { return a & b; }); }, where);
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, std::source_location where = std::source_location::current()) {
    using namespace tern::cuda::emulation;
    const auto equal = [](const warp_slots& slots, unsigned me) {
        unsigned set = 0;
        for (unsigned lane = 0; lane < 32; ++lane)
            if ((slots.there >> lane) & 1u)
                set |= unsigned{std::memcmp(slots.in[lane], slots.in[me], sizeof(T)) == 0} << lane;
        return set;
    };
    return warp_reduce<unsigned>(mask, value, equal, where);
}
/// The lanes that run together is not promised to be more than the caller: here it never is.
inline unsigned __activemask() { return 1u << tern::cuda::emulation::this_block().lane(); }

#define TERN_EMULATED_REDUCTION(name, type, expression)                                                                \
    inline type name(unsigned mask, type value, std::source_location where = std::source_location::current()) {        \
        using namespace tern::cuda::emulation;                                                                         \
        return warp_reduce<type>(                                                                                      \
            mask, value,                                                                                               \
            [](const warp_slots& s, unsigned) {                                                                        \
                return fold<type>(s, [](type a, type b) -> type { return expression; });                               \
            },                                                                                                         \
            where);                                                                                                    \
    }
TERN_EMULATED_REDUCTION(__reduce_add_sync, unsigned, a + b)
TERN_EMULATED_REDUCTION(__reduce_add_sync, int, static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b)))
TERN_EMULATED_REDUCTION(__reduce_min_sync, unsigned, b < a ? b : a)
TERN_EMULATED_REDUCTION(__reduce_min_sync, int, b < a ? b : a)
TERN_EMULATED_REDUCTION(__reduce_max_sync, unsigned, a < b ? b : a)
TERN_EMULATED_REDUCTION(__reduce_max_sync, int, a < b ? b : a)
TERN_EMULATED_REDUCTION(__reduce_and_sync, unsigned, a& b)
TERN_EMULATED_REDUCTION(__reduce_or_sync, unsigned, a | b)
TERN_EMULATED_REDUCTION(__reduce_xor_sync, unsigned, a ^ b)
#undef TERN_EMULATED_REDUCTION
// NOLINTEND
