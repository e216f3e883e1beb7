// AddressSanitizer is told which bytes of kept memory nobody holds, so that it finds their use after they were freed,
// and past their end.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define TERN_DETAIL_POISON
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TERN_DETAIL_POISON
#endif
#endif
#if defined(TERN_DETAIL_POISON)
#include <sanitizer/asan_interface.h>
#endif

namespace tern::detail {

/// Says that the first `held` bytes of a piece of memory are somebody's and the rest nobody's.
inline void mark_held([[maybe_unused]] std::byte* data, [[maybe_unused]] std::uint64_t held,
                      [[maybe_unused]] std::uint64_t size) noexcept {
#if defined(TERN_DETAIL_POISON)
    __asan_unpoison_memory_region(data, held);
    __asan_poison_memory_region(data + held, size - held);
#endif
}

} // namespace tern::detail
