// The machine as data: memories, processors and links, what each can do, and how much of each may be used.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
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
    bytes reserved{};                ///< of the budget, for what is no weight: key-value cache, staging, activations
    bool in_ram = false;             ///< what lies here counts against the budget of pageable memory too
    std::optional<bytes> capacity{}; ///< what is built in; nothing: unknown
    std::optional<bytes_per_second> bandwidth{}; ///< at which a processor beside it reads; nothing: unknown
    std::string bus{};                           ///< memories and links of one bus share its bandwidth; empty: alone

    /// What weights may take: 0 where what is reserved exceeds the budget, unlimited where the budget is.
    bytes room() const noexcept {
        if (budget == unlimited) return unlimited;
        return budget > reserved ? bytes{budget.count - reserved.count} : bytes{};
    }
};

/// What a processor multiplies and adds.
enum class number_kind : unsigned char { f32, f16, int8 };

constexpr std::string_view name_of(number_kind k) noexcept {
    return k == number_kind::f32 ? "f32" : k == number_kind::f16 ? "f16" : "int8";
}

/// Operations a second, where a multiplication and an addition are two. Nothing: unknown.
struct arithmetic_rates {
    std::optional<double> f32{};
    std::optional<double> f16{};
    std::optional<double> int8{};

    std::optional<double> of(number_kind k) const noexcept {
        return k == number_kind::f32 ? f32 : k == number_kind::f16 ? f16 : int8;
    }
};

enum class processor_kind : unsigned char { cpu, accelerator };

/// Who computes. Rates are those of the data sheet, or measured; how much of them programs reach is the cost model's
/// affair (see roofline.hpp).
struct processor {
    std::string name{};
    processor_kind kind = processor_kind::cpu;
    int device = 0;
    std::vector<location> reads{}; ///< memories that it computes from in place; its activations lie in the first
    arithmetic_rates rates{};
    std::optional<seconds> launch{}; ///< to begin one operator; nothing: unknown
    std::optional<seconds> sync{};   ///< to wait for its result, or to hand it work of another; nothing: unknown

    bool computes_from(const location& where) const noexcept {
        for (const location& l : reads)
            if (l == where) return true;
        return false;
    }
};

/// A way for bytes, in one direction. Links of one bus take turns.
struct link {
    location from{};
    location to{};
    std::optional<bytes_per_second> bandwidth{}; ///< nothing: unknown
    std::optional<seconds> latency{};            ///< of one transfer; nothing: unknown
    std::string bus{};                           ///< empty: it shares with nobody
};

/// What is known of the machine. Policies that fit by bytes need the memories alone; cost models need the rest, and
/// refuse what is unknown.
///
///     tern::machine m;
///     m.memories = {{{tern::tier_of<tern::vram>}, 8_MiB}, {{tern::tier_of<tern::pageable>}, 1_GiB}};
struct machine {
    std::vector<memory_space> memories{};
    std::vector<processor> processors{}; ///< the host's first
    std::vector<link> links{};
    std::string name{};

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

    /// The same machine where every link between two tiers has another bandwidth.
    machine with_link_bandwidth(const tier_info& from, const tier_info& to, bytes_per_second bandwidth) const {
        machine changed = *this;
        for (link& l : changed.links)
            if (l.from.tier == from && l.to.tier == to) l.bandwidth = bandwidth;
        return changed;
    }

    // Null where there is none.
    const memory_space* memory_at(const location& where) const noexcept {
        for (const memory_space& m : memories)
            if (m.where == where) return &m;
        return nullptr;
    }
    const processor* processor_at(const location& where) const noexcept {
        for (const processor& p : processors)
            if (p.computes_from(where)) return &p;
        return nullptr;
    }
    const processor* processor_named(std::string_view wanted) const noexcept {
        for (const processor& p : processors)
            if (p.name == wanted) return &p;
        return nullptr;
    }
    const link* link_between(const location& from, const location& to) const noexcept {
        for (const link& l : links)
            if (l.from == from && l.to == to) return &l;
        return nullptr;
    }
};

/// What a machine says of itself, or config_error that names what it leaves out.
///
///     auto launch = tern::known(cpu.launch, "the launch of " + cpu.name);
template <class T> const T& known(const std::optional<T>& value, const std::string& what) {
    if (value) return *value;
    throw config_error("the machine does not say " + what + ": measure it, or write it into the machine's JSON");
}

} // namespace tern
