// staged<chunk, depth>: a ring of chunks, so that reading some and copying others overlap.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>
#include <utility>

#include <tern/async/event.hpp>
#include <tern/async/scope.hpp>
#include <tern/transfer/read.hpp>

namespace tern {

namespace detail {

/// Of the chunks of one transfer. Their scope would keep it too, and allocate to ask its tasks to stop.
class first_error {
public:
    bool is_set() const noexcept { return set_.load(std::memory_order_relaxed); }
    void set(std::exception_ptr error) noexcept {
        if (!set_.exchange(true, std::memory_order_relaxed)) error_ = std::move(error);
    }
    /// Once all have ended.
    void rethrow() const {
        if (error_) std::rethrow_exception(error_);
    }

private:
    std::atomic<bool> set_{false};
    std::exception_ptr error_{};
};

/// One chunk on its way, and what it shares with the others.
struct chunk_step {
    const transfer_request* request;
    std::uint64_t begin;
    std::size_t size;
    std::byte* stage; ///< where it is read to: its place where that is host memory
    bool slack;
    async_event* done;
    first_error* failure;
};

/// Reads a chunk and, where its stage is not its place, copies it over the link.
template <class Void = void> task<Void> move_chunk(chunk_step c) {
    const transfer_request& r = *c.request;
    try {
        co_await read_backing(r, c.begin, c.stage, c.size, c.slack);
        std::byte* const to = r.to + c.begin;
        if (to != c.stage) co_await copy(*r.on, *r.home, direction::to_device, to, c.stage, {c.size});
        tern::arrived(r, c.size);
    } catch (...) { c.failure->set(std::current_exception()); }
    c.done->set();
}

} // namespace detail

/// Cuts a slice into chunks, of which `Depth` are under way at once. To host memory they are read in place; to a device
/// each is read into a stage of a ring and copied over the link from there, so that disk, staging and link overlap.
/// Needs Depth * Chunk of staging at most. A stop takes effect within one chunk.
///
///     using weight = tern::tensor<tern::all_formats, tern::tiers<tern::vram, tern::pageable>, tern::staged<4_MiB, 2>>;
template <bytes Chunk, std::size_t Depth> struct staged {
    static_assert(Chunk.count > 0, "tern: staged<chunk, depth> needs a chunk of at least one byte");
    static_assert(Depth > 0, "tern: staged<chunk, depth> needs a depth of at least 1");

    static constexpr std::string_view name = "staged";

    template <class Void = void> static task<Void> move(transfer_request request) {
        const detail::chunk_grid grid = cut(request);
        const ring stages(request, grid);
        std::array<async_event, Depth> free;
        for (async_event& f : free) f.set();
        detail::first_error failure;
        scope chunks;
        task<void> all_ended = chunks.join(); // made here: nothing may fail while chunks are under way
        try {
            for (std::uint64_t i = 0; i < grid.count(); ++i) {
                async_event& mine = free[i % Depth];
                co_await mine;
                if (failure.is_set()) break;
                mine.reset();
                chunks.spawn(detail::move_chunk({&request, grid.begin(i), grid.end(i) - grid.begin(i),
                                                 stages.of(request, grid, i), stages.slack, &mine, &failure}));
            }
        } catch (...) { failure.set(std::current_exception()); }
        // Stages and request are in use until every chunk has ended.
        co_await std::move(all_ended);
        failure.rethrow();
    }

private:
    static detail::chunk_grid cut(const transfer_request& r) {
        const bool direct = r.from.file != nullptr && r.disk != nullptr && (!r.to_host() || r.slack);
        return {r.from.offset, r.size.count, Chunk.count, direct ? r.disk->alignment() : 1};
    }

    /// Room for the chunks that are under way; none where they are read in place.
    struct ring {
        allocation room{};
        std::uint64_t stage_size = 0;
        bool slack = false;

        ring(const transfer_request& r, const detail::chunk_grid& grid)
            : stage_size(grid.room()), slack(r.to_host() && r.slack && grid.alignment() > 1) {
            if (r.to_host()) return;
            room = r.staging->allocate(bytes{stage_size} * (grid.count() < Depth ? grid.count() : Depth), r.what);
            slack = grid.alignment() > 1 && reinterpret_cast<std::uintptr_t>(room.data()) % grid.alignment() == 0;
        }
        std::byte* of(const transfer_request& r, const detail::chunk_grid& grid, std::uint64_t i) const noexcept {
            if (!room) return r.to + grid.begin(i);
            return room.data() + (i % Depth) * stage_size + (i == 0 ? grid.head() : 0);
        }
    };
};

} // namespace tern
