// staged<chunk, depth>: a ring of chunks, so that reading one and copying another overlap.
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

/// Cuts a slice into chunks. To host memory they are read in place; to a device each is read into one of `Depth` stages
/// and copied over the link from there, while the next is read. Needs Depth * Chunk of staging at most. A stop takes
/// effect within one chunk.
///
///     using weight = tern::tensor<tern::all_formats, tern::tiers<tern::vram, tern::pageable>, tern::staged<4_MiB, 2>>;
template <bytes Chunk, std::size_t Depth> struct staged {
    static_assert(Chunk.count > 0, "tern: staged<chunk, depth> needs a chunk of at least one byte");
    static_assert(Depth > 0, "tern: staged<chunk, depth> needs a depth of at least 1");

    static constexpr std::string_view name = "staged";

    template <class Void = void> static task<Void> move(transfer_request request) {
        if (request.to_host()) {
            read_in_chunks(request);
            co_return;
        }
        const std::uint64_t chunks = (request.size.count + Chunk.count - 1) / Chunk.count;
        const std::uint64_t stages = chunks < Depth ? chunks : Depth;
        const std::uint64_t stage_size = request.size.count < Chunk.count ? request.size.count : Chunk.count;
        const allocation ring = request.staging->allocate(bytes{stage_size} * stages, request.what);
        std::array<async_event, Depth> free;
        for (async_event& f : free) f.set();
        first_error failure;
        scope copies;
        task<void> all_ended = copies.join(); // made here: nothing may fail while copies are under way
        try {
            for (std::uint64_t i = 0; i < chunks; ++i) {
                async_event& mine = free[i % Depth];
                co_await mine;
                if (failure.is_set()) break;
                mine.reset();
                std::byte* const stage = ring.data() + (i % Depth) * stage_size;
                const std::size_t size = size_of(request, i);
                detail::read_backing(request, i * Chunk.count, stage, size);
                copies.spawn(copy_chunk(request, i, stage, size, mine, failure));
            }
        } catch (...) { failure.set(std::current_exception()); }
        // The ring is in use until every copy has ended.
        co_await std::move(all_ended);
        failure.rethrow();
    }

private:
    /// Of the reads and the copies. The scope would keep it too, and allocate to ask its tasks to stop.
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

    static std::size_t size_of(const transfer_request& request, std::uint64_t chunk) {
        const std::uint64_t left = request.size.count - chunk * Chunk.count;
        return left < Chunk.count ? left : Chunk.count;
    }

    static void read_in_chunks(const transfer_request& request) {
        for (std::uint64_t begin = 0; begin < request.size.count; begin += Chunk.count) {
            const std::size_t size = size_of(request, begin / Chunk.count);
            detail::read_backing(request, begin, request.to + begin, size);
            detail::arrived(request, size);
        }
    }

    template <class Void = void>
    static task<Void> copy_chunk(transfer_request request, std::uint64_t chunk, const std::byte* stage,
                                 std::size_t size, async_event& done, first_error& failure) {
        try {
            co_await copy(*request.on, *request.home, direction::to_device, request.to + chunk * Chunk.count, stage,
                          {size});
            detail::arrived(request, size);
        } catch (...) { failure.set(std::current_exception()); }
        done.set();
    }
};

} // namespace tern
