// What the tests of simulations share: a machine with round figures and a cost model that is easy to follow.
#pragma once

#include <algorithm>
#include <string>

#include <tern/cost/cost_model.hpp>
#include <tern/cost/machine.hpp>
#include <tern/sim/any_cost.hpp>

namespace tern::test {

inline constexpr location ram{tier_of<pageable>, 0, 0};
inline constexpr location card{tier_of<vram>, 0, 0};

/// A host that reads 10 GB/s, a card that reads 100 GB/s, a link of 1 GB/s with a latency of 10 us each way and a disk
/// of 0.5 GB/s.
inline machine plain_machine(bytes vram = {64 << 20}) {
    machine m;
    m.name = "plain";
    m.memories = {{ram, {std::uint64_t{8} << 30}, {}, false, {}, bytes_per_second{10e9}, {}},
                  {{tier_of<mapped>, 0, 0}, unlimited, {}, false, {}, bytes_per_second{10e9}, {}},
                  {{tier_of<direct>, 0, 0}, unlimited, {}, false, {}, bytes_per_second{0.5e9}, {}},
                  {card, vram, {}, false, {}, bytes_per_second{100e9}, {}}};
    m.processors = {{"host",
                     processor_kind::cpu,
                     0,
                     {ram, {tier_of<pinned>, 0, 0}, {tier_of<mapped>, 0, 0}},
                     {},
                     seconds{1e-6},
                     seconds{}},
                    {"card", processor_kind::accelerator, 0, {card}, {}, seconds{1e-6}, seconds{}}};
    return m;
}

/// By bytes alone: 10 GB/s on the host, 100 GB/s on the card, 1 GB/s over links after 10 us, 0.5 GB/s from the disk.
struct by_bytes {
    seconds price(const move& m) const {
        const double rate = m.from.tier == tier_of<direct> ? 0.5e9 : 1e9;
        return {1e-5 + static_cast<double>(m.size.count) * static_cast<double>(1 + m.beside.size()) / rate};
    }
    seconds price(const run& r) const {
        const double rate = r.processor == "host" ? 10e9 : 100e9;
        return {1e-6 + static_cast<double>(r.weights.count + r.other.count) / rate};
    }
};

} // namespace tern::test
