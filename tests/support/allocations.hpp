// Replaces the program's operator new: allocations are counted, and can be made to fail. For one source file of a
// program of its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include <doctest/doctest.h>

namespace tern::test {

inline std::atomic<long> allocations{0};
inline std::atomic<long> allocations_left{-1};  ///< until they fail; negative: never
inline std::atomic<bool> only_one_fails{false}; ///< and those after it succeed

namespace detail {

inline bool next_fails() noexcept {
    allocations.fetch_add(1, std::memory_order_relaxed);
    if (allocations_left.load(std::memory_order_relaxed) < 0) return false;
    if (allocations_left.fetch_sub(1, std::memory_order_relaxed) > 0) return false;
    allocations_left = only_one_fails ? -1 : 0;
    return true;
}

inline void* allocate(std::size_t size, std::size_t alignment) noexcept {
    if (next_fails()) return nullptr;
    if (alignment <= alignof(std::max_align_t)) return std::malloc(size != 0 ? size : 1);
    return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

} // namespace detail

/// The fewest allocations of a round of `f`, of as many rounds as it takes until one makes none: the lists of each
/// thread fill at first, and how soon depends on which thread happens to free what.
template <class F> long fewest_allocations(F f, int rounds = 50) {
    long fewest = -1;
    for (int round = 0; round < rounds && fewest != 0; ++round) {
        const long before = allocations.load();
        f();
        const long made = allocations.load() - before;
        if (fewest < 0 || made < fewest) fewest = made;
    }
    return fewest;
}

} // namespace tern::test

// Not inlined: the compiler would take malloc and delete, or new and free, for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
    if (void* p = tern::test::detail::allocate(size, 1)) return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
    if (void* p = tern::test::detail::allocate(size, static_cast<std::size_t>(alignment))) return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return tern::test::detail::allocate(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace tern::test {

/// That all of this works, sanitizers or not: a test case of each program that counts.
inline void check_allocations_count() {
    const long before = allocations.load();
    // Not expressions that a compiler may leave out.
    ::operator delete(::operator new(1));
    ::operator delete(::operator new(64, std::align_val_t{64}), std::align_val_t{64});
    CHECK(allocations.load() == before + 2);
    bool failed = false;
    allocations_left = 0;
    try {
        ::operator delete(::operator new(1));
    } catch (const std::bad_alloc&) { failed = true; }
    allocations_left = -1;
    CHECK(failed);
}

} // namespace tern::test
