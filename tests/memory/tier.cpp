#include <doctest/doctest.h>

#include <tern/memory/tier.hpp>

namespace tier_test {

struct remote { // a user's own
    static constexpr std::string_view name = "remote";
    static constexpr auto reached_by = tern::reach::host;
};
struct nameless {
    static constexpr auto reached_by = tern::reach::host;
};
struct unreachable {
    static constexpr std::string_view name = "nowhere";
};
struct reached_by_number {
    static constexpr std::string_view name = "number";
    static constexpr int reached_by = 0;
};
struct named_by_number {
    static constexpr int name = 3;
    static constexpr auto reached_by = tern::reach::host;
};
struct renamed {
    static inline std::string_view name = "today";
    static constexpr auto reached_by = tern::reach::host;
};
struct moved {
    static constexpr std::string_view name = "moved";
    static inline tern::reach reached_by = tern::reach::host;
};
struct empty_name {
    static constexpr const char* name = nullptr;
    static constexpr auto reached_by = tern::reach::host;
};

static_assert(tern::tier<tern::vram> && tern::tier<tern::pageable> && tern::tier<tern::mapped> && tern::tier<remote>);
static_assert(tern::tier<tern::pinned> && tern::tier<tern::direct>);
static_assert(!tern::tier<nameless>);
static_assert(!tern::tier<unreachable>);
static_assert(!tern::tier<reached_by_number>);
static_assert(!tern::tier<named_by_number>);
static_assert(!tern::tier<renamed>);
static_assert(!tern::tier<moved>);
static_assert(!tern::tier<empty_name>);
static_assert(!tern::tier<int>);

using two = tern::tiers<tern::vram, remote>;
static_assert(two::size == 2 && two::contains<remote> && !two::contains<tern::mapped>);
static_assert(two::allows(tern::tier_of<tern::vram>) && !two::allows(tern::tier_of<tern::pageable>));

} // namespace tier_test

using tier_test::remote;
using tier_test::two;

TEST_CASE("memory/tier: the run-time twin says what the type says") {
    CHECK(tern::tier_of<tern::vram>.name == "vram");
    CHECK(tern::tier_of<tern::vram>.reached_by == tern::reach::device);
    CHECK(tern::tier_of<tern::pageable>.reached_by == tern::reach::host);
    CHECK(tern::tier_of<tern::mapped>.reached_by == tern::reach::host);
    CHECK(tern::tier_of<tern::pinned>.name == "pinned");
    CHECK(tern::tier_of<tern::pinned>.reached_by == tern::reach::host);
    CHECK(tern::tier_of<tern::direct>.name == "direct");
    CHECK(tern::tier_of<tern::direct>.reached_by == tern::reach::host);
    CHECK(tern::tier_of<remote>.name == "remote");
    CHECK(tern::tier_of<remote> == tern::tier_info{"remote", tern::reach::host});
    CHECK_FALSE(tern::tier_of<remote> == tern::tier_of<tern::mapped>);
}

TEST_CASE("memory/tier: no two of the library's tiers are the same one") {
    using all = tern::tiers<tern::vram, tern::pinned, tern::pageable, tern::mapped, tern::direct>;
    static_assert(all::size == 5);
    CHECK(all::names() == "vram, pinned, pageable, mapped, direct");
    for (std::size_t i = 0; i < all::size; ++i)
        for (std::size_t k = 0; k < all::size; ++k) CHECK((all::list[i] == all::list[k]) == (i == k));
}

TEST_CASE("memory/tier: a list keeps its order and knows its entries") {
    CHECK(two::names() == "vram, remote");
    CHECK(two::list[0].name == "vram");
    CHECK(two::list[1].name == "remote");
    CHECK(two::allows({"remote", tern::reach::host}));
    CHECK_FALSE(two::allows({"nowhere", tern::reach::host}));
}

TEST_CASE("memory/tier: locations differ by tier, device and node") {
    const tern::location second{tern::tier_of<tern::vram>, 1, 0};
    CHECK(second == tern::location{tern::tier_of<tern::vram>, 1, 0});
    CHECK(second != tern::location{tern::tier_of<tern::vram>, 0, 0});
    CHECK(second != tern::location{tern::tier_of<tern::pageable>, 1, 0});
    CHECK(second != tern::location{tern::tier_of<tern::vram>, 1, 1});
    CHECK(to_string(second) == "vram:1");
    CHECK(to_string(tern::location{}) == "pageable");
}
