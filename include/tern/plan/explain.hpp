// explain: a placement as a table that people read, before anything is loaded.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

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

/// What a placement takes of a memory and its budget: weights, those of memories that count against it too, room for
/// others, and what is reserved. A pool without a limit takes nothing by itself.
inline bytes taken_of(const placement& p, const graph& g, const machine& m, const memory_space& memory) {
    bytes sum = p.bytes_at(g, memory.where) + memory.reserved;
    if (p.pool_at(memory.where) != unlimited) sum += p.pool_at(memory.where);
    for (const memory_space& other : m.memories)
        if (other.in_ram && memory.where.tier == tier_of<pageable>) sum += p.bytes_at(g, other.where);
    return sum;
}

/// Every memory of which something is taken, on one line.
inline std::string in_short(const placement& p, const graph& g, const machine& m) {
    std::string text;
    for (const memory_space& memory : m.memories) {
        const bytes taken = taken_of(p, g, m, memory);
        if (taken == bytes{}) continue;
        text += (text.empty() ? "" : ", ") + to_string(memory.where) + " " + to_string(taken);
        if (memory.budget != unlimited) text += " of " + to_string(memory.budget);
    }
    return "in short: " + (text.empty() ? std::string("nothing") : text) + "\n";
}

} // namespace detail

/// A line for each tensor (name, format, bytes, location, reason), then a line for each memory with its budget, the
/// activations, and a last line in short: what is taken of each memory's budget.
///
///     std::cout << tern::explain(plan, graph, machine);
///
/// `times`, where there are any, are a column of their own: one for each tensor, as explain_time.hpp writes them.
template <class = void>
std::string explain(const placement& p, const graph& g, const machine& m, const std::vector<std::string>& times = {}) {
    std::size_t longest = 6;
    for (const planned_tensor& t : g.tensors) longest = t.name.size() > longest ? t.name.size() : longest;
    const bool timed = times.size() == p.tensors.size() && !times.empty();
    std::string text = "policy " + std::string(p.policy) + "\n" + detail::padded("tensor", longest) +
                       "  format  size        place               " +
                       (timed ? detail::padded("prefill, decode", 22) : "") + "reason\n";
    for (std::size_t i = 0; i < p.tensors.size(); ++i) {
        const planned_tensor& t = g.tensors[i];
        text += detail::padded(t.name, longest) + "  " + detail::padded(t.format, 6) + "  " +
                detail::padded(to_string(t.size()), 10) + "  " + detail::padded(detail::way_of(p.tensors[i]), 18) +
                "  " + (timed ? detail::padded(times[i], 20) + "  " : "") + p.tensors[i].reason + "\n";
    }
    for (const memory_space& memory : m.memories) {
        text += to_string(memory.where) + ": " + to_string(p.bytes_at(g, memory.where)) + " of weights";
        const bytes pool = p.pool_at(memory.where);
        if (pool == unlimited)
            text += ", room for others on their way without limit";
        else if (pool.count != 0)
            text += ", " + to_string(pool) + " of room for others on their way";
        if (memory.reserved.count != 0) text += ", " + to_string(memory.reserved) + " reserved";
        if (memory.budget != unlimited) text += ", budget " + to_string(memory.budget);
        text += "\n";
    }
    return text + "activations: " + to_string(g.activation_peak) + " at most at once\n" + detail::in_short(p, g, m);
}

} // namespace tern
