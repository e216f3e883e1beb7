// Where test data lies: files committed below tests and examples, and a larger shared folder that may be absent.
// absent.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tern::test {

/// A file of the source tree, e.g. source_file("tests/data/tiny.json").
inline std::string source_file(const std::string& name) { return std::string(TERN_SOURCE_DIR) + "/" + name; }

inline bool exists(const std::string& path) { return std::ifstream(path).good(); }

/// A file of the shared data folder, or nothing (and a line that says so) where the folder is absent. With the variable
/// TERN_TEST_DATA set the file must be there: a missing one throws, so that a skip is never taken for a pass.
inline std::optional<std::string> shared_file(const std::string& name) {
    const char* folder = std::getenv("TERN_TEST_DATA");
    const std::string path = (folder ? std::string(folder) : source_file("../shared/data")) + "/" + name;
    if (exists(path)) return path;
    if (folder) throw std::runtime_error("TERN_TEST_DATA is set and has no " + name);
    std::printf("skipped: no data (%s)\n", name.c_str());
    return std::nullopt;
}

inline std::vector<char> read_all(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw std::runtime_error("cannot open " + path);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// A file of raw values (floats, integers) as a vector.
template <class T> std::vector<T> read_values(const std::string& path) {
    const std::vector<char> raw = read_all(path);
    std::vector<T> values(raw.size() / sizeof(T));
    std::copy(raw.begin(), raw.begin() + static_cast<std::ptrdiff_t>(values.size() * sizeof(T)),
              reinterpret_cast<char*>(values.data()));
    return values;
}

} // namespace tern::test
