#include <tern/op/kv_cache.hpp>

#include <cstddef>

#include <doctest/doctest.h>

#include <tern/op/any_cache.hpp>
#include <tern/op/contiguous_cache.hpp>
#include <tern/op/null_cache.hpp>
#include <tern/op/paged_cache.hpp>

namespace {

// Near misses of null_cache, each with one thing wrong.
struct no_truncate : tern::null_cache {
    void truncate(std::size_t, std::size_t) = delete;
};
struct pages_of_another_kind : tern::null_cache {
    const tern::kernel::kv_page* pages(std::size_t, std::size_t) const { return nullptr; }
};
struct pages_not_const : tern::null_cache {
    tern::kernel::sequence_pages pages(std::size_t, std::size_t) { return {}; }
};
struct append_of_ints : tern::null_cache {
    void append(std::size_t, const tern::batch&, const int*, const int*) {}
};
struct reserve_takes_tokens : tern::null_cache {
    void reserve(std::size_t) {}
};

static_assert(tern::kv_cache<tern::null_cache> && tern::kv_cache<tern::any_cache>);
static_assert(tern::kv_cache<tern::contiguous_cache> && tern::kv_cache<tern::paged_cache>);
static_assert(tern::kv_cache_writable<no_truncate> && !tern::kv_cache_editable<no_truncate>);
static_assert(!tern::kv_cache<pages_of_another_kind> && tern::kv_cache_editable<pages_of_another_kind>);
static_assert(!tern::kv_cache<pages_not_const> && !tern::kv_cache<append_of_ints>);
static_assert(!tern::kv_cache<reserve_takes_tokens> && !tern::kv_cache<int>);

} // namespace

TEST_CASE("op/kv_cache: each token must continue its sequence, counted within the batch") {
    const tern::kv_shape shape{.layers = 1, .width = 1, .context = 4, .sequences = 2};
    std::size_t lengths[2] = {2, 0};
    tern::batch b;
    b.add(0, 2, 0);
    b.add(0, 0, 1);
    b.add(0, 3, 0);
    const auto length = [&](std::size_t s) { return lengths[s]; };
    const auto grow = [&](std::size_t s) { ++lengths[s]; };
    tern::detail::continue_sequences(shape, b, length, grow);
    CHECK(lengths[0] == 4);
    CHECK(lengths[1] == 1);
    b.clear();
    b.add(0, 4, 0);
    CHECK_THROWS_AS(tern::detail::continue_sequences(shape, b, length, grow), tern::budget_error);
}
