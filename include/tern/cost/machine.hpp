// The machine as data: which memories there are and how much of each may be used.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/base/units.hpp>
#include <tern/memory/budget.hpp>
#include <tern/memory/tier.hpp>

namespace tern {

/// A memory and the bytes of it that a run may use.
struct memory_space {
    location where{};
    bytes budget{};
    bytes reserved{};    ///< of the budget, for what is no weight: key-value cache, staging, activations
    bool in_ram = false; ///< what lies here counts against the budget of pageable memory too

    /// What weights may take: 0 where what is reserved exceeds the budget, unlimited where the budget is.
    bytes room() const noexcept {
        if (budget == unlimited) return unlimited;
        return budget > reserved ? bytes{budget.count - reserved.count} : bytes{};
    }
};

/// What a placement policy is told about the machine.
///
///     tern::machine m;
///     m.memories = {{{tern::tier_of<tern::vram>}, 8_MiB}, {{tern::tier_of<tern::pageable>}, 1_GiB}};
struct machine {
    std::vector<memory_space> memories{};

    /// The same machine with another budget for a tier of one device; the memory is added where it is not there.
    template <tier Tier> machine with_budget(bytes budget, int device = 0) const {
        machine changed = *this;
        const location where{tier_of<Tier>, device, 0};
        for (memory_space& m : changed.memories) {
            if (m.where != where) continue;
            m.budget = budget;
            return changed;
        }
        changed.memories.push_back({where, budget});
        return changed;
    }

    /// The same machine with bytes of a location set aside, beside those that are already.
    machine with_reserved(const location& where, bytes n) const {
        machine changed = *this;
        for (memory_space& m : changed.memories)
            if (m.where == where) m.reserved += n;
        return changed;
    }

    /// What weights may take at a location; 0 where there is no such memory.
    bytes room_at(const location& where) const noexcept {
        for (const memory_space& m : memories)
            if (m.where == where) return m.room();
        return {};
    }

    /// The budget at a location; 0 where there is no such memory.
    bytes budget_of(const location& where) const noexcept {
        for (const memory_space& m : memories)
            if (m.where == where) return m.budget;
        return {};
    }
};

} // namespace tern
