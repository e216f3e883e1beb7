// A cost model of any type behind one interface.
#pragma once

#include <utility>

#include <tern/cost/cost_model.hpp>

namespace tern {

/// What a simulation asks for times.
class any_cost {
public:
    any_cost() = default;
    any_cost(const any_cost&) = delete;
    any_cost& operator=(const any_cost&) = delete;
    virtual ~any_cost() = default;

    virtual seconds price(const move& m) const = 0;
    virtual seconds price(const run& r) const = 0;
};

/// Puts a cost model behind the interface.
///
///     tern::cost_by cost{tern::roofline(tern::machines::rtx4090_64g())};
template <cost_model Cost> class cost_by final : public any_cost {
public:
    explicit cost_by(Cost cost) : cost_(std::move(cost)) {}

    seconds price(const move& m) const override { return cost_.price(m); }
    seconds price(const run& r) const override { return cost_.price(r); }

private:
    Cost cost_;
};

} // namespace tern
