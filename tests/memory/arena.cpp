#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include <tern/memory/heap_arena.hpp>

using namespace tern::literals;

namespace {

bool aligned(const tern::allocation& a) { return reinterpret_cast<std::uintptr_t>(a.data()) % 64 == 0; }

} // namespace

TEST_CASE("memory/arena: an allocation gives itself back once, however it is moved") {
    tern::heap_arena ram{100_B};
    {
        tern::allocation a = ram.allocate(60_B, "a");
        CHECK(a);
        CHECK(a.size() == 60_B);
        CHECK(aligned(a));
        std::memset(a.data(), 1, 60);
        tern::allocation b = std::move(a);
        CHECK_FALSE(a);
        CHECK(b);
        a = std::move(b);
        CHECK(a.size() == 60_B);
        a = ram.allocate(40_B, "b");
        CHECK(ram.budget().used() == 40_B);
        CHECK(ram.budget().peak() == 100_B);
    }
    CHECK(ram.budget().used() == 0_B);
    CHECK_FALSE(tern::allocation{});
}
