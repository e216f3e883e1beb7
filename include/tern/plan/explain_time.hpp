// explain with predicted times: as a table that people read, and as JSON for programs.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include <tern/base/json_writer.hpp>
#include <tern/plan/estimate.hpp>
#include <tern/plan/explain.hpp>

namespace tern {

namespace detail {

/// Three digits with a unit: "12.3 us".
inline std::string short_time(seconds t) {
    char text[32];
    const double n = t.count;
    if (n >= 1)
        std::snprintf(text, sizeof text, "%.3g s", n);
    else if (n >= 1e-3)
        std::snprintf(text, sizeof text, "%.3g ms", n * 1e3);
    else
        std::snprintf(text, sizeof text, "%.3g us", n * 1e6);
    return text;
}

inline std::string speed_line(const char* what, double rate, const prediction& p) {
    char text[64];
    std::snprintf(text, sizeof text, "predicted %s: %.4g tokens/s", what, rate);
    std::string line = text;
    line += ", bound by " + (p.bound.empty() ? std::string("nothing") : p.bound);
    line += "; of " + short_time(p.total) + " a pass " + short_time(p.waited) + " waiting for weights, " +
            short_time(p.switching) + " switching devices " + std::to_string(p.switches) + " times\n";
    return line;
}

inline void write_prediction(json_writer& out, const prediction& p) {
    out.begin_object().member("seconds", p.total.count).member("waiting", p.waited.count);
    out.member("switching", p.switching.count).member("switches", p.switches).member("bound", p.bound);
    out.key("resources").begin_array();
    for (const resource_use& r : p.resources)
        out.begin_object()
            .member("name", r.name)
            .member("busy", r.busy.count)
            .member("moved", r.moved.count)
            .end_object();
    out.end_array().end_object();
}

} // namespace detail

/// The table of `explain` with each tensor's share of the time of the prompt's last pass and of a decoded token, and
/// two lines more: predicted tokens a second, what bounds them, and what is spent on waiting and switching.
///
///     std::cout << tern::explain(plan, graph, machine, tern::speed_of(graph, plan, machine, cost, how, work));
template <class = void>
std::string explain(const placement& p, const graph& g, const machine& m, const speed& predicted) {
    std::vector<std::string> times;
    for (std::size_t t = 0; t < predicted.token.tensors.size() && t < predicted.chunk.tensors.size(); ++t)
        times.push_back(detail::short_time(predicted.chunk.tensors[t]) + ", " +
                        detail::short_time(predicted.token.tensors[t]));
    return explain(p, g, m, times) + detail::speed_line("prefill", predicted.prefill, predicted.chunk) +
           detail::speed_line("decode", predicted.decode, predicted.token);
}

/// The same as JSON on one line: `policy`, `tensors` (name, format, bytes, where, reason; `computes` where it is
/// brought elsewhere; prefill_seconds and decode_seconds), `memories` (where, weights, pool, reserved, taken, budget; a
/// limit that is none is left out), and `predicted`. Without a prediction its parts are left out.
template <class = void>
std::string explain_json(const placement& p, const graph& g, const machine& m, const speed* predicted = nullptr) {
    json_writer out;
    out.begin_object().member("policy", std::string(p.policy)).key("tensors").begin_array();
    for (std::size_t i = 0; i < p.tensors.size(); ++i) {
        out.begin_object().member("name", g.tensors[i].name).member("format", std::string(g.tensors[i].format));
        out.member("bytes", g.tensors[i].size().count).member("where", to_string(p.tensors[i].where));
        if (p.tensors[i].computes) out.member("computes", to_string(*p.tensors[i].computes));
        out.member("reason", p.tensors[i].reason);
        if (predicted != nullptr && i < predicted->chunk.tensors.size() && i < predicted->token.tensors.size())
            out.member("prefill_seconds", predicted->chunk.tensors[i].count)
                .member("decode_seconds", predicted->token.tensors[i].count);
        out.end_object();
    }
    out.end_array().key("memories").begin_array();
    for (const memory_space& s : m.memories) {
        out.begin_object().member("where", to_string(s.where)).member("weights", p.bytes_at(g, s.where).count);
        if (p.pool_at(s.where) != unlimited) out.member("pool", p.pool_at(s.where).count);
        out.member("reserved", s.reserved.count).member("taken", detail::taken_of(p, g, m, s).count);
        if (s.budget != unlimited) out.member("budget", s.budget.count);
        out.end_object();
    }
    out.end_array().member("activations", g.activation_peak.count);
    if (predicted != nullptr) {
        out.key("predicted").begin_object().member("prefill_tokens_per_second", predicted->prefill);
        out.member("decode_tokens_per_second", predicted->decode).key("prefill");
        detail::write_prediction(out, predicted->chunk);
        out.key("decode");
        detail::write_prediction(out, predicted->token);
        out.end_object();
    }
    out.end_object();
    return out.take();
}

} // namespace tern
