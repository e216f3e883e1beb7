// The error types. Each derives from tern::error and says what failed, where, and what to do next.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <tern/base/config.hpp>

namespace tern {

/// What an error knows about its place: the file, the tensor, and bytes needed and available where that is the matter.
/// Every field may be empty.
struct error_context {
    std::string path{};
    std::string tensor{};
    std::optional<std::uint64_t> needed{};
    std::optional<std::uint64_t> available{};
};

namespace detail {

/// Fit for one line of a terminal: messages quote names and values from files, which may hold anything.
inline std::string legible(std::string_view text) {
    constexpr std::size_t most = 1000;
    std::string line(text.size() <= most ? text : text.substr(0, most));
    for (char& c : line)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    return text.size() <= most ? line : line + "...";
}

inline std::string describe(std::string_view what, const error_context& where) {
    std::string text;
    if (!where.path.empty()) text += legible(where.path) + ": ";
    if (!where.tensor.empty()) text += "tensor \"" + legible(where.tensor) + "\": ";
    text += legible(what);
    if (where.needed) text += " (needed " + std::to_string(*where.needed) + " bytes";
    if (where.needed && where.available) text += ", available " + std::to_string(*where.available) + " bytes";
    if (where.needed) text += ")";
    return text;
}

} // namespace detail

/// Base of all errors that tern throws. `what()` is one sentence that names path, tensor, needed and available bytes;
/// control characters in it are shown as '?', and what is very long is cut.
///
///     try { ... } catch (const tern::error& e) { std::cerr << e.what() << '\n'; }
class error : public std::runtime_error {
public:
    explicit error(std::string_view what, error_context where = {})
        : std::runtime_error(detail::describe(what, where)), reason_(what), where_(std::move(where)) {}

    /// The sentence without its place.
    const std::string& reason() const noexcept { return reason_; }

    const std::string& path() const noexcept { return where_.path; }
    const std::string& tensor() const noexcept { return where_.tensor; }
    std::optional<std::uint64_t> needed() const noexcept { return where_.needed; }
    std::optional<std::uint64_t> available() const noexcept { return where_.available; }

private:
    std::string reason_;
    error_context where_;
};

/// A file could not be opened or read.
struct io_error : error {
    using error::error;
};

/// A file was read and its content is not what its format promises.
struct parse_error : error {
    using error::error;
};

/// A budget, an arena or a capacity is too small.
struct budget_error : error {
    using error::error;
};

/// Shapes, positions or counts that do not fit together.
struct shape_error : error {
    using error::error;
};

/// The input is valid, and this build has no implementation for it.
struct unsupported_error : error {
    using error::error;
};

/// An option, a key or a combination of them makes no sense.
struct config_error : error {
    using error::error;
};

/// Work was stopped through its stop token.
struct stopped_error : error {
    stopped_error() : error("stopped") {}
    using error::error;
};

} // namespace tern
