// A machine by its name on the command line: a preset, or a file in JSON.
#pragma once

#include <optional>
#include <string>

#include <tern/cost/machine_json.hpp>
#include <tern/cost/presets.hpp>
#include <tern/memory/text_file.hpp>

inline tern::machine machine_of(const std::string& name) {
    if (const std::optional<tern::machine> preset = tern::machines::named(name)) return *preset;
    if (name.find(".json") == name.npos)
        throw tern::config_error("there is no machine \"" + name + "\": see --help, or name a file in JSON");
    return tern::parse_machine(tern::read_text_file(name), name);
}
