#include <doctest/doctest.h>

#include <type_traits>
#include <utility>
#include <vector>

#include <tern/tensor/lease.hpp>

namespace {

struct counting_lender final : tern::lender {
    std::vector<std::pair<tern::slice_id, std::uint32_t>> released;
    std::byte data[4]{};

    tern::lease lend(tern::slice_id slice, std::uint32_t copy) { return {*this, slice, copy, data + slice}; }
    tern::lease try_borrow(tern::slice_id slice, tern::device&) override { return lend(slice, 0); }
    tern::task<tern::lease> borrow(tern::slice_id slice, tern::device&, tern::move_function) override {
        co_return lend(slice, 0);
    }
    tern::device* home_of(tern::slice_id) const override { return nullptr; }

private:
    void give_back(tern::slice_id slice, std::uint32_t copy) noexcept override { released.emplace_back(slice, copy); }
};

static_assert(!std::is_copy_constructible_v<tern::lease> && std::is_nothrow_move_constructible_v<tern::lease>);

} // namespace

TEST_CASE("tensor/lease: it gives itself back once, however it is moved") {
    counting_lender from;
    {
        tern::lease a = from.lend(1, 7);
        CHECK(a);
        CHECK(a.data() == from.data + 1);
        tern::lease b = std::move(a);
        CHECK_FALSE(a);
        CHECK(b.data() == from.data + 1);
        CHECK(from.released.empty());
        b = from.lend(2, 8);
        CHECK(from.released == std::vector<std::pair<tern::slice_id, std::uint32_t>>{{1, 7}});
        a = std::move(b);
        CHECK(a.data() == from.data + 2);
        CHECK(from.released.size() == 1);
    }
    CHECK(from.released == std::vector<std::pair<tern::slice_id, std::uint32_t>>{{1, 7}, {2, 8}});
}

TEST_CASE("tensor/lease: bytes that live as long as their tensor need no release") {
    const std::byte data{};
    tern::lease forever(&data);
    CHECK(forever.data() == &data);
    CHECK(forever);
    CHECK_FALSE(tern::lease{});
}
