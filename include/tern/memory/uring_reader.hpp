// uring_reader: many reads at once by io_uring, with direct I/O where that works.
#pragma once

#if !__has_include(<liburing.h>)
#error "tern/memory/uring_reader.hpp needs liburing: install liburing-dev (or the like) and link with -luring"
#else

#include <liburing.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/memory/direct_file.hpp>
#include <tern/memory/disk_reader.hpp>
#include <tern/memory/disk_system.hpp>

namespace tern {

struct uring_options {
    std::size_t depth = 32; ///< 1 to 4096: how many reads are under way at once; others queue
    bool direct = true;     ///< past the page cache, file by file where the system can; else buffered
    bool strict = false;    ///< a file that cannot be read directly is an io_error
    std::size_t bounce = std::size_t{1} << 18; ///< bytes; what a read without slack takes at once at unaligned ends
    disk_system* system = nullptr;             ///< null: the real one
};

namespace detail {

/// A ring, and the descriptor that wakes the thread which waits in it.
class ring {
public:
    explicit ring(unsigned entries, disk_system& system) {
        int failed = system.forbids_ring();
        if (failed == 0) failed = set_up(entries);
        if (failed != 0) throw unsupported_error(std::string("no io_uring here: ") + std::strerror(failed));
        wake_ = ::eventfd(0, EFD_CLOEXEC);
        if (wake_ >= 0) return;
        failed = errno;
        io_uring_queue_exit(&ring_);
        throw unsupported_error(std::string("no io_uring here: no eventfd: ") + std::strerror(failed));
    }
    ring(const ring&) = delete;
    ring& operator=(const ring&) = delete;
    ~ring() {
        io_uring_queue_exit(&ring_);
        ::close(wake_);
    }

    /// From any thread: makes the waiting thread go on.
    void wake() noexcept {
        const std::uint64_t one = 1;
        while (::write(wake_, &one, sizeof one) < 0 && errno == EINTR) {}
    }

    // The rest is for the one thread that waits.

    /// Before anything else.
    void enable() noexcept {
        // The library's function for this is missing from some of its releases.
        if (disabled_) ::syscall(__NR_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
        listen();
    }
    /// Queues a request; `wait` hands it over. There is room: no more are under way than the ring has entries.
    void push(const read_request& request, void* tag) noexcept {
        io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
        io_uring_prep_read(entry, request.descriptor, request.into, static_cast<unsigned>(request.size),
                           request.offset);
        io_uring_sqe_set_data(entry, tag);
    }
    /// Hands over what is queued, waits until something is complete or `wake` was called, and calls
    /// `complete(tag, result)` for each request.
    template <class Complete> void wait(Complete complete) {
        const int failed = io_uring_submit_and_wait(&ring_, 1);
        // The kernel is short of memory. What is queued stays queued.
        if (failed < 0 && failed != -EINTR && failed != -EBUSY)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        io_uring_cqe* done = nullptr;
        while (io_uring_peek_cqe(&ring_, &done) == 0) {
            void* const tag = io_uring_cqe_get_data(done);
            const int result = done->res;
            io_uring_cqe_seen(&ring_, done);
            if (tag == nullptr)
                listen();
            else
                complete(tag, result);
        }
    }

private:
    // 0, or an errno.
    int set_up(unsigned entries) noexcept {
        int failed = -EINVAL;
#if defined(IORING_SETUP_SINGLE_ISSUER) && defined(IORING_SETUP_DEFER_TASKRUN)
        // All of the kernel's work for the ring is done in the thread that waits, and interrupts no other. Such a ring
        // belongs to the thread that enables it.
        failed = io_uring_queue_init(entries, &ring_,
                                     IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_R_DISABLED);
        disabled_ = failed == 0;
#endif
        if (failed == -EINVAL) failed = io_uring_queue_init(entries, &ring_, 0);
        if (failed != 0) return -failed;
        io_uring_probe* const probe = io_uring_get_probe_ring(&ring_);
        const bool reads = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) != 0;
        if (probe != nullptr) io_uring_free_probe(probe);
        if (reads) return 0;
        io_uring_queue_exit(&ring_);
        return EOPNOTSUPP;
    }

    void listen() noexcept {
        io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
        io_uring_prep_read(entry, wake_, &woken_, sizeof woken_, 0);
        io_uring_sqe_set_data(entry, nullptr);
    }

