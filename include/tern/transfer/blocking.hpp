// blocking: all bytes at once, one step after the other.
#pragma once

#include <cstddef>
#include <string_view>

#include <tern/transfer/read.hpp>

namespace tern {

/// Reads the whole slice, then copies it over the link. The plainest way, and what the others are measured against; it
/// needs as much staging as the slice is large.
struct blocking {
    static constexpr std::string_view name = "blocking";

    static task<void> move(transfer_request request) {
        const std::size_t size = request.size.count;
        if (request.to_host()) {
            detail::read_backing(request, 0, request.to, size);
        } else {
            const allocation stage = request.staging->allocate(request.size, request.what);
            detail::read_backing(request, 0, stage.data(), size);
            co_await copy(*request.on, *request.home, direction::to_device, request.to, stage.data(), request.size);
        }
        detail::arrived(request, size);
    }
};

} // namespace tern
