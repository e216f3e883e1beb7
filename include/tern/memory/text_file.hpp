// Small text files, read and written whole: descriptions of machines, profiles.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <sys/stat.h>

#include <tern/base/error.hpp>
#include <tern/memory/file_handle.hpp>

namespace tern {

/// The whole of a file; throws io_error where it cannot be read or has more than `most` bytes.
///
///     auto machine = tern::parse_machine(tern::read_text_file("machine.json"), "machine.json");
template <class = void> std::string read_text_file(const std::string& path, std::uint64_t most = 16 << 20) {
    file_source file(path);
    if (file.size() > most)
        throw io_error("is too large for a file of its kind", {.path = path, .needed = file.size(), .available = most});
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    read_exact(file, 0, std::as_writable_bytes(std::span(text)));
    return text;
}

namespace detail {

/// Where a text goes that is written to `path`: to the file that a link leads to, and never in the place of a device,
/// a pipe or a folder.
template <class = void> std::string place_of_text(const std::string& path) {
    struct ::stat there;
    if (::stat(path.c_str(), &there) != 0) return path;
    if (!S_ISREG(there.st_mode)) throw io_error("is no file that a text could replace", {.path = path});
    const std::unique_ptr<char, void (*)(void*)> whole(::realpath(path.c_str(), nullptr), &std::free);
    return whole ? whole.get() : path;
}

} // namespace detail

/// Writes a file beside `path` and puts it in its place: a reader sees the old text or the new one. Only a file is
/// replaced, also through a link; not a device, a pipe or a folder. Throws io_error.
template <class = void> void write_text_file(const std::string& path, std::string_view text) {
    const std::string place = detail::place_of_text(path);
    const std::string beside = place + ".new";
    const auto fail = [&](const char* what) {
        const int code = errno;
        std::remove(beside.c_str());
        throw io_error(std::string(what) + ": " + std::strerror(code), {.path = path});
    };
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(beside.c_str(), "we"), &std::fclose);
    if (!file) fail("cannot be written");
    if (std::fwrite(text.data(), 1, text.size(), file.get()) != text.size()) fail("cannot be written whole");
    if (std::fclose(file.release()) != 0) fail("cannot be written whole");
    if (std::rename(beside.c_str(), place.c_str()) != 0) fail("cannot be put in its place");
}

} // namespace tern