    io_uring ring_{};
    bool disabled_ = false;
    int wake_ = -1;
    std::uint64_t woken_ = 0;
};

} // namespace detail

/// Keeps up to `depth` reads with the kernel, and the others in the order in which they came. A thread of its own hands
/// them over and waits for them, asleep; so no read depends on the thread that asked for it, nor interrupts it. Nothing
/// is allocated per read. A source without a descriptor is read on the calling thread.
///
///     tern::uring_reader reader({.depth = 8});
class uring_reader final : public disk_reader {
public:
    /// Throws unsupported_error where the kernel gives no ring, config_error for senseless options.
    explicit uring_reader(uring_options options = {})
        : options_(checked(options)), files_(system(), options.direct, options.strict),
          ring_(static_cast<unsigned>(options.depth + 1), system()), slots_(options.depth),
          bounces_(options.direct ? options.depth * options.bounce : 0) {
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            if (options.direct) slots_[i].bounce = bounces_.span().subspan(i * options.bounce, options.bounce);
            slots_[i].next = std::exchange(free_, &slots_[i]);
        }
        try {
            thread_ = std::thread([this] { work(); });
        } catch (const std::system_error&) {
            throw budget_error("the system gave no thread for a reader: use fewer threads");
        }
    }
    ~uring_reader() override {
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        ring_.wake();
        thread_.join();
    }

    std::string_view name() const noexcept override { return "io_uring"; }
    bool start(read_call& call) override {
        if (files_.begin(call)) return true;
        if (call.file == nullptr) {
            files_.read_source(call);
            return true;
        }
        // Woken under the lock: once it is released, the call may end and this reader after it.
        const std::lock_guard lock(mutex_);
        (last_ != nullptr ? last_->next : first_) = &call;
        last_ = &call;
        if (std::exchange(asleep_, false)) ring_.wake();
        return false;
    }
    std::size_t alignment() const noexcept override { return options_.direct ? detail::direct_alignment : 1; }
    read_counters counters() const override { return files_.counters(); }
    std::string status() const override {
        return "files are read by io_uring, " + std::to_string(options_.depth) + " reads at once, " + files_.status();
    }
    void forget(byte_source& source) noexcept override { files_.forget(source); }

private:
    /// A read that is with the kernel.
    struct slot {
        read_call* call = nullptr;
        read_request request{};
        std::span<std::byte> bounce{};
        slot* next = nullptr;
    };

    static const uring_options& checked(const uring_options& options) {
        if (options.depth == 0 || options.depth > 4096) throw config_error("a reader keeps 1 to 4096 reads at once");
        constexpr std::size_t unit = detail::direct_alignment;
        if (options.bounce < 2 * unit || options.bounce % unit != 0 || options.bounce > detail::longest_request)
            throw config_error("a reader's bounce buffer is a multiple of 4096 bytes, from 8 KiB to 1 GiB");
        return options;
    }
    disk_system& system() const { return options_.system != nullptr ? *options_.system : disk_system::real(); }

    void work() {
        ring_.enable();
        while (admit()) ring_.wait([this](void* tag, int result) { complete(*static_cast<slot*>(tag), result); });
    }

    // Takes calls as there are slots. False when the reader ends and nothing is left to read.
    bool admit() {
        const std::lock_guard lock(mutex_);
        while (first_ != nullptr && free_ != nullptr) {
            slot& taken = *std::exchange(free_, free_->next);
            taken.call = std::exchange(first_, first_->next);
            ++busy_;
            push(taken);
        }
        if (first_ == nullptr) last_ = nullptr;
        asleep_ = free_ != nullptr;
        return !stopping_ || busy_ > 0;
    }

    void push(slot& s) {
        s.request = detail::next_request(*s.call, s.bounce);
        ring_.push(s.request, &s);
    }

    void complete(slot& s, int result) {
        if (!files_.settle(*s.call, s.request, result)) return push(s);
        // After the post the call may be gone: its coroutine goes on elsewhere.
        read_call& call = *std::exchange(s.call, nullptr);
        s.next = std::exchange(free_, &s);
        --busy_;
        call.home->post(call.done);
    }

    const uring_options options_;
    detail::direct_files files_;
    detail::ring ring_;
    std::vector<slot> slots_;
    detail::bounce_memory bounces_;
    slot* free_ = nullptr; // this and busy_: of the thread alone
    std::size_t busy_ = 0;
    std::mutex mutex_;
    read_call* first_ = nullptr;
    read_call* last_ = nullptr;
    bool asleep_ = false; // a call that comes now must wake the thread
    bool stopping_ = false;
    std::thread thread_; // last: it starts when all else is there
};

} // namespace tern

#endif
