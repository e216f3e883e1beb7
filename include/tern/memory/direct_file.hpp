// Direct I/O on files: how one read becomes requests that the system accepts, and what becomes of their results.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/memory/disk_reader.hpp>
#include <tern/memory/disk_system.hpp>
#include <tern/memory/file_handle.hpp>

namespace tern {

namespace detail {

/// The most that a reader asks its callers to align to. A file that needs more is read buffered.
inline constexpr std::size_t direct_alignment = 4096;
/// Linux reads at most about 2 GiB a request.
inline constexpr std::size_t longest_request = std::size_t{1} << 30;

/// What a reader keeps for one source.
struct direct_file {
    byte_source* source = nullptr;
    disk_system::file_state state{};
    std::atomic<bool> direct{false};
    int direct_descriptor = -1;
    int buffered_descriptor = -1; // open where `direct` is false
    std::size_t alignment = 1;
};

/// The next request of a call, of which `moved` bytes are in place. `bounce` is aligned, and at least two alignments.
inline read_request next_request(const read_call& call, std::span<std::byte> bounce) noexcept {
    const direct_file& file = *call.file;
    const std::uint64_t position = call.offset + call.moved;
    const std::size_t left = call.size - call.moved;
    std::byte* const to = call.into + call.moved;
    if (!file.direct.load(std::memory_order_acquire))
        return {file.buffered_descriptor, false, false, to, position, std::min(left, longest_request), 0};

    const std::size_t unit = file.alignment;
    const auto skip = static_cast<std::size_t>(position % unit);
    const std::size_t whole = (skip + left + unit - 1) / unit * unit;
    const bool matches = (reinterpret_cast<std::uintptr_t>(to) - position) % unit == 0;
    const auto direct = [&](bool bounced, std::byte* into, std::size_t size) {
        return read_request{file.direct_descriptor, true, bounced, into, position - skip, size, skip};
    };
    if (call.slack && matches) return direct(false, to - skip, std::min(whole, longest_request));
    const std::size_t inside = left / unit * unit;
    if (matches && skip == 0 && inside > 0 && (inside == left || left > bounce.size()))
        return direct(false, to, std::min(inside, longest_request));
    // A long read whose address matches bounces its ends alone.
    const bool only_the_head = matches && skip != 0 && whole > bounce.size();
    return direct(true, bounce.data(), only_the_head ? unit : std::min(whole, bounce.size()));
}

/// Memory for bouncing, aligned for direct I/O.
class bounce_memory {
public:
    bounce_memory() = default;
    explicit bounce_memory(std::size_t size)
        : data_(static_cast<std::byte*>(::operator new(size, std::align_val_t{direct_alignment}))), size_(size) {}
    bounce_memory(bounce_memory&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    bounce_memory& operator=(bounce_memory&&) = delete;
    ~bounce_memory() { ::operator delete(data_, std::align_val_t{direct_alignment}); }

    std::span<std::byte> span() const noexcept { return {data_, size_}; }

private:
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

/// The files of one reader, and what becomes of its requests. Safe from several threads, for different calls.
class direct_files {
public:
    /// `strict`: a file that cannot be read directly is an error instead of being read buffered.
    direct_files(disk_system& system, bool direct, bool strict) : system_(&system), direct_(direct), strict_(strict) {}
    direct_files(const direct_files&) = delete;
    direct_files& operator=(const direct_files&) = delete;
    ~direct_files() {
        for (const auto& file : files_) close(*file);
    }

    disk_system& system() const noexcept { return *system_; }

    /// Checks a call and finds its file, which is opened when it is met first. True: it is complete already. A source
    /// without a descriptor has no file.
    bool begin(read_call& call) noexcept {
        call.next = nullptr;
        call.file = nullptr;
        call.error = nullptr;
        call.moved = call.stalls = 0;
        asked_.fetch_add(call.size, std::memory_order_relaxed);
        try {
            const std::uint64_t size = call.from->size();
            const std::uint64_t available = call.offset < size ? size - call.offset : 0;
            if (call.size > available)
                throw io_error("a read at byte " + std::to_string(call.offset) + " goes past the end of the file",
                               {call.from->path(), {}, call.size, available});
            if (call.size == 0) return true;
            if (call.from->descriptor() >= 0) call.file = &find(*call.from);
            return false;
        } catch (...) { call.error = std::current_exception(); }
        return true;
    }

    /// The whole of a call whose source has no descriptor, on this thread.
    void read_source(read_call& call) noexcept {
        try {
            read_exact(*call.from, call.offset, {call.into, call.size});
            read_.fetch_add(call.size, std::memory_order_relaxed);
            requests_.fetch_add(1, std::memory_order_relaxed);
        } catch (...) { call.error = std::current_exception(); }
    }

    /// Takes the result of a request, bytes or a negative errno. True: the call is complete. False: it needs another
    /// request.
    bool settle(read_call& call, const read_request& request, std::ptrdiff_t result) noexcept {
        requests_.fetch_add(1, std::memory_order_relaxed);
        try {
            result = system_->completed(request, result);
            if (result < 0) return failed(call, request, static_cast<int>(-result));
            const auto got = static_cast<std::size_t>(result);
            read_.fetch_add(got, std::memory_order_relaxed);
            if (got <= request.skip) return stalled(call, request);
            const std::size_t useful = std::min(got - request.skip, call.size - call.moved);
            if (request.bounced) std::memcpy(call.into + call.moved, request.into + request.skip, useful);
            call.moved += useful;
            call.stalls = 0;
            return call.moved == call.size;
        } catch (...) { call.error = std::current_exception(); }
        return true;
    }

    void forget(byte_source& source) noexcept {
        const std::lock_guard lock(mutex_);
        const auto found = std::find_if(files_.begin(), files_.end(), [&](auto& f) { return f->source == &source; });
        if (found == files_.end()) return;
        close(**found);
        files_.erase(found);
    }

    read_counters counters() const noexcept {
        return {{asked_.load()}, {read_.load()}, requests_.load(), fallbacks_.load()};
    }

    /// The end of a status: "with direct I/O", and which file is read otherwise, and why.
    std::string status() const {
        if (!direct_) return "through the page cache, as asked for";
        const std::lock_guard lock(mutex_);
        if (reason_.empty()) return "with direct I/O";
        const std::uint64_t files = fallbacks_.load();
        return "with direct I/O, but " + std::to_string(files) + (files == 1 ? " file is" : " files are") +
               " read through the page cache, the last " + reason_;
    }

private:
    direct_file& find(byte_source& source) {
        const disk_system::file_state state = system_->state(source.descriptor());
        const std::lock_guard lock(mutex_);
        for (auto file = files_.begin(); file != files_.end(); ++file) {
            if ((*file)->source != &source) continue;
            if ((*file)->state.device == state.device && (*file)->state.number == state.number) return **file;
            // Another source has the address of one that went away.
            close(**file);
            files_.erase(file);
            break;
        }
        auto file = std::make_unique<direct_file>();
        file->source = &source;
        file->state = state;
        open(*file);
        return *files_.emplace_back(std::move(file));
    }

    void open(direct_file& file) {
        if (!direct_) return open_buffered(file);
        const int opened = system_->open(file.source->descriptor(), true);
        if (opened < 0) return fall_back(file, std::string("it cannot be opened for that: ") + std::strerror(-opened));
        file.direct_descriptor = opened;
        file.alignment = system_->alignment(opened);
        file.direct.store(true, std::memory_order_release);
        try {
            if (file.alignment == 0)
                fall_back(file, "its file system has none");
            else if (file.alignment > direct_alignment || (file.alignment & (file.alignment - 1)) != 0)
                fall_back(file, "it would need alignment to " + std::to_string(file.alignment) + " bytes");
        } catch (...) {
            close(file);
            throw;
        }
    }

    // A descriptor of our own: the source's may be of a kind that does not wait.
    void open_buffered(direct_file& file) {
        const int opened = system_->open(file.source->descriptor(), false);
        if (opened < 0)
            throw io_error(std::string("cannot be opened again: ") + std::strerror(-opened),
                           {file.source->path(), {}, {}, {}});
        file.buffered_descriptor = opened;
        file.direct.store(false, std::memory_order_release);
    }

    void close(const direct_file& file) noexcept {
        if (file.direct_descriptor >= 0) system_->close(file.direct_descriptor);
        if (file.buffered_descriptor >= 0) system_->close(file.buffered_descriptor);
    }

    // Called with the lock held. From now on the file is read through the page cache.
    void fall_back(direct_file& file, const std::string& why) {
        if (strict_)
            throw io_error("cannot be read with direct I/O, which is required: " + why,
                           {file.source->path(), {}, {}, {}});
        if (file.buffered_descriptor >= 0) return; // another call has seen it already
        open_buffered(file);
        fallbacks_.fetch_add(1, std::memory_order_relaxed);
        reason_ = detail::legible(file.source->path()) + ": " + why;
    }

    bool failed(read_call& call, const read_request& request, int code) {
        constexpr std::uint32_t most_retries = 10'000;
        if ((code == EINTR || code == EAGAIN) && ++call.stalls < most_retries) {
            // The system is short of something: give it time.
            if (code == EAGAIN && call.stalls > 16) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            return false;
        }
        if (request.direct && (code == EINVAL || code == EOPNOTSUPP)) {
            const std::lock_guard lock(mutex_);
            fall_back(*call.file, std::string("direct reads fail: ") + std::strerror(code));
            return false;
        }
        throw io_error("cannot read at byte " + std::to_string(call.offset + call.moved) + ": " + std::strerror(code),
                       {call.from->path(), {}, call.size, {}});
    }

    // Nothing new came: the file has ended, or the file system does direct I/O of a kind that does not get on.
    bool stalled(read_call& call, const read_request& request) {
        const std::uint64_t size = system_->state(request.descriptor).size;
        if (size >= call.offset + call.size && request.direct) {
            if (++call.stalls < 3) return false;
            const std::lock_guard lock(mutex_);
            fall_back(*call.file, "direct reads bring nothing");
            return false;
        }
        throw io_error("the file ended while it was read, at byte " + std::to_string(call.offset + call.moved) +
                           "; was it shortened meanwhile?",
                       {call.from->path(), {}, call.size, call.moved});
    }

    disk_system* system_;
    bool direct_;
    bool strict_;
    mutable std::mutex mutex_;
    std::vector<std::unique_ptr<direct_file>> files_;
    std::string reason_; // why the file that came last is read buffered
    std::atomic<std::uint64_t> asked_{0};
    std::atomic<std::uint64_t> read_{0};
    std::atomic<std::uint64_t> requests_{0};
    std::atomic<std::uint64_t> fallbacks_{0};
};

} // namespace detail

} // namespace tern
