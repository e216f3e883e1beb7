// explain: a placement as a table that people read, before anything is loaded.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <tern/plan/placement.hpp>

namespace tern {

namespace detail {

inline std::string padded(std::string_view text, std::size_t width) {
    std::string out(text);
    if (out.size() < width) out.append(width - out.size(), ' ');
    return out;
}

/// Where a tensor lies, and where it is brought to for a use.
inline std::string way_of(const placed_tensor& p) {
    return p.streamed() ? to_string(p.where) + " -> " + to_string(*p.computes) : to_string(p.where);
}

} // namespace detail

/// A line for each tensor (name, format, bytes, location, reason), then a line for each memory with its budget.
///
///     std::cout << tern::explain(plan, graph, machine);
template <class = void> std::string explain(const placement& p, const graph& g, const machine& m) {
    std::size_t longest = 6;
    for (const planned_tensor& t : g.tensors) longest = t.name.size() > longest ? t.name.size() : longest;
    std::string text = "policy " + std::string(p.policy) + "\n" + detail::padded("tensor", longest) +
                       "  format  size        place               reason\n";
    for (std::size_t i = 0; i < p.tensors.size(); ++i) {
        const planned_tensor& t = g.tensors[i];
        text += detail::padded(t.name, longest) + "  " + detail::padded(t.format, 6) + "  " +
                detail::padded(to_string(t.size()), 10) + "  " + detail::padded(detail::way_of(p.tensors[i]), 18) +
                "  " + p.tensors[i].reason + "\n";
    }
    for (const memory_space& memory : m.memories) {
        text += to_string(memory.where) + ": " + to_string(p.bytes_at(g, memory.where)) + " of weights";
        if (p.pool_at(memory.where).count != 0)
            text += ", " + to_string(p.pool_at(memory.where)) + " of room for others on their way";
        if (memory.reserved.count != 0) text += ", " + to_string(memory.reserved) + " reserved";
        if (memory.budget != unlimited) text += ", budget " + to_string(memory.budget);
        text += "\n";
    }
    return text + "activations: " + to_string(g.activation_peak) + " at most at once\n";
}

} // namespace tern
