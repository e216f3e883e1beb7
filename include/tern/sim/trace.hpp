// What happened in a run as a timeline, in the trace format of Chrome's viewer (the "Trace Event Format").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tern/base/json_writer.hpp>
#include <tern/sim/world.hpp>

namespace tern {

/// JSON text: one row for each device and link, times in microseconds from the first event.
///
///     tern::write_text_file("run.json", tern::chrome_trace(events));
template <class = void> std::string chrome_trace(std::span<const sim_event> events) {
    std::vector<std::string_view> rows;
    const auto row_of = [&](std::string_view track) {
        for (std::size_t i = 0; i < rows.size(); ++i)
            if (rows[i] == track) return i;
        rows.push_back(track);
        return rows.size() - 1;
    };
    const double start = events.empty() ? 0 : events.front().begin.count;
    json_writer w;
    w.begin_object().key("traceEvents").begin_array();
    for (const sim_event& e : events) {
        w.begin_object().key("name").value(e.what).key("ph").value("X").key("pid").value(1);
        w.key("tid").value(static_cast<std::uint64_t>(row_of(e.track)));
        w.key("ts").value((e.begin.count - start) * 1e6).key("dur").value(e.length.count * 1e6);
        w.key("args").begin_object().key("bytes").value(e.amount).end_object().end_object();
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
        w.begin_object().key("name").value("thread_name").key("ph").value("M").key("pid").value(1);
        w.key("tid").value(static_cast<std::uint64_t>(i));
        w.key("args").begin_object().key("name").value(rows[i]).end_object().end_object();
    }
    w.end_array().end_object();
    return w.take();
}

} // namespace tern
