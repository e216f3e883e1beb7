// Bringing a stretch of a backing into host memory: the first half of every transfer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include <tern/base/error.hpp>
#include <tern/transfer/request.hpp>

namespace tern::detail {

/// Reads bytes [begin, begin + size) of what a request moves into host memory. Throws stopped_error when the request
/// was stopped, and what the file throws.
inline void read_backing(const transfer_request& request, std::uint64_t begin, std::byte* into, std::size_t size) {
    if (request.stop.stop_requested())
        throw stopped_error("stopped while moving \"" + std::string(request.what) + "\"");
    if (size == 0) return;
    if (request.from.file != nullptr)
        read_exact(*request.from.file, request.from.offset + begin, {into, size});
    else if (request.from.memory != nullptr)
        std::memcpy(into, request.from.memory + begin, size);
    else
        throw config_error("has no bytes behind it to move", {.tensor = std::string(request.what)});
}

inline void arrived(const transfer_request& request, std::size_t size) {
    if (request.listener != nullptr) request.listener->arrived({size});
}

} // namespace tern::detail
