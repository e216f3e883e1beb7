#include <tern/sim/any_cost.hpp>

#include <doctest/doctest.h>

namespace {

struct flat {
    double each;
    tern::seconds price(const tern::move& m) const { return {each * static_cast<double>(m.size.count)}; }
    tern::seconds price(const tern::run& r) const { return {each * r.operations}; }
};

} // namespace

TEST_CASE("sim/any_cost: a cost model of any type answers through the interface") {
    const tern::cost_by cost{flat{2}};
    const tern::any_cost& any = cost;
    CHECK(any.price(tern::move{.size = {21}}).count == 42);
    CHECK(any.price(tern::run{.operations = 5}).count == 10);
}
