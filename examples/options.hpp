// Command-line options for the programs in this folder: "--name value" and plain arguments, with errors that say what
// is known.
#pragma once

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/base/units.hpp>
#include <tern/memory/pinned_arena.hpp>

/// Thrown with a program's help where it is called in a way that makes no sense: `main` prints it as it is.
struct usage_error {
    const char* help;
};

/// Parsed arguments. An option is given as "--name value" or "--name=value", a switch as "--name" alone.
class options {
public:
    options(int argc, char** argv, std::vector<std::string> known, std::vector<std::string> switches) {
        for (int i = 1; i < argc; ++i) {
            const std::string_view word = std::string_view(argv[i]) == "-h" ? "--help" : argv[i];
            if (word.size() < 3 || word.substr(0, 2) != "--") {
                plain_.emplace_back(word);
                continue;
            }
            const auto equals = word.find('=');
            const std::string name(word.substr(2, equals == word.npos ? word.npos : equals - 2));
            const auto listed = [&](const std::vector<std::string>& names) {
                for (const std::string& n : names)
                    if (n == name) return true;
                return false;
            };
            if (listed(switches)) {
                values_[name] = equals == word.npos ? "1" : std::string(word.substr(equals + 1));
            } else if (!listed(known)) {
                throw tern::config_error("there is no option --" + name + ": see --help");
            } else if (equals != word.npos) {
                values_[name] = std::string(word.substr(equals + 1));
            } else if (i + 1 < argc && std::string_view(argv[i + 1]).substr(0, 2) != "--") {
                values_[name] = argv[++i];
            } else {
                throw tern::config_error("--" + name + " needs a value: see --help");
            }
        }
    }

    const std::vector<std::string>& plain() const { return plain_; }
    bool has(const std::string& name) const { return values_.contains(name); }
    /// A switch is off when it is absent, or given as "0", "off", "no" or "false".
    bool on(const std::string& name) const { return has(name) && tern::parse_switch(values_.at(name)); }

    std::string text(const std::string& name, const std::string& otherwise) const {
        return has(name) ? values_.at(name) : otherwise;
    }
    tern::bytes size(const std::string& name, tern::bytes otherwise) const {
        if (!has(name)) return otherwise;
        try {
            return tern::parse_bytes(values_.at(name));
        } catch (const tern::config_error& e) { throw tern::config_error("--" + name + ": " + e.what()); }
    }
    std::uint64_t whole(const std::string& name, std::uint64_t otherwise) const {
        return has(name) ? whole_number("--" + name, values_.at(name)) : otherwise;
    }
    static std::uint64_t whole_number(const std::string& name, const std::string& value) {
        char* end = nullptr;
        errno = 0;
        const std::uint64_t number = std::strtoull(value.c_str(), &end, 10);
        if (value.empty() || value[0] < '0' || value[0] > '9' || *end != 0 || errno != 0)
            throw tern::config_error(name + " takes a whole number, not \"" + value + "\"");
        return number;
    }
    float real(const std::string& name, float otherwise) const {
        if (!has(name)) return otherwise;
        const std::string& value = values_.at(name);
        char* end = nullptr;
        const float number = std::strtof(value.c_str(), &end);
        if (value.empty() || *end != 0 || !std::isfinite(number))
            throw tern::config_error("--" + name + " takes a number, not \"" + value + "\"");
        return number;
    }

private:
    std::map<std::string, std::string> values_;
    std::vector<std::string> plain_;
};
