// Bringing a stretch of a backing into host memory: the first half of every transfer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <tern/base/error.hpp>
#include <tern/transfer/request.hpp>

namespace tern {

/// Awaitable: reads bytes [begin, begin + size) of what a request moves into host memory; suspends only where the
/// request's disk reads beside this thread. `slack` as in read_call. Throws stopped_error when the request was stopped,
/// and what the file throws. The request must live until it completes.
///
///     co_await tern::read_backing(request, at, window.data(), n);
inline auto read_backing(const transfer_request& request, std::uint64_t begin, std::byte* into, std::size_t size,
                         bool slack = false) {
    struct disk_start {
        const transfer_request* request;
        bool operator()(read_call& call) const {
            if (request->stop.stop_requested())
                throw stopped_error("stopped while moving \"" + std::string(request->what) + "\"");
            if (call.size == 0) return true;
            const backing& from = request->from;
            if (from.file != nullptr && request->disk != nullptr) return request->disk->start(call);
            if (from.file != nullptr)
                read_exact(*from.file, call.offset, {call.into, call.size});
            else if (from.memory != nullptr)
                std::memcpy(call.into, from.memory + (call.offset - from.offset), call.size);
            else
                throw config_error("has no bytes behind it to move", {.tensor = std::string(request->what)});
            return true;
        }
    };
    read_call call{};
    call.from = request.from.file;
    call.offset = request.from.offset + begin;
    call.into = into;
    call.size = size;
    call.slack = slack;
    call.home = request.home;
    return detail::device_awaiter<read_call, disk_start>(call, disk_start{&request});
}

/// Tells a request's listener, where it has one.
inline void arrived(const transfer_request& request, std::size_t size) {
    if (request.listener != nullptr) request.listener->arrived({size});
}

namespace detail {

/// How a stretch of a file is cut into chunks: at multiples of a chunk in the file, so that chunks of direct reads do
/// not share a page of the disk. Without direct reads the stretch itself is cut.
class chunk_grid {
public:
    chunk_grid(std::uint64_t offset, std::uint64_t size, std::uint64_t chunk, std::uint64_t alignment)
        : alignment_(alignment != 0 && chunk % alignment == 0 ? alignment : 1), head_(offset % alignment_), size_(size),
          chunk_(chunk) {}

    /// Of the file's pages; 1 where chunks are not cut at pages.
    std::uint64_t alignment() const noexcept { return alignment_; }
    /// Bytes of the first chunk's page that lie before the stretch.
    std::uint64_t head() const noexcept { return head_; }
    std::uint64_t count() const noexcept {
        return size_ == 0 ? 0 : (size_ - 1) / chunk_ + 1 + ((size_ - 1) % chunk_ + head_ >= chunk_ ? 1 : 0);
    }
    std::uint64_t begin(std::uint64_t i) const noexcept { return i == 0 ? 0 : i * chunk_ - head_; }
    std::uint64_t end(std::uint64_t i) const noexcept {
        return size_ - begin(i) < chunk_ - (i == 0 ? head_ : 0) ? size_ : begin(i) + chunk_ - (i == 0 ? head_ : 0);
    }
    /// Bytes of room for one chunk with the pages around it.
    std::uint64_t room() const noexcept {
        const std::uint64_t left = chunk_ - size_ % chunk_;
        if (size_ >= chunk_ || left <= head_ + alignment_) return chunk_;
        return (head_ + size_ + alignment_ - 1) / alignment_ * alignment_;
    }

private:
    std::uint64_t alignment_;
    std::uint64_t head_;
    std::uint64_t size_;
    std::uint64_t chunk_;
};

} // namespace detail
} // namespace tern
