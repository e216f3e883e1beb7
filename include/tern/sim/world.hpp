// What the devices of one simulation share: time, prices, who lies where, what is under way, and what was done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/async/clock.hpp>
#include <tern/base/units.hpp>
#include <tern/memory/tier.hpp>
#include <tern/sim/any_cost.hpp>
#include <tern/sim/routing.hpp>

namespace tern {

/// One thing that a device or a link did: from `begin` for `length`.
struct sim_event {
    std::string_view track{}; ///< of the device or link; lives as long as the simulation
    std::string_view what{};  ///< the operator or "copy"; a constant
    seconds begin{};
    seconds length{};
    double amount = 0; ///< bytes
};

/// What a device or a link did all in all.
struct sim_track {
    std::string name{};
    bool is_link = false; ///< bytes go over it; else it computes
    seconds busy{};
    double bytes = 0;
    std::uint64_t calls = 0;
};

/// Which memory an address is of. Nothing ever lies at the addresses of a simulation.
class address_map {
public:
    void add(const std::byte* begin, bytes size, const location& where) {
        ranges_.push_back({reinterpret_cast<std::uintptr_t>(begin), size.count, where});
    }
    location of(const void* p, const location& otherwise) const noexcept {
        const auto at = reinterpret_cast<std::uintptr_t>(p);
        for (const range& r : ranges_)
            if (at - r.begin < r.size) return r.where;
        return otherwise;
    }

private:
    struct range {
        std::uintptr_t begin;
        std::uint64_t size;
        location where;
    };
    std::vector<range> ranges_;
};

/// Shared by the devices of one simulation, on one thread.
struct sim_world {
    clock& time;
    const any_cost& cost;
    address_map places{};
    expert_draw routing{};
    std::vector<route> under_way{};
    std::vector<sim_event>* events = nullptr; ///< told of everything; null: nobody is
    std::size_t routed = 0;                   ///< routers that chose in this pass: the layer of the next one

    /// The price of a transfer beside those under way, of which it is one from now until `ended`.
    seconds begin(move m) {
        m.beside = under_way;
        const seconds t = cost.price(m);
        under_way.push_back({m.from, m.to});
        return t;
    }
    void end(const route& r) noexcept {
        for (std::size_t i = 0; i < under_way.size(); ++i)
            if (under_way[i].from == r.from && under_way[i].to == r.to) {
                under_way[i] = under_way.back();
                under_way.pop_back();
                return;
            }
    }
    void note(sim_track& track, std::string_view what, seconds length, double amount) {
        track.busy += length;
        track.bytes += amount;
        ++track.calls;
        if (events != nullptr) events->push_back({track.name, what, time.now(), length, amount});
    }
};

} // namespace tern
