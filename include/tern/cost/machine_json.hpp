// A machine as JSON: what is written reads back equal, and what is read is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/base/json.hpp>
#include <tern/base/json_fields.hpp>
#include <tern/base/json_writer.hpp>
#include <tern/cost/machine.hpp>
#include <tern/memory/text_file.hpp>

namespace tern {

namespace detail {

inline constexpr tier_info known_tiers[] = {tier_of<vram>, tier_of<pinned>, tier_of<pageable>, tier_of<mapped>,
                                            tier_of<direct>};

/// "vram:0", "pageable", "pageable#1": the tier, the device where it is not 0 or the tier is a device's, the node
/// where it is not 0.
inline std::string location_text(const location& l) {
    std::string text{l.tier.name};
    if (l.device != 0 || l.tier.reached_by == reach::device) text += ":" + std::to_string(l.device);
    if (l.node != 0) text += "#" + std::to_string(l.node);
    return text;
}

/// A decimal number of at most four digits at `at`, which moves behind it; nothing where there is none.
inline std::optional<int> small_number(std::string_view text, std::size_t& at) {
    int n = 0;
    const std::size_t first = at;
    for (; at < text.size() && at < first + 4 && text[at] >= '0' && text[at] <= '9'; ++at)
        n = 10 * n + (text[at] - '0');
    return at == first ? std::nullopt : std::optional(n);
}

/// The location that location_text wrote; nothing for other text. `own` are tiers beside the ready-made ones.
inline std::optional<location> parse_location(std::string_view text, std::span<const tier_info> own = {}) {
    std::size_t at = text.find_first_of(":#");
    if (at == text.npos) at = text.size();
    const std::string_view name = text.substr(0, at);
    std::optional<location> found;
    for (const std::span<const tier_info> tiers : {std::span<const tier_info>(known_tiers), own})
        for (const tier_info& t : tiers)
            if (t.name == name) found = location{t, 0, 0};
    for (const auto& [mark, part] : {std::pair(':', &location::device), std::pair('#', &location::node)}) {
        if (!found || at == text.size() || text[at] != mark) continue;
        const std::optional<int> n = small_number(text, ++at);
        if (!n) return std::nullopt;
        *found.*part = *n;
    }
    return at == text.size() ? found : std::nullopt;
}

inline location read_location(const json_fields& in, std::string_view key, std::span<const tier_info> own) {
    if (const auto l = parse_location(in.string(key), own)) return *l;
    in.fail(key, "\"" + in.string(key) + "\" is no location: write a tier such as pinned, or vram:0");
}

/// Bytes, or the word "unlimited".
inline bytes read_bytes(const json_fields& in, std::string_view key) {
    if (in.at(key).is(json_kind::string) && in.string(key) == "unlimited") return unlimited;
    return {in.uint64(key)};
}
inline std::optional<bytes_per_second> read_bandwidth(const json_fields& in) {
    if (!in.has("bandwidth")) return std::nullopt;
    if (in.at("bandwidth").is(json_kind::string) && in.string("bandwidth") == "unlimited") return bytes_per_second{};
    return bytes_per_second{in.positive("bandwidth")};
}
inline std::optional<seconds> read_seconds(const json_fields& in, std::string_view key) {
    const std::optional<double> n = in.find_not_negative(key);
    return n ? std::optional(seconds{*n}) : std::nullopt;
}

inline memory_space read_memory(const json_fields& in, std::span<const tier_info> own) {
    memory_space m;
    m.where = read_location(in, "where", own);
    m.budget = read_bytes(in, "budget");
    if (in.has("reserved")) m.reserved = {in.uint64("reserved")};
    if (in.has("in_ram")) m.in_ram = in.boolean("in_ram");
    if (in.has("capacity")) m.capacity = read_bytes(in, "capacity");
    m.bandwidth = read_bandwidth(in);
    if (in.has("bus")) m.bus = in.string("bus");
    return m;
}

inline processor read_processor(const json_fields& in, std::span<const tier_info> own) {
    processor p;
    p.name = in.string("name");
    const std::string& kind = in.string("kind");
    if (kind != "cpu" && kind != "accelerator") in.fail("kind", "expected \"cpu\" or \"accelerator\"");
    p.kind = kind == "cpu" ? processor_kind::cpu : processor_kind::accelerator;
    const std::uint64_t device = in.uint64("device");
    if (device > 9999) in.fail("device", "is out of range");
    p.device = static_cast<int>(device);
    for (const json_value& where : in.array("reads")) {
        const auto l = where.is(json_kind::string) ? parse_location(where.as_string(), own) : std::nullopt;
        if (!l) in.fail("reads", "expected locations, such as \"pinned\" or \"vram:0\"");
        p.reads.push_back(*l);
    }
    p.rates = {in.find_positive("f32"), in.find_positive("f16"), in.find_positive("int8")};
    p.launch = read_seconds(in, "launch");
    p.sync = read_seconds(in, "sync");
    return p;
}

inline link read_link(const json_fields& in, std::span<const tier_info> own) {
    link l;
    l.from = read_location(in, "from", own);
    l.to = read_location(in, "to", own);
    l.bandwidth = read_bandwidth(in);
    l.latency = read_seconds(in, "latency");
    if (in.has("bus")) l.bus = in.string("bus");
    return l;
}

/// The records of an array, at most `most` of them.
template <class Read>
void read_records(const json_fields& in, std::string_view key, std::initializer_list<std::string_view> known, Read read,
                  std::size_t most = 1000) {
    if (!in.has(key)) return;
    const std::span<const json_value> values = in.array(key);
    if (values.size() > most) in.fail(key, "has more than " + std::to_string(most) + " entries");
    for (std::size_t i = 0; i < values.size(); ++i)
        read(json_fields(values[i], in.file(), in.way_to(key) + "[" + std::to_string(i) + "]", known));
}

inline void write_bytes(json_writer& out, std::string_view key, bytes n) {
    n == unlimited ? out.member(key, "unlimited") : out.member(key, n.count);
}
inline void write_bandwidth(json_writer& out, const std::optional<bytes_per_second>& b) {
    if (!b) return;
    b->count == std::numeric_limits<double>::infinity() ? out.member("bandwidth", "unlimited")
                                                        : out.member("bandwidth", b->count);
}
template <class T> void write_known(json_writer& out, std::string_view key, const std::optional<T>& v) {
    if (!v) return;
    if constexpr (std::is_same_v<T, seconds>)
        out.member(key, v->count);
    else
        out.member(key, *v);
}

inline void write_memory(json_writer& out, const memory_space& m) {
    out.begin_object().member("where", location_text(m.where));
    write_bytes(out, "budget", m.budget);
    if (m.reserved.count != 0) out.member("reserved", m.reserved.count);
    if (m.in_ram) out.member("in_ram", true);
    if (m.capacity) write_bytes(out, "capacity", *m.capacity);
    write_bandwidth(out, m.bandwidth);
    if (!m.bus.empty()) out.member("bus", m.bus);
    out.end_object();
}
inline void write_processor(json_writer& out, const processor& p) {
    out.begin_object().member("name", p.name);
    out.member("kind", p.kind == processor_kind::cpu ? "cpu" : "accelerator").member("device", p.device);
    out.key("reads").begin_array();
    for (const location& l : p.reads) out.value(location_text(l));
    out.end_array();
    for (const number_kind k : {number_kind::f32, number_kind::f16, number_kind::int8})
        write_known(out, name_of(k), p.rates.of(k));
    write_known(out, "launch", p.launch);
    write_known(out, "sync", p.sync);
    out.end_object();
}
inline void write_link(json_writer& out, const link& l) {
    out.begin_object().member("from", location_text(l.from)).member("to", location_text(l.to));
    write_bandwidth(out, l.bandwidth);
    write_known(out, "latency", l.latency);
    if (!l.bus.empty()) out.member("bus", l.bus);
    out.end_object();
}

/// What cannot be: the same thing twice, and ends that are not there.
template <class = void> void check_machine(const machine& m, const std::string& file) {
    const auto bad = [&](const std::string& what) { throw parse_error(what, {.path = file}); };
    const auto nth = [](std::string_view of, std::size_t i) { return std::string(of) + "[" + std::to_string(i) + "]"; };
    for (std::size_t i = 0; i < m.memories.size(); ++i)
        if (m.memory_at(m.memories[i].where) != &m.memories[i])
            bad(nth("memories", i) + ".where: " + location_text(m.memories[i].where) + " is there twice");
    for (std::size_t i = 0; i < m.processors.size(); ++i) {
        const processor& p = m.processors[i];
        if (p.name.empty()) bad(nth("processors", i) + ".name: is empty");
        if (m.processor_named(p.name) != &p) bad(nth("processors", i) + ".name: \"" + p.name + "\" is there twice");
        if (p.reads.empty()) bad(nth("processors", i) + ".reads: is empty: it computes from no memory");
        for (const location& l : p.reads)
            if (m.memory_at(l) == nullptr)
                bad(nth("processors", i) + ".reads: the machine has no memory " + location_text(l));
    }
    for (std::size_t i = 0; i < m.links.size(); ++i) {
        const link& l = m.links[i];
        for (const location& end : {l.from, l.to})
            if (m.memory_at(end) == nullptr) bad(nth("links", i) + ": the machine has no memory " + location_text(end));
        if (l.from == l.to) bad(nth("links", i) + ": leads from " + location_text(l.from) + " to itself");
        if (m.link_between(l.from, l.to) != &l)
            bad(nth("links", i) + ": " + location_text(l.from) + " to " + location_text(l.to) + " is there twice");
    }
}

} // namespace detail

/// A machine from JSON; docs/cost.md has an example. Keys that are left out are unknown, or 0. Throws parse_error that
/// names `file` and the key for what is no JSON, a key that it does not know, a value out of range, a memory, processor
/// or link that is there twice, and a link or processor at a memory that is not there. `own` are tiers of one's own;
/// their names must outlive the machine.
///
///     tern::machine m = tern::parse_machine(tern::read_text_file(path), path);
template <class = void>
machine parse_machine(std::string_view text, const std::string& file = {}, std::span<const tier_info> own = {}) {
    const json_value root = parse_json(text, file, 8);
    const json_fields in(root, file, "", {"name", "memories", "processors", "links"});
    machine m;
    if (in.has("name")) m.name = in.string("name");
    detail::read_records(in, "memories", {"where", "budget", "reserved", "in_ram", "capacity", "bandwidth", "bus"},
                         [&](const json_fields& f) { m.memories.push_back(detail::read_memory(f, own)); });
    detail::read_records(in, "processors", {"name", "kind", "device", "reads", "f32", "f16", "int8", "launch", "sync"},
                         [&](const json_fields& f) { m.processors.push_back(detail::read_processor(f, own)); });
    detail::read_records(in, "links", {"from", "to", "bandwidth", "latency", "bus"},
                         [&](const json_fields& f) { m.links.push_back(detail::read_link(f, own)); });
    detail::check_machine(m, file);
    return m;
}

/// The same from a file; throws io_error too.
template <class = void> machine read_machine(const std::string& path) {
    return parse_machine(read_text_file(path), path);
}

/// A machine as JSON on one line.
template <class = void> std::string to_json(const machine& m) {
    json_writer out;
    out.begin_object().member("name", m.name).key("memories").begin_array();
    for (const memory_space& memory : m.memories) detail::write_memory(out, memory);
    out.end_array().key("processors").begin_array();
    for (const processor& p : m.processors) detail::write_processor(out, p);
    out.end_array().key("links").begin_array();
    for (const link& l : m.links) detail::write_link(out, l);
    out.end_array().end_object();
    return out.take();
}

} // namespace tern
