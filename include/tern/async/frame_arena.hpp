// Coroutine frames come from a recycling arena: steady-state use allocates nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

#include <tern/base/config.hpp>

// Under AddressSanitizer every frame is an allocation of its own, so that use after free is found.
#if defined(__SANITIZE_ADDRESS__)
#define TERN_DETAIL_FRAMES_PASS_THROUGH true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TERN_DETAIL_FRAMES_PASS_THROUGH true
#endif
#endif
#if !defined(TERN_DETAIL_FRAMES_PASS_THROUGH)
#define TERN_DETAIL_FRAMES_PASS_THROUGH false
#endif

namespace tern {

/// What the arena asked of the heap since the program started. Reading it costs nothing to the fast path.
struct frame_counters {
    std::uint64_t allocated = 0; ///< blocks taken from the heap
    std::uint64_t returned = 0;  ///< blocks given back to the heap
    std::uint64_t refills = 0;   ///< times a thread took a batch from the shared list
    std::uint64_t spills = 0;    ///< times a thread gave a batch to the shared list
};

namespace detail {

struct free_block {
    free_block* next;
};

struct free_list {
    free_block* head = nullptr;
    std::uint32_t count = 0;

    void push(void* p) noexcept { head = ::new (p) free_block{head}, ++count; }
    void* pop() noexcept {
        free_block* block = head;
        head = block->next, --count;
        return block;
    }
};

inline constexpr std::size_t frame_grain = 64;
inline constexpr std::size_t frame_classes = 32;     // up to 2 KiB; larger frames are the heap's
inline constexpr std::uint32_t thread_frames = 64;   // per class that a thread keeps
inline constexpr std::uint32_t frame_batch = 32;     // per class that moves at once
inline constexpr std::uint32_t shared_frames = 1024; // per class that all threads share

/// Constant-initialised and never destroyed, so that it serves during static initialisation and destruction.
struct shared_frame_lists {
    std::mutex lock;
    free_list lists[frame_classes];
    std::atomic<std::uint64_t> allocated{0}, returned{0}, refills{0}, spills{0};
};
inline constinit shared_frame_lists shared_frame_pool{};

/// A thread's own lists. `limit` is 0 until the thread's first free and again once the thread ends.
struct thread_frame_lists {
    free_list lists[frame_classes];
    std::uint32_t limit = 0;
    bool ended = false;
};
// Only functions that are not inlined touch it: compilers keep a thread's address of it in the frame of a coroutine,
// which may go on in another thread.
inline constinit thread_local thread_frame_lists thread_frame_pool{};

/// Moves up to `n` blocks from a thread's list to the shared one, and the rest of them to the heap.
inline void spill_frames(free_list& list, std::size_t index, std::uint32_t n) noexcept {
    auto& pool = shared_frame_pool;
    {
        const std::lock_guard guard(pool.lock);
        for (; n > 0 && pool.lists[index].count < shared_frames; --n) pool.lists[index].push(list.pop());
    }
    pool.spills.fetch_add(1, std::memory_order_relaxed);
    pool.returned.fetch_add(n, std::memory_order_relaxed);
    for (; n > 0; --n) ::operator delete(list.pop());
}

/// Its destructor hands over a thread's blocks. Only slow paths touch it, so fast ones pay no guard.
struct thread_frame_guard {
    thread_frame_guard() noexcept { thread_frame_pool.limit = thread_frames; }
    thread_frame_guard(const thread_frame_guard&) = delete;
    ~thread_frame_guard() {
        auto& mine = thread_frame_pool;
        mine.limit = 0, mine.ended = true;
        for (std::size_t i = 0; i < frame_classes; ++i)
            if (mine.lists[i].count > 0) spill_frames(mine.lists[i], i, mine.lists[i].count);
    }
};

[[gnu::noinline]] inline void adopt_thread() noexcept {
    static thread_local thread_frame_guard guard;
    static_cast<void>(guard);
}

[[gnu::noinline]] inline void* refill_frames(std::size_t index) {
    auto& mine = thread_frame_pool;
    auto& pool = shared_frame_pool;
    if (!mine.ended) {
        adopt_thread();
        const std::lock_guard guard(pool.lock);
        auto& shared = pool.lists[index];
        for (std::uint32_t n = 0; n < frame_batch && shared.count > 0; ++n) mine.lists[index].push(shared.pop());
    }
    if (mine.lists[index].count > 0) {
        pool.refills.fetch_add(1, std::memory_order_relaxed);
        return mine.lists[index].pop();
    }
    void* fresh = ::operator new((index + 1) * frame_grain);
    pool.allocated.fetch_add(1, std::memory_order_relaxed);
    return fresh;
}

[[gnu::noinline]] inline void overflow_frame(void* p, std::size_t index) noexcept {
    auto& mine = thread_frame_pool;
    if (mine.ended) {
        shared_frame_pool.returned.fetch_add(1, std::memory_order_relaxed);
        return ::operator delete(p);
    }
    adopt_thread();
    mine.lists[index].push(p);
    if (mine.lists[index].count > mine.limit) spill_frames(mine.lists[index], index, frame_batch);
}

} // namespace detail

/// The arena of coroutine frames. Any thread may free what another allocated. Blocks are recycled by size class: first
/// by the thread (64 a class), then by all threads (1024 a class), and beyond that they go back to the heap.
/// Frames are aligned for fundamental types; locals with a larger alignment must not live in a coroutine.
///
///     struct promise { void* operator new(std::size_t n) { return tern::frame_arena::allocate(n); } ... };
struct frame_arena {
    /// True under AddressSanitizer: each frame is then an allocation of its own and nothing is recycled.
    static constexpr bool pass_through = TERN_DETAIL_FRAMES_PASS_THROUGH;

    /// A block of at least `size` bytes; throws std::bad_alloc.
    [[gnu::noinline]] static void* allocate(std::size_t size) {
        const std::size_t index = (size - 1) / detail::frame_grain;
        if (pass_through || size == 0 || index >= detail::frame_classes) return ::operator new(size);
        auto& list = detail::thread_frame_pool.lists[index];
        return list.head ? list.pop() : detail::refill_frames(index);
    }

    /// Gives back a block; `size` is what it was allocated with.
    [[gnu::noinline]] static void deallocate(void* p, std::size_t size) noexcept {
        const std::size_t index = (size - 1) / detail::frame_grain;
        if (pass_through || size == 0 || index >= detail::frame_classes) return ::operator delete(p);
        auto& mine = detail::thread_frame_pool;
        if (mine.lists[index].count < mine.limit)
            mine.lists[index].push(p);
        else
            detail::overflow_frame(p, index);
    }

    /// What the arena asked of the heap so far, in all threads.
    static frame_counters counters() noexcept {
        const auto read = [](const auto& n) { return n.load(std::memory_order_relaxed); };
        const auto& pool = detail::shared_frame_pool;
        return {read(pool.allocated), read(pool.returned), read(pool.refills), read(pool.spills)};
    }
};

} // namespace tern

#undef TERN_DETAIL_FRAMES_PASS_THROUGH
