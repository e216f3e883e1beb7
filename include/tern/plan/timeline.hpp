// The links of a machine over time: who waits for whom, and what transfers leave of a memory's bandwidth.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tern/base/units.hpp>
#include <tern/cost/machine.hpp>

namespace tern {

/// One link of a transfer's way and the time that the link needs for it.
struct hop {
    std::size_t link = 0; ///< index into machine::links
    double time = 0;
    double share = 1; ///< of the bytes, those that go over it
};

/// What was asked of one resource.
struct resource_use {
    std::string name{};
    seconds busy{};
    bytes moved{}; ///< over a link or a bus; 0 for processors
};

/// Links of one bus are one lane, and a lane carries one transfer at a time, in the order in which they are asked for.
/// Transfers come first at the memories they touch: a computation that reads one of them meanwhile gets the rest of its
/// bandwidth. Times are in seconds from 0. The machine must outlive it.
class timeline {
public:
    explicit timeline(const machine& m) : machine_(m), lane_of_(m.links.size()), uses_(m.links.size()) {
        std::vector<std::string> lanes;
        for (std::size_t i = 0; i < m.links.size(); ++i) {
            const link& l = m.links[i];
            uses_[i].name = to_string(l.from) + " to " + to_string(l.to);
            // A lane without a bus is named like no bus.
            lane_of_[i] = index_of(lanes, l.bus.empty() ? "\n" + std::to_string(i) : l.bus);
        }
        free_.resize(lanes.size());
        for (const memory_space& s : m.memories) {
            if (s.bus.empty()) continue;
            const std::size_t bus = index_of(buses_, s.bus);
            capacity_.resize(buses_.size());
            if (s.bandwidth) capacity_[bus] = std::max(capacity_[bus], s.bandwidth->count);
        }
        bus_bytes_.resize(buses_.size());
    }

    /// Bytes over one link, or over two as a stream of pieces of `piece` bytes; both go on at once, and the last piece
    /// goes over the second after it has gone over the first. Gives the time at which they are there.
    double transfer(double begin, bytes size, std::span<const hop> way, double piece = 1 << 20) {
        double from = begin;
        double end = begin;
        for (const hop& h : way) {
            double& free = free_[lane_of_[h.link]];
            const double share = size.count == 0 ? 1 : std::min(1.0, piece / static_cast<double>(size.count));
            const double starts = std::max(from, free);
            end = std::max(starts + h.time, end + h.time * (&h == way.data() ? 0 : share));
            free = end;
            note(h.link, starts, end, h.time, {static_cast<std::uint64_t>(static_cast<double>(size.count) * h.share)});
            from = starts + h.time * share;
        }
        return end;
    }

    /// Activations have a queue of their own, and delay what the lane carries next.
    void activations(double begin, std::size_t link, double time, bytes size) {
        double& free = free_[lane_of_[link]];
        free = std::max(free, begin) + time;
        uses_[link].busy += seconds{time};
        uses_[link].moved += size;
    }

    /// When a computation ends that takes `alone` seconds while nothing else touches the memory it reads `size` from.
    double compute(double begin, double alone, const location& memory, bytes size) {
        const std::size_t bus = bus_at(memory);
        if (bus == none) return begin + alone;
        bus_bytes_[bus] += static_cast<double>(size.count);
        const double rate = alone > 0 ? static_cast<double>(size.count) / alone : 0;
        if (capacity_[bus] == 0 || rate == 0) return begin + alone;
        double now = begin;
        double left = alone;
        while (left > 0) {
            double taken = 0;
            double next = now + left;
            bool changes = false;
            for (const flight& f : flights_) {
                if ((f.buses >> bus & 1) == 0 || f.end <= now) continue;
                const double edge = f.begin > now ? f.begin : f.end;
                if (f.begin <= now) taken += f.rate;
                if (!changes || edge < next) next = edge, changes = true;
            }
            const double speed = std::clamp((capacity_[bus] - taken) / rate, least_share, 1.0);
            if (!changes || now + left / speed <= next) return now + left / speed;
            left -= (next - now) * speed;
            now = next;
        }
        return now;
    }

    /// The share of its speed that a computation keeps, which reads `rate` bytes a second from a memory, while bytes go
    /// over a way that takes `size` of them for each run of its hops.
    double speed_beside(const location& memory, double rate, std::span<const hop> way, bytes size) const {
        const std::size_t bus = bus_at(memory);
        if (bus == none || capacity_[bus] == 0 || !(rate > 0)) return 1;
        double taken = 0;
        for (const hop& h : way)
            for (const location& l : {machine_.links[h.link].from, machine_.links[h.link].to})
                if (bus_at(l) == bus && h.time > 0) {
                    taken += static_cast<double>(size.count) * h.share / h.time;
                    break;
                }
        return std::clamp((capacity_[bus] - taken) / rate, least_share, 1.0);
    }

    /// Forgets transfers that ended before a time.
    void past(double time) {
        std::erase_if(flights_, [&](const flight& f) { return f.end <= time; });
    }

    /// Links, then the buses of memories, with what was asked of them so far.
    std::vector<resource_use> uses() const {
        std::vector<resource_use> all = uses_;
        for (std::size_t b = 0; b < buses_.size(); ++b) {
            const double busy = capacity_[b] > 0 ? bus_bytes_[b] / capacity_[b] : 0;
            all.push_back({buses_[b], {busy}, {static_cast<std::uint64_t>(bus_bytes_[b])}});
        }
        return all;
    }

private:
    static constexpr std::size_t none = static_cast<std::size_t>(-1);
    static constexpr double least_share = 0.05; // of its speed that a computation keeps

    struct flight {
        double begin, end, rate;
        std::uint64_t buses; // a bit for each of the first 64
    };

    static std::size_t index_of(std::vector<std::string>& names, const std::string& name) {
        const auto at = std::find(names.begin(), names.end(), name);
        if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
        names.push_back(name);
        return names.size() - 1;
    }
    std::size_t bus_at(const location& where) const {
        const memory_space* const m = machine_.memory_at(where);
        if (m == nullptr || m->bus.empty()) return none;
        const auto at = std::find(buses_.begin(), buses_.end(), m->bus) - buses_.begin();
        return static_cast<std::size_t>(at) < 64 ? static_cast<std::size_t>(at) : none;
    }

    void note(std::size_t link, double begin, double end, double time, bytes size) {
        uses_[link].busy += seconds{time};
        uses_[link].moved += size;
        std::uint64_t buses = 0;
        for (const location& l : {machine_.links[link].from, machine_.links[link].to})
            if (const std::size_t bus = bus_at(l); bus != none) buses |= std::uint64_t{1} << bus;
        for (std::size_t b = 0; b < buses_.size() && b < 64; ++b)
            if (buses >> b & 1) bus_bytes_[b] += static_cast<double>(size.count);
        if (buses != 0 && end > begin)
            flights_.push_back({begin, end, static_cast<double>(size.count) / (end - begin), buses});
    }

    const machine& machine_;
    std::vector<std::size_t> lane_of_; // by link
    std::vector<double> free_;         // by lane: when its last transfer ends
    std::vector<resource_use> uses_;   // by link
    std::vector<std::string> buses_;   // of memories
    std::vector<double> capacity_;
    std::vector<double> bus_bytes_;
    std::vector<flight> flights_;
};

} // namespace tern
