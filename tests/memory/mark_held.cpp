#include <doctest/doctest.h>

#include <array>
#include <cstddef>

#include <tern/memory/mark_held.hpp>

TEST_CASE("memory/mark_held: what is held may be written, and AddressSanitizer knows what is not") {
    alignas(8) std::array<std::byte, 64> memory{};
    tern::detail::mark_held(memory.data(), 24, memory.size());
    memory[23] = std::byte{1};
    CHECK(memory[23] == std::byte{1});
#if defined(TERN_DETAIL_POISON)
    CHECK(__asan_address_is_poisoned(memory.data() + 23) == 0);
    CHECK(__asan_address_is_poisoned(memory.data() + 24) != 0);
    CHECK(__asan_address_is_poisoned(memory.data() + 63) != 0);
#endif
    tern::detail::mark_held(memory.data(), memory.size(), memory.size());
    memory[63] = std::byte{2};
    CHECK(memory[63] == std::byte{2});
}
