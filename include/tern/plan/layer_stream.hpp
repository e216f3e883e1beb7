// layer_stream: weights stream through a small window of memory, in the order of the layers; what fits beside it stays.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tern/plan/all_cpu.hpp>
#include <tern/plan/kept_free.hpp>
#include <tern/plan/placement.hpp>
#include <tern/plan/roles.hpp>

namespace tern {

/// For weights larger than the memory where they are computed: vram where the machine has some, else RAM. They lie in
/// `from` (direct, mapped, pinned or pageable) and are brought for each use, a window ahead; the room that is left
/// keeps weights for good, small ones first, so that nothing streams where everything fits. Mapped weights that the
/// host computes are read in place, and the system is told ahead.
///
///     auto plan = tern::layer_stream{.from = tern::tier_of<tern::direct>}.place(graph, run.machine());
struct layer_stream {
    static constexpr std::string_view name = "layer_stream";
    tier_info from = tier_of<direct>;
    bytes window{};   ///< room for what is on its way; 0: a quarter of what there is, at most 256 MiB
    kept_free keep{}; ///< of the memory where they are computed

    template <class = void> placement place(const graph& g, const machine& m) const {
        const location accelerator{tier_of<vram>, 0, 0};
        const location to = m.budget_of(accelerator).count != 0 ? accelerator : location{tier_of<pageable>, 0, 0};
        const bool in_place = from == tier_of<mapped> && to.tier.reached_by == reach::host;
        placement p = all_cpu{in_place ? from : tier_of<pageable>}.place(g, m);
        p.policy = name;
        const std::vector<tensor_role> roles = roles_of(g);
        for (std::size_t t = 0; t < g.tensors.size(); ++t) settle(p.tensors[t], g.tensors[t], roles[t], to, in_place);
        if (!in_place) keep_what_fits(p, g, weight_room(g, m, to, keep), to);
        return p;
    }

private:
    template <class = void>
    void settle(placed_tensor& p, const planned_tensor& t, tensor_role role, const location& to, bool in_place) const {
        if (role == tensor_role::looked_up && t.allows(tier_of<mapped>)) {
            p = {{tier_of<mapped>}, "a row a token is looked up", {}};
        } else if (in_place && t.allows(from)) {
            p = {{from}, "it is read where it is mapped, and announced ahead", {}};
        } else if (t.allows(from) && t.allows(to.tier)) {
            p = {{from}, "it is brought for each use", to};
        }
    }

    template <class = void> void keep_what_fits(placement& p, const graph& g, bytes room, const location& to) const {
        std::vector<std::size_t> streamed;
        bytes largest{};
        bytes all{};
        for (std::size_t t = 0; t < p.tensors.size(); ++t) {
            if (!p.tensors[t].streamed()) {
                if (p.tensors[t].where == to) room = room > need(g.tensors[t]) ? room - need(g.tensors[t]) : bytes{};
                continue;
            }
            streamed.push_back(t);
            all += need(g.tensors[t]);
            largest = std::max(largest, g.tensors[t].slice_size);
        }
        const bool everything = all <= room;
        const bytes through = everything ? bytes{} : std::min(room, width(room, largest));
        bytes left = room == unlimited ? room : room - through;
        std::stable_sort(streamed.begin(), streamed.end(), [&](std::size_t a, std::size_t b) {
            return is_small(g.tensors[a]) && !is_small(g.tensors[b]);
        });
        for (const std::size_t t : streamed) {
            if (need(g.tensors[t]) > left) continue;
            if (left != unlimited) left -= need(g.tensors[t]);
            p.tensors[t] = {to, "it fits beside the window", {}};
        }
        if (!everything) p.pools.push_back({.where = to, .limit = through});
    }

    /// Of the window: two of the largest slices at least, so that one is read while another is used.
    bytes width(bytes room, bytes largest) const {
        constexpr std::uint64_t page = 4096; // direct reads bring whole pages
        const bytes least{2 * (largest.count + 2 * page)};
        if (window.count != 0) return std::max(window, least);
        return std::max(bytes{std::min<std::uint64_t>(room.count / 4, std::uint64_t{256} << 20)}, least);
    }
    static bool is_small(const planned_tensor& t) { return t.size().count <= 64 * 1024; }
    /// Memory comes in units of a page at most.
    static bytes need(const planned_tensor& t) {
        return {checked_add<std::uint64_t>(t.size().count, 3 * 4096 * t.shape.experts)};
    }
};

static_assert(placement_policy<layer_stream>);

} // namespace tern
