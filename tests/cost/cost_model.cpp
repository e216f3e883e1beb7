#include <tern/cost/cost_model.hpp>

#include <doctest/doctest.h>

using namespace tern::literals;

namespace {

struct flat {
    tern::seconds price(const tern::move& m) const { return m.size / 12_GBps; }
    tern::seconds price(const tern::run& r) const { return r.weights / 40_GBps; }
};
struct only_moves {
    tern::seconds price(const tern::move&) const { return {}; }
};
struct only_runs {
    tern::seconds price(const tern::run&) const { return {}; }
};
struct not_constant {
    tern::seconds price(const tern::move&) { return {}; }
    tern::seconds price(const tern::run&) { return {}; }
};
struct plain_numbers {
    double price(const tern::move&) const { return 0; }
    double price(const tern::run&) const { return 0; }
};

static_assert(tern::cost_model<flat>);
static_assert(tern::prices_moves<only_moves> && !tern::cost_model<only_moves>);
static_assert(tern::prices_runs<only_runs> && !tern::cost_model<only_runs>);
static_assert(!tern::cost_model<not_constant>);
static_assert(!tern::cost_model<plain_numbers>);
static_assert(!tern::cost_model<int>);

} // namespace

TEST_CASE("cost/cost_model: two members are a cost model") {
    CHECK(flat{}.price(tern::move{.size = 12'000'000_B}).count == doctest::Approx(1e-3));
    CHECK(flat{}.price(tern::run{.weights = 40'000_B}).count == doctest::Approx(1e-6));
}

TEST_CASE("cost/cost_model: those that share a link or its bus are counted") {
    const tern::location a{tern::tier_of<tern::pageable>, 0, 0};
    const tern::location b{tern::tier_of<tern::vram>, 0, 0};
    const tern::location c{tern::tier_of<tern::vram>, 1, 0};
    tern::machine m;
    m.links = {{a, b, {}, {}, "x"}, {a, c, {}, {}, "x"}, {b, a, {}, {}, ""}, {c, a, {}, {}, ""}};
    const tern::route all[] = {{a, b}, {a, c}, {b, a}, {c, a}, {b, c}};
    CHECK(tern::sharers(m, m.links[0], {}) == 0);
    CHECK(tern::sharers(m, m.links[0], all) == 2);
    CHECK(tern::sharers(m, m.links[1], {all, 1}) == 1);
    CHECK(tern::sharers(m, m.links[2], all) == 1); // without a bus only itself
}
