#include <tern/plan/recorder.hpp>

#include <utility>

#include <doctest/doctest.h>

#include <tern/memory/heap_arena.hpp>

namespace {

struct no_lender final : tern::lender {
    tern::lease try_borrow(tern::slice_id, tern::device&) override { return {}; }
    tern::task<tern::lease> borrow(tern::slice_id, tern::device&, tern::move_function) override { co_return {}; }
    tern::device* home_of(tern::slice_id) const override { return nullptr; }

private:
    void give_back(tern::slice_id, std::uint32_t) noexcept override {}
};

using weight = tern::tensor<tern::formats<tern::f32>, tern::tiers<tern::pageable>>;

} // namespace

TEST_CASE("plan/recorder: a tensor that is used twice is one, and one that owns its bytes is none") {
    no_lender lender;
    const weight a(lender, 0, 0, {2, 4}, "a");
    const weight b(lender, 1, 0, {4, 4, 3}, "b");
    tern::heap_arena ram;
    const std::vector<float> values(4, 0.0f);
    const weight mine = weight::own<tern::f32>(ram, values, {1, 4}, "mine");
    tern::recorder notes;
    notes.call("first", 1, 2);
    notes.uses(a);
    notes.uses(b);
    notes.call("second", 3, 4, 5);
    notes.uses(mine);
    notes.uses(a);
    const tern::graph g = std::move(notes).finish({77});
    CHECK(g.activation_peak == tern::bytes{77});
    REQUIRE(g.tensors.size() == 2);
    CHECK(g.tensors[1].slice_size == tern::bytes{64});
    CHECK(g.tensors[1].size() == tern::bytes{192});
    CHECK(g.weight_bytes() == tern::bytes{32 + 192});
    REQUIRE(g.nodes.size() == 2);
    CHECK(g.nodes[0].tensors == std::vector<std::size_t>{0, 1});
    CHECK(g.nodes[1].tensors == std::vector<std::size_t>{0});
    CHECK(g.nodes[1].active == 5);
}
