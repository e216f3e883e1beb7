// Guard zones: bytes beside an array that nobody may touch. AddressSanitizer stops at the first access; without it a
// write is found afterwards.
#pragma once

#include <cstddef>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#define TERN_EMULATION_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TERN_EMULATION_ASAN 1
#endif
#endif
#if defined(TERN_EMULATION_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace tern::cuda::emulation {

#if defined(TERN_EMULATION_ASAN)
inline constexpr bool has_asan = true;
#else
inline constexpr bool has_asan = false;
#endif

/// Forbids or allows access to bytes where AddressSanitizer watches; nothing otherwise.
inline void forbid([[maybe_unused]] const void* at, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(TERN_EMULATION_ASAN)
    __asan_poison_memory_region(at, bytes);
#endif
}
inline void allow([[maybe_unused]] const void* at, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(TERN_EMULATION_ASAN)
    __asan_unpoison_memory_region(at, bytes);
#endif
}

inline constexpr std::size_t guard_bytes = 128;
inline constexpr int guard_value = 0xC3;

/// Makes `guard_bytes` bytes a guard zone.
inline void raise_guard(unsigned char* at) noexcept {
    allow(at, guard_bytes);
    std::memset(at, guard_value, guard_bytes);
    forbid(at, guard_bytes);
}
/// Whether nobody wrote there. With AddressSanitizer nobody can have.
inline bool guard_stands(const unsigned char* at) noexcept {
    if constexpr (has_asan) return true;
    for (std::size_t i = 0; i < guard_bytes; ++i)
        if (at[i] != guard_value) return false;
    return true;
}

} // namespace tern::cuda::emulation
