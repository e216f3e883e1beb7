// What tells one machine from another: a line of text that a profile carries.
#pragma once

#include <string>

#include <tern/cost/machine.hpp>

namespace tern {

/// Name, processors, memories with their capacity, and links with their bus. Not among them: budgets, which change
/// between runs, and rates, which differ between two measurements of one machine.
///
///     profile.machine = tern::fingerprint(machine);
template <class = void> std::string fingerprint(const machine& m) {
    const auto at = [](const location& l) {
        return std::string(l.tier.name) + ":" + std::to_string(l.device) + "#" + std::to_string(l.node);
    };
    std::string text = m.name;
    for (const processor& p : m.processors) {
        text += "; " + p.name + (p.kind == processor_kind::cpu ? " cpu " : " accelerator ") + std::to_string(p.device);
        for (const location& l : p.reads) text += " " + at(l);
    }
    for (const memory_space& s : m.memories) {
        text += "; " + at(s.where);
        if (s.capacity) text += " " + std::to_string(s.capacity->count);
        if (!s.bus.empty()) text += " on " + s.bus;
    }
    for (const link& l : m.links) {
        text += "; " + at(l.from) + " to " + at(l.to);
        if (!l.bus.empty()) text += " on " + l.bus;
    }
    return text;
}

} // namespace tern
