// What the options of these programs say about memory: the policy, where weights come from, and what moved in the end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <tern/base/json_writer.hpp>
#include <tern/memory/open_reader.hpp>
#include <tern/model/runtime.hpp>
#include <tern/plan/all_cpu.hpp>
#include <tern/plan/automatic.hpp>
#include <tern/plan/expert_offload.hpp>
#include <tern/plan/first_fit.hpp>
#include <tern/plan/layer_split.hpp>
#include <tern/plan/layer_stream.hpp>

#include "machine_of.hpp"
#include "options.hpp"

/// The options --policy, --disk and --load, checked.
struct placing {
    std::string policy = "first_fit";
    std::size_t layers = 0; ///< of layer_split
    tern::tier_info from = tern::tier_of<tern::mapped>;
    std::string eviction = "frequency";          ///< of cached experts
    bool fill = false;                           ///< the cache of experts at the start
    bool direct = false;                         ///< files are read past the page cache
    std::optional<tern::machine> prices{};       ///< of automatic: what its processors and links are like
    tern::on_miss misses = tern::on_miss::split; ///< the most that automatic may do about missing experts
    bool strict = false;                         ///< a lesser way of reading or locking is an error

    static placing of(const options& args) {
        placing p;
        const std::string disk = args.text("disk", "mapped");
        if (disk != "mapped" && disk != "direct")
            throw tern::config_error("--disk is mapped or direct, not \"" + disk + "\"");
        if (disk == "direct") p.from = tern::tier_of<tern::direct>;
        if (args.on("load")) p.from = tern::tier_of<tern::pageable>;
        if (args.on("pinned")) p.from = tern::tier_of<tern::pinned>;
        p.direct = disk == "direct";
        p.strict = args.on("strict");
        p.policy = args.text("policy", p.policy);
        p.eviction = args.text("eviction", p.eviction);
        p.fill = args.text("on-miss", "fetch") != "fetch";
        if (p.eviction != "lru" && p.eviction != "frequency")
            throw tern::config_error("--eviction is lru or frequency, not \"" + p.eviction + "\"");
        const auto equals = p.policy.find('=');
        const bool known = p.policy == "first_fit" || p.policy == "all_cpu" || p.policy == "layer_stream" ||
                           p.policy == "expert_offload" || p.policy == "by_tensor" || p.policy == "automatic";
        if (p.policy.substr(0, equals) == "layer_split") {
            if (equals == p.policy.npos)
                throw tern::config_error("--policy layer_split needs a number: layer_split=20");
            p.layers = options::whole_number("--policy layer_split", p.policy.substr(equals + 1));
            p.policy = "layer_split";
        } else if (!known) {
            throw tern::config_error("there is no policy \"" + p.policy +
                                     "\": first_fit, all_cpu, layer_split=N, layer_stream, expert_offload, by_tensor "
                                     "or automatic");
        }
        if (p.policy == "automatic") {
            if (!args.has("machine"))
                throw tern::config_error(
                    "--policy automatic goes by prices: name a machine like this one with --machine");
            p.prices = machine_of(args.text("machine", ""));
            p.misses = tern::parse_on_miss(args.text("on-miss", "split"));
        }
        return p;
    }

    /// How the program reads files: past the page cache where --disk direct says so.
    std::unique_ptr<tern::disk_reader> open_reader() const {
        return tern::open_reader({.strict = strict && direct, .direct = direct});
    }

    tern::placement place(const tern::graph& g, const tern::machine& m) const {
        // What stays on the host for good cannot stay on the disk.
        const tern::tier_info rest = from == tern::tier_of<tern::direct> ? tern::tier_of<tern::pageable> : from;
        if (policy == "all_cpu") return tern::all_cpu{rest}.place(g, m);
        if (policy == "layer_split") return tern::layer_split{.layers = layers, .rest = rest}.place(g, m);
        if (policy == "layer_stream") return tern::layer_stream{.from = from}.place(g, m);
        if (policy == "expert_offload")
            return tern::expert_offload{.from = from, .eviction = eviction, .fill = fill}.place(g, m);
        if (policy == "automatic") {
            tern::chain_options how;
            how.rest = rest;
            return tern::automatic<>{tern::roofline(priced(m)), how, misses}.place(g, priced(m));
        }
        return tern::first_fit{.rest = rest}.place(g, m);
    }

private:
    /// The processors and links of the machine that was named, with the memories of the runtime.
    tern::machine priced(const tern::machine& m) const {
        tern::machine priced = *prices;
        for (tern::memory_space& s : priced.memories) {
            const tern::memory_space* const here = m.memory_at(s.where);
            s.budget = here != nullptr ? here->budget : tern::bytes{};
            s.reserved = here != nullptr ? here->reserved : tern::bytes{};
        }
        return priced;
    }
};

/// Bytes that went over each link so far, and how often a weight was there when it was needed.
struct moved_bytes {
    std::uint64_t disk = 0;
    std::uint64_t to_device = 0;
    std::uint64_t to_host = 0;
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    std::uint64_t active = 0; ///< bytes of the experts that were chosen

    static moved_bytes so_far(tern::runtime& run, const tern::disk_reader& reader) {
        moved_bytes m;
        m.disk = reader.counters().read.count;
        if (const tern::emulated_device* gpu = run.accelerator()) {
            m.to_device = gpu->traffic().to_device.count;
            m.to_host = gpu->traffic().to_host.count;
        }
        for (tern::device* d : run.devices()) {
            m.hits += run.store().counters(*d).hits;
            m.misses += run.store().counters(*d).misses;
        }
        m.active = run.ctx().expert_use().active.count;
        return m;
    }
    friend moved_bytes operator-(const moved_bytes& a, const moved_bytes& b) {
        return {a.disk - b.disk, a.to_device - b.to_device, a.to_host - b.to_host,
                a.hits - b.hits, a.misses - b.misses,       a.active - b.active};
    }
    moved_bytes operator/(std::size_t n) const {
        return {disk / n, to_device / n, to_host / n, hits / n, misses / n, active / n};
    }

    void write(tern::json_writer& json) const {
        json.begin_object();
        json.member("disk_to_ram", disk);
        json.member("ram_to_vram", to_device);
        json.member("vram_to_ram", to_host);
        json.member("hits", hits);
        json.member("misses", misses);
        json.member("active_experts", active);
        json.end_object();
    }
    std::string text() const {
        return "disk -> ram " + to_string(tern::bytes{disk}) + ", ram -> vram " + to_string(tern::bytes{to_device}) +
               ", vram -> ram " + to_string(tern::bytes{to_host}) + ", " + std::to_string(hits) + " hits, " +
               std::to_string(misses) + " misses" +
               (active != 0 ? ", experts chosen " + to_string(tern::bytes{active}) : std::string{});
    }
};
