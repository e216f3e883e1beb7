// Cost models at run time: one interface over a cost model of any type.
#pragma once

#include <utility>

#include <tern/cost/cost_model.hpp>

namespace tern {

/// What a simulation asks for times.
class pricing {
public:
    pricing() = default;
    pricing(const pricing&) = delete;
    pricing& operator=(const pricing&) = delete;
    virtual ~pricing() = default;

    virtual seconds price(const move& m) const = 0;
    virtual seconds price(const run& r) const = 0;
};

/// A cost model behind that interface.
///
///     tern::pricing_by cost{tern::roofline(tern::machines::rtx4090_64g())};
template <cost_model Cost> class pricing_by final : public pricing {
public:
    explicit pricing_by(Cost cost) : cost_(std::move(cost)) {}

    seconds price(const move& m) const override { return cost_.price(m); }
    seconds price(const run& r) const override { return cost_.price(r); }

private:
    Cost cost_;
};

} // namespace tern
