#include <tern/async/frame_arena.hpp>

#include <cstring>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using tern::frame_arena;

TEST_CASE("async/frame_arena: a block is written in full, and recycled by size class") {
    for (const std::size_t size :
         {std::size_t{1}, std::size_t{64}, std::size_t{65}, std::size_t{2048}, std::size_t{2049}}) {
        void* p = frame_arena::allocate(size);
        std::memset(p, 0x5a, size);
        frame_arena::deallocate(p, size);
        void* again = frame_arena::allocate(size);
        if (!frame_arena::pass_through && size <= 2048) CHECK(again == p);
        frame_arena::deallocate(again, size);
    }
}

TEST_CASE("async/frame_arena: blocks of many classes do not overlap") {
    std::vector<unsigned char*> blocks;
    for (std::size_t size = 1; size <= 3000; size += 7) {
        auto* p = static_cast<unsigned char*>(frame_arena::allocate(size));
        std::memset(p, static_cast<int>(size % 251), size);
        blocks.push_back(p);
    }
    bool intact = true;
    std::size_t size = 1;
    for (unsigned char* p : blocks) {
        for (std::size_t i = 0; i < size; ++i) intact = intact && p[i] == size % 251;
        frame_arena::deallocate(p, size);
        size += 7;
    }
    CHECK(intact);
}

TEST_CASE("async/frame_arena: what one thread allocates and another frees comes back") {
    constexpr std::size_t size = 1500;
    const auto round = [] {
        std::vector<void*> blocks;
        std::thread([&] {
            for (int i = 0; i < 200; ++i) blocks.push_back(frame_arena::allocate(size));
        }).join();
        std::thread([&] {
            for (void* p : blocks) frame_arena::deallocate(p, size);
        }).join();
    };
    round();
    const auto before = frame_arena::counters();
    for (int i = 0; i < 20; ++i) round();
    const auto after = frame_arena::counters();
    if (frame_arena::pass_through) return;
    CHECK(after.allocated == before.allocated);
    CHECK(after.returned == before.returned);
    CHECK(after.refills > before.refills);
    CHECK(after.spills > before.spills);
}

TEST_CASE("async/frame_arena: what it keeps is bounded") {
    constexpr std::size_t size = 700, count = 10'000;
    const auto before = frame_arena::counters();
    std::vector<void*> blocks(count);
    for (void*& p : blocks) p = frame_arena::allocate(size);
    for (void* p : blocks) frame_arena::deallocate(p, size);
    const auto after = frame_arena::counters();
    if (frame_arena::pass_through) return;
    const auto kept_of = [](const tern::frame_counters& c) { return c.allocated - c.returned; };
    CHECK(kept_of(after) - kept_of(before) <= 1024 + 64);
    CHECK(after.returned - before.returned >= count - 2 * (1024 + 64));
}

namespace {

// Frees during the destruction of thread_locals, after the arena's own thread state may be gone.
struct frees_late {
    void* block = nullptr;
    ~frees_late() { frame_arena::deallocate(block, 300); }
};
// The same during static destruction, for the leak checker and valgrind to see.
struct frees_at_exit {
    void* block = frame_arena::allocate(300);
    ~frees_at_exit() {
        frame_arena::deallocate(block, 300);
        frame_arena::deallocate(frame_arena::allocate(300), 300);
    }
} at_exit;

} // namespace

TEST_CASE("async/frame_arena: works until the very end of a thread") {
    std::thread([] {
        static thread_local frees_late late; // constructed first, so destroyed after the arena's thread state
        late.block = frame_arena::allocate(300);
    }).join();
    const auto before = frame_arena::counters();
    std::thread([] {
        static thread_local frees_late late;
        late.block = frame_arena::allocate(300);
    }).join();
    const auto after = frame_arena::counters();
    CHECK(after.allocated - after.returned == before.allocated - before.returned);
    CHECK(at_exit.block != nullptr);
}
