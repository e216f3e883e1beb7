// A placement: for each tensor of a graph the location where it lives and computes, and why.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tern/base/checked.hpp>
#include <tern/base/error.hpp>
#include <tern/cost/machine.hpp>
#include <tern/memory/budget.hpp>
#include <tern/memory/tier.hpp>
#include <tern/plan/graph.hpp>
#include <tern/plan/on_miss.hpp>
#include <tern/residency/retention.hpp>

namespace tern {

/// One decision.
struct placed_tensor {
    location where{}; ///< where it lies between uses
    std::string reason{};
    std::optional<location> computes{}; ///< the memory it is brought to for a use; absent: it is read where it lies
    retention stay = retention::drop;   ///< what becomes of it there after a use

    /// Whether it is brought anew for uses.
    bool streamed() const noexcept { return computes.has_value(); }
};

/// Room for streamed and cached copies in one memory.
struct pool_plan {
    location where{};
    bytes limit{};
    std::string eviction = "lru"; ///< which copies leave first: a name that make_eviction knows
    eviction_options how{};       ///< and what it takes
};

/// Decisions in the order of graph::tensors.
struct placement {
    std::string_view policy{};
    std::vector<placed_tensor> tensors{};
    std::vector<pool_plan> pools{};
    bool fill = false; ///< cached experts are brought at the start, as many of each layer, while there is room
    std::optional<on_miss> misses{}; ///< how experts that are missing are to be treated; nothing: as the run has it

    /// The limit of the pool at a location; 0 where there is none.
    bytes pool_at(const location& where) const noexcept {
        for (const pool_plan& p : pools)
            if (p.where == where) return p.limit;
        return {};
    }

    /// Bytes of weights at a location, without those that are brought there for a use.
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
///             "mine"}), {}};
///         }
///     };
template <class P>
concept placement_policy = requires(const P& policy, const graph& g, const machine& m) {
    { P::name } -> std::convertible_to<std::string_view>;
    { policy.place(g, m) } -> std::same_as<placement>;
};

namespace detail {

/// Copies may lie there; elsewhere bytes stay in their file.
inline bool holds_copies(const tier_info& t) noexcept { return t != tier_of<mapped> && t != tier_of<direct>; }

inline void check_allowed(const planned_tensor& t, const location& where) {
    if (t.allows(where.tier)) return;
    std::string allowed;
    for (const tier_info& tier : t.allowed) allowed += (allowed.empty() ? "" : ", ") + std::string(tier.name);
    throw config_error("was placed in " + to_string(where) + ", and its type allows " + allowed, {.tensor = t.name});
}

inline void check_there(const planned_tensor& t, const location& where, const machine& m) {
    for (const memory_space& memory : m.memories)
        if (memory.where == where) return;
    throw config_error("was placed in " + to_string(where) + ", which this machine does not have", {.tensor = t.name});
}

/// Room for one slice on its way to a use. Direct reads to host memory bring whole pages, at both ends.
inline bytes room_on_the_way(const planned_tensor& t, const placed_tensor& p) {
    const bool in_pages = p.where.tier == tier_of<direct> && p.computes->tier.reached_by == reach::host;
    return t.slice_size + bytes{in_pages ? 2 * 4096u : 0u};
}

/// What a tensor that stays in a memory takes of it. Device memory comes in units of 64 bytes, locked RAM in pages, and
/// so does plain RAM from 64 KiB on; direct reads bring the page before a slice of that size too.
inline bytes room_of(const planned_tensor& t, const location& where) {
    constexpr std::uint64_t page = 4096;
    constexpr std::uint64_t in_pages = 64 * 1024;
    const std::uint64_t n = t.slice_size.count;
    std::uint64_t one = n;
    const auto round_up = [n](std::uint64_t m, std::uint64_t unit) { return try_round_up(m, unit).value_or(n); };
    if (where.tier.reached_by == reach::device)
        one = round_up(n, 64);
    else if (n >= in_pages)
        one = round_up(checked_add(n, page), page);
    else if (where.tier == tier_of<pinned>)
        one = round_up(n, page);
    return {checked_mul<std::uint64_t>(one, t.shape.experts)};
}

/// Whether operators compute on what a placement puts into a memory. The host's has activations in any case.
inline bool computes_in(const placement& p, const location& memory) {
    if (memory.tier.reached_by == reach::host) return memory.tier == tier_of<pageable>;
    return std::any_of(p.tensors.begin(), p.tensors.end(),
                       [&](const placed_tensor& t) { return t.computes.value_or(t.where) == memory; });
}

/// What a placement takes of a memory: weights that stay, in the other memories that are part of it too, the room for
/// those that come and go, and activations where operators compute.
inline bytes room_taken(const placement& p, const graph& g, const machine& m, const memory_space& memory) {
    bytes taken = p.pool_at(memory.where);
    for (std::size_t i = 0; i < p.tensors.size(); ++i) {
        const location& where = p.tensors[i].where;
        const memory_space* const there = m.memory_at(where);
        const bool inside = there != nullptr && there->in_ram && memory.where.tier == tier_of<pageable>;
        if (where == memory.where || inside) taken += room_of(g.tensors[i], where);
    }
    return computes_in(p, memory.where) ? taken + g.activation_room() : taken;
}

} // namespace detail

/// Throws unless a placement has one decision for each tensor, in tiers that the tensor's type allows, inside the
/// budgets less what is reserved and what activations take, and with pools that hold the largest slice that is streamed
/// through them. Mapped tensors take nothing from a budget: their pages come and go.
template <class = void> void check(const placement& p, const graph& g, const machine& m) {
    if (p.tensors.size() != g.tensors.size())
        throw config_error("the policy placed " + std::to_string(p.tensors.size()) + " of " +
                           std::to_string(g.tensors.size()) + " tensors");
    for (std::size_t i = 0; i < p.tensors.size(); ++i) {
        const placed_tensor& placed = p.tensors[i];
        detail::check_allowed(g.tensors[i], placed.where);
        if (placed.streamed()) detail::check_allowed(g.tensors[i], *placed.computes);
        if (!placed.streamed() && placed.where.tier == tier_of<direct>)
            throw config_error("was placed in direct, where nothing computes, and nothing says where to bring it",
                               {.tensor = g.tensors[i].name});
    }
    for (const memory_space& memory : m.memories) {
        if (!detail::holds_copies(memory.where.tier) || memory.room() == unlimited) continue;
        const bytes needed = detail::room_taken(p, g, m, memory);
        if (needed > memory.room())
            throw budget_error(
                "the placement does not fit " + to_string(memory.where) + " beside what is set aside there, " +
                    to_string(memory.reserved) + " for the cache and for transfers and " +
                    to_string(detail::computes_in(p, memory.where) ? g.activation_room() : bytes{}) +
                    " for activations: raise its budget or place less there",
                {.needed = checked_add(needed.count, memory.reserved.count), .available = memory.budget.count});
    }
    for (std::size_t i = 0; i < p.tensors.size(); ++i) {
        const planned_tensor& t = g.tensors[i];
        detail::check_there(t, p.tensors[i].where, m);
        if (!p.tensors[i].streamed()) continue;
        detail::check_there(t, *p.tensors[i].computes, m);
        const bytes pool = p.pool_at(*p.tensors[i].computes);
        const bytes needed = detail::room_on_the_way(t, p.tensors[i]);
        if (pool < needed)
            throw budget_error("does not fit the room for streamed weights in " + to_string(*p.tensors[i].computes) +
                                   ": raise its budget or place less there",
                               {.tensor = t.name, .needed = needed.count, .available = pool.count});
    }
}

} // namespace tern
