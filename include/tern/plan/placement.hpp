// A placement: for each tensor of a graph the location where it lives and computes, and why.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/cost/machine.hpp>
#include <tern/memory/budget.hpp>
#include <tern/memory/tier.hpp>
#include <tern/plan/graph.hpp>

namespace tern {

/// One decision.
struct placed_tensor {
    location where{};
    std::string reason{};
};

/// Decisions in the order of graph::tensors.
struct placement {
    std::string_view policy{};
    std::vector<placed_tensor> tensors{};

    /// Bytes of weights at a location.
    bytes bytes_at(const graph& g, const location& where) const {
        bytes sum{};
        for (std::size_t i = 0; i < tensors.size(); ++i)
            if (tensors[i].where == where) sum += g.tensors[i].size();
        return sum;
    }
};

/// Decides where tensors live. A user's own is a struct with a name and one member function.
///
///     struct everything_mapped {
///         static constexpr std::string_view name = "everything_mapped";
///         tern::placement place(const tern::graph& g, const tern::machine&) const {
///             return {name, std::vector<tern::placed_tensor>(g.tensors.size(), {{tern::tier_of<tern::mapped>},
///             "mine"})};
///         }
///     };
template <class P>
concept placement_policy = requires(const P& policy, const graph& g, const machine& m) {
    { P::name } -> std::convertible_to<std::string_view>;
    { policy.place(g, m) } -> std::same_as<placement>;
};

/// Throws unless a placement has one decision for each tensor, in a tier that the tensor's type allows, inside the
/// budgets. Mapped tensors take nothing from a budget: their pages come and go.
template <class = void> void check(const placement& p, const graph& g, const machine& m) {
    if (p.tensors.size() != g.tensors.size())
        throw config_error("the policy placed " + std::to_string(p.tensors.size()) + " of " +
                           std::to_string(g.tensors.size()) + " tensors");
    for (std::size_t i = 0; i < p.tensors.size(); ++i) {
        if (g.tensors[i].allows(p.tensors[i].where.tier)) continue;
        std::string allowed;
        for (const tier_info& t : g.tensors[i].allowed) allowed += (allowed.empty() ? "" : ", ") + std::string(t.name);
        throw config_error("was placed in " + to_string(p.tensors[i].where) + ", and its type allows " + allowed,
                           {.tensor = g.tensors[i].name});
    }
    for (const memory_space& memory : m.memories) {
        const bytes needed = p.bytes_at(g, memory.where);
        if (needed > memory.budget && memory.where.tier != tier_of<mapped>)
            throw budget_error("the placement does not fit " + to_string(memory.where) +
                                   ": raise its budget or place less there",
                               {.needed = needed.count, .available = memory.budget.count});
    }
    for (std::size_t i = 0; i < p.tensors.size(); ++i) {
        bool there = false;
        for (const memory_space& memory : m.memories) there = there || memory.where == p.tensors[i].where;
        if (!there)
            throw config_error("was placed in " + to_string(p.tensors[i].where) + ", which this machine does not have",
                               {.tensor = g.tensors[i].name});
    }
}

} // namespace tern
