// A profile as JSON, with the fingerprint of the machine that it was measured on.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <tern/base/json.hpp>
#include <tern/base/json_fields.hpp>
#include <tern/base/json_writer.hpp>
#include <tern/cost/machine_json.hpp>
#include <tern/cost/profiled.hpp>
#include <tern/memory/text_file.hpp>

namespace tern {

namespace detail {

inline constexpr std::size_t most_samples = 10'000;

inline cargo read_cargo(const json_fields& in) {
    const std::string& what = in.string("what");
    if (what == "weights") return cargo::weights;
    if (what == "activations") return cargo::activations;
    in.fail("what", "expected \"weights\" or \"activations\"");
}

} // namespace detail

/// A profile from JSON. Throws parse_error that names `file` and the key, as parse_machine does. Whether it belongs to
/// a machine is for `profiled` to say.
template <class = void>
profile parse_profile(std::string_view text, const std::string& file = {}, std::span<const tier_info> own = {}) {
    const json_value root = parse_json(text, file, 8);
    const json_fields in(root, file, "", {"machine", "launches", "runs", "moves"});
    profile p;
    p.machine = in.string("machine");
    using detail::most_samples;
    detail::read_records(
        in, "launches", {"processor", "seconds"},
        [&](const json_fields& f) {
            p.launches.push_back({f.string("processor"), {f.not_negative("seconds")}});
        },
        most_samples);
    detail::read_records(
        in, "runs", {"op", "format", "processor", "tokens", "size", "seconds"},
        [&](const json_fields& f) {
            p.runs.push_back({f.string("op"),
                              f.has("format") ? f.string("format") : "",
                              f.string("processor"),
                              f.positive("tokens"),
                              f.uint64("size"),
                              {f.positive("seconds")}});
        },
        most_samples);
    detail::read_records(
        in, "moves", {"from", "to", "what", "size", "others", "seconds"},
        [&](const json_fields& f) {
            p.moves.push_back({detail::read_location(f, "from", own),
                               detail::read_location(f, "to", own),
                               detail::read_cargo(f),
                               {f.uint64("size")},
                               f.has("others") ? static_cast<std::size_t>(f.uint64("others")) : 0,
                               {f.positive("seconds")}});
            if (p.moves.back().others > 1000) f.fail("others", "is out of range");
        },
        most_samples);
    return p;
}

/// The same from a file; throws io_error too.
template <class = void> profile read_profile(const std::string& path) {
    return parse_profile(read_text_file(path), path);
}

/// A profile as JSON on one line; what is read back is equal.
template <class = void> std::string to_json(const profile& p) {
    json_writer out;
    out.begin_object().member("machine", p.machine).key("launches").begin_array();
    for (const launch_sample& l : p.launches)
        out.begin_object().member("processor", l.processor).member("seconds", l.time.count).end_object();
    out.end_array().key("runs").begin_array();
    for (const run_sample& r : p.runs) {
        out.begin_object().member("op", r.op);
        if (!r.format.empty()) out.member("format", r.format);
        out.member("processor", r.processor).member("tokens", r.tokens).member("size", r.size);
        out.member("seconds", r.time.count).end_object();
    }
    out.end_array().key("moves").begin_array();
    for (const move_sample& m : p.moves) {
        out.begin_object().member("from", detail::location_text(m.from)).member("to", detail::location_text(m.to));
        out.member("what", m.what == cargo::weights ? "weights" : "activations").member("size", m.size.count);
        if (m.others != 0) out.member("others", m.others);
        out.member("seconds", m.time.count).end_object();
    }
    out.end_array().end_object();
    return out.take();
}

} // namespace tern
