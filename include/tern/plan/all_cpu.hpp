// all_cpu: every weight in host memory, computed on the host.
#pragma once

#include <string_view>

#include <tern/plan/placement.hpp>

namespace tern {

/// Puts a tensor into `in` where its type allows that, else into the first host tier that it allows.
struct all_cpu {
    static constexpr std::string_view name = "all_cpu";
    tier_info in = tier_of<mapped>;

    template <class = void> placement place(const graph& g, const machine&) const {
        placement p{name, {}, {}};
        for (const planned_tensor& t : g.tensors)
            p.tensors.push_back({{host_tier(t)}, "the policy computes on the host", {}});
        return p;
    }

private:
    tier_info host_tier(const planned_tensor& t) const {
        if (t.allows(in)) return in;
        for (const tier_info& tier : t.allowed)
            if (tier.reached_by == reach::host && tier != tier_of<direct>) return tier;
        throw config_error("its type allows no host memory, and the policy is all_cpu", {.tensor = t.name});
    }
};

static_assert(placement_policy<all_cpu>);

} // namespace tern
