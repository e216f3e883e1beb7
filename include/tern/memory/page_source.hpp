// Where whole pages come from, and smaller blocks.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>

#include <sys/mman.h>

#include <tern/base/config.hpp>

namespace tern {

/// Pages in a row. `data` is null where there are none.
struct page_run {
    std::byte* data = nullptr;
    bool locked = false; ///< into RAM
};

/// Hands out whole pages, aligned to `page_size`, from several threads at once. `obtain` gives an empty run where the
/// system has no memory, and throws where it refuses what it has; `size` is a multiple of `page_size`. `give_back` does
/// not come back to the arena.
template <class P>
concept page_source = requires(P pages, page_run run, std::uint64_t size, std::string_view what) {
    { pages.obtain(size, what) } -> std::same_as<page_run>;
    { pages.give_back(run, size) } noexcept;
};

inline constexpr std::uint64_t page_size = 4096; ///< of requests; the system's own may be a multiple

/// Pages that read as zero and take RAM when they are first touched.
struct plain_pages {
    page_run obtain(std::uint64_t size, std::string_view) noexcept {
        void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return {at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at)};
    }
    void give_back(page_run run, std::uint64_t size) noexcept { ::munmap(run.data, size); }
};

static_assert(page_source<plain_pages>);

/// Blocks of the heap, of any size: for what pages are too large for.
struct heap_blocks {
    static constexpr std::uint64_t grain = 1; ///< what sizes are rounded up to, in place of a page

    page_run obtain(std::uint64_t size, std::string_view) noexcept {
        return {static_cast<std::byte*>(::operator new(size, alignment, std::nothrow))};
    }
    void give_back(page_run run, std::uint64_t) noexcept { ::operator delete(run.data, alignment); }

private:
    static constexpr std::align_val_t alignment{64};
};

static_assert(page_source<heap_blocks>);

} // namespace tern
