// Readers of files: a read is awaited, and completes while other work goes on. The base class, and the plainest one.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include <tern/async/run_loop.hpp>
#include <tern/base/units.hpp>
#include <tern/memory/file_handle.hpp>

namespace tern {

namespace detail {
struct direct_file;
}

/// One read: `size` bytes at `offset` of `from`, to `into`. It lives in the frame of the coroutine that awaits it;
/// nothing is allocated.
///
/// With `slack` the caller allows the bytes around [into, into + size), up to the next multiples of the reader's
/// alignment() on both sides, to be overwritten, and promises that `into` and `offset` are equal modulo alignment(). A
/// direct read then goes straight to its place. Without it, unaligned ends go through a buffer of the reader's.
struct read_call {
    byte_source* from = nullptr;
    std::uint64_t offset = 0; ///< in the source
    std::byte* into = nullptr;
    std::size_t size = 0;
    bool slack = false;
    run_loop* home = nullptr;
    run_loop::node done{};
    std::exception_ptr error{};

    // The reader's own, while the call is with it.
    read_call* next = nullptr;
    detail::direct_file* file = nullptr;
    std::size_t moved = 0;    // bytes that are in place already
    std::uint32_t stalls = 0; // requests in a row that brought nothing
};

/// What a reader has done so far.
struct read_counters {
    bytes asked{};               ///< what calls asked for
    bytes read{};                ///< what came from the system for it, over-read at unaligned ends included
    std::uint64_t requests = 0;  ///< requests to the system
    std::uint64_t fallbacks = 0; ///< files that are read in a lesser way than was wanted
};

/// Reads stretches of files. A user's own derives from this; reads may finish at once (`start` returns true) or later
/// on another thread, which then posts `done` to the call's home loop. Safe to use from several threads and loops. The
/// destructor finishes what was begun. It moves nothing by itself.
///
/// Errors are kept in the call and thrown by the await: io_error (path, needed, available) where the system cannot
/// read, where the stretch goes past the end, and where the file was shortened while it was read.
class disk_reader {
public:
    disk_reader(const disk_reader&) = delete;
    disk_reader& operator=(const disk_reader&) = delete;
    virtual ~disk_reader() = default;

    /// "io_uring", "pread", "blocking"; a constant.
    virtual std::string_view name() const noexcept = 0;
    /// Begins a read; true when it is complete already, and `done` is not posted then. `call.home` must be set.
    virtual bool start(read_call& call) = 0;
    /// What offsets and addresses are best a multiple of, in bytes: 4096 with direct I/O, 1 without.
    virtual std::size_t alignment() const noexcept = 0;
    virtual read_counters counters() const = 0;
    /// One sentence: how files are read, and why not better.
    virtual std::string status() const = 0;
    /// Closes what the reader keeps for a source. Call it before the source goes away, when no read of it is under way.
    virtual void forget(byte_source& source) noexcept = 0;

protected:
    disk_reader() = default;
};

namespace detail {

class [[nodiscard]] read_awaiter {
public:
    read_awaiter(disk_reader& reader, const read_call& call) : reader_(&reader), call_(call) {}

    bool await_ready() const noexcept { return false; }
    // Not inlined: compilers may otherwise keep parts of the awaiter in a frame that runs on elsewhere by then.
    [[gnu::noinline]] bool await_suspend(std::coroutine_handle<> waiter) {
        call_.done.handle = waiter;
        return !reader_->start(call_);
    }
    void await_resume() const {
        if (call_.error) std::rethrow_exception(call_.error);
    }

private:
    disk_reader* reader_;
    read_call call_;
};

} // namespace detail

/// Awaitable: reads, and goes on in `home`. The call is copied into the awaiting frame; the source, the memory and the
/// reader must live until the await returns.
///
///     tern::read_call call{.from = &file, .offset = 4096, .into = buffer, .size = 1 << 20};
///     co_await tern::read(reader, ctx.loop(), call);
inline auto read(disk_reader& reader, run_loop& home, read_call call) {
    call.home = &home;
    return detail::read_awaiter(reader, call);
}

/// Reads on the calling thread, with the source's own `read_some`. For sources in memory and for tests.
class blocking_reader final : public disk_reader {
public:
    std::string_view name() const noexcept override { return "blocking"; }
    bool start(read_call& call) override {
        asked_.fetch_add(call.size, std::memory_order_relaxed);
        try {
            read_exact(*call.from, call.offset, {call.into, call.size});
            read_.fetch_add(call.size, std::memory_order_relaxed);
            requests_.fetch_add(1, std::memory_order_relaxed);
        } catch (...) { call.error = std::current_exception(); }
        return true;
    }
    std::size_t alignment() const noexcept override { return 1; }
    read_counters counters() const override { return {{asked_.load()}, {read_.load()}, requests_.load(), 0}; }
    std::string status() const override { return "files are read buffered, on the thread that asks"; }
    void forget(byte_source&) noexcept override {}

private:
    std::atomic<std::uint64_t> asked_{0};
    std::atomic<std::uint64_t> read_{0};
    std::atomic<std::uint64_t> requests_{0};
};

} // namespace tern
