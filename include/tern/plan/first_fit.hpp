// first_fit: fusion groups go into a device's memory in the order of the graph while they fit; the rest stays on the
// host.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/plan/all_cpu.hpp>
#include <tern/plan/kept_free.hpp>
#include <tern/plan/placement.hpp>

namespace tern {

/// The plainest split over two memories. Keeps `headroom` of the budget free for activations, beside what the machine
/// reserves (0: a quarter more than the recorded peak, which covers rounding). A table that is only looked up by token
/// stays on the host, because reading one row there costs nothing.
///
///     auto plan = tern::first_fit{}.place(graph, machine.with_budget<tern::vram>(8_MiB));
struct first_fit {
    static constexpr std::string_view name = "first_fit";
    location into{tier_of<vram>, 0, 0};
    tier_info rest = tier_of<mapped>;
    bytes headroom{};
    kept_free keep{}; ///< besides

    template <class = void> placement place(const graph& g, const machine& m) const {
        placement p = all_cpu{rest}.place(g, m);
        p.policy = name;
        const bytes free = keep.size() + (headroom.count != 0 ? headroom : g.activation_room());
        const bytes room = m.room_at(into);
        bytes left = room > free ? room - free : bytes{};
        std::vector<bool> seen(g.tensors.size());
        for (const graph_node& node : g.nodes) {
            if (node.op == "embed") continue; // a tied table is met again at the output
            bytes size{};
            bool movable = true;
            std::vector<std::size_t> group;
            for (const std::size_t t : node.tensors) {
                if (seen[t]) continue;
                seen[t] = true;
                group.push_back(t);
                // The arena gives memory in units of its alignment.
                size += bytes{checked_add<std::uint64_t>(g.tensors[t].size().count, 64 * g.tensors[t].shape.experts)};
                movable = movable && g.tensors[t].allows(into.tier);
            }
            const bool fits = movable && size <= left;
            if (fits) left -= size;
            for (const std::size_t t : group) {
                if (fits) p.tensors[t].where = into;
                p.tensors[t].reason = fits ? "fits into what was left of " + to_string(into)
                                      : movable
                                          ? "its group needs " + to_string(size) + ", " + to_string(left) + " left"
                                          : "its type does not allow " + to_string(into);
            }
        }
        return p;
    }
};

static_assert(placement_policy<first_fit>);

} // namespace tern
