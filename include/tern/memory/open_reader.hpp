// open_reader: the best reader of files that this build and this kernel have.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/memory/disk_reader.hpp>
#include <tern/memory/disk_system.hpp>
#include <tern/memory/pread_reader.hpp>
#if defined(TERN_LIBURING) && TERN_LIBURING
#include <tern/memory/uring_reader.hpp>
#endif

namespace tern {

struct reader_options {
    bool strict = false;           ///< what is missing for the best way is an error instead of a lesser way
    std::size_t depth = 32;        ///< with io_uring: how many reads are under way at once
    std::size_t threads = 4;       ///< with pread: likewise
    bool direct = true;            ///< past the page cache, where the system can
    std::string kind{};            ///< "io_uring", "pread" or "blocking"; empty: the best there is
    disk_system* system = nullptr; ///< null: the real one
};

namespace detail {

template <bool HasRing> std::unique_ptr<disk_reader> open_ring([[maybe_unused]] const reader_options& options) {
    if constexpr (HasRing) {
#if defined(TERN_LIBURING) && TERN_LIBURING
        return std::make_unique<uring_reader>(uring_options{
            .depth = options.depth, .direct = options.direct, .strict = options.strict, .system = options.system});
#endif
    }
    throw unsupported_error("no io_uring here: built without liburing; link tern::direct where it is installed");
}

} // namespace detail

/// Opens the reader that `kind` names, which must work here; or else io_uring where this build has it (TERN_LIBURING,
/// which the target tern::direct defines) and the kernel allows it, and pread on threads where not. status() says which
/// it is and why. Throws unsupported_error, with what is missing, for a kind that does not work here, and with `strict`
/// instead of falling back; config_error for senseless options.
///
///     auto reader = tern::open_reader({.depth = 16});
///     std::cout << reader->status() << '\n';
#if defined(TERN_LIBURING) && TERN_LIBURING
template <bool HasRing = true> // an argument, so that files compiled with and without liburing may be linked
#else
template <bool HasRing = false>
#endif
std::unique_ptr<disk_reader> open_reader(const reader_options& options = {}) {
    const std::string& kind = options.kind;
    if (kind == "blocking") return std::make_unique<blocking_reader>();
    if (!kind.empty() && kind != "io_uring" && kind != "pread")
        throw config_error("\"" + kind + "\" is no reader: write io_uring, pread or blocking");
    pread_options lesser{.threads = options.threads,
                         .direct = options.direct,
                         .strict = options.strict,
                         .why = "pread was asked for",
                         .system = options.system};
    if (kind != "pread") {
        try {
            return detail::open_ring<HasRing>(options);
        } catch (const unsupported_error& e) {
            if (!kind.empty() || options.strict) throw;
            lesser.why = e.what();
        }
    }
    return std::make_unique<pread_reader>(std::move(lesser));
}

} // namespace tern
