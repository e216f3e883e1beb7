// pread_reader: files read by a few threads, with direct I/O where that works.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/memory/direct_file.hpp>
#include <tern/memory/disk_reader.hpp>
#include <tern/memory/disk_system.hpp>

namespace tern {

struct pread_options {
    std::size_t threads = 4;       ///< 1 to 256: how many reads are under way at once
    bool direct = true;            ///< past the page cache, file by file where the system can; else buffered
    bool strict = false;           ///< a file that cannot be read directly is an io_error
    std::string why{};             ///< for status(): why it is this reader and no better one
    disk_system* system = nullptr; ///< null: the real one
};

/// Serves reads in the order in which they came, on threads that block in pread. The calls are linked through
/// themselves, and unaligned ends go through a buffer of the thread's: nothing is allocated per read.
///
///     tern::pread_reader reader({.threads = 8});
class pread_reader final : public disk_reader {
public:
    /// Throws config_error for a senseless number of threads, budget_error where the system grants fewer.
    explicit pread_reader(pread_options options = {})
        : options_(std::move(options)), files_(options_.system != nullptr ? *options_.system : disk_system::real(),
                                               options_.direct, options_.strict) {
        const std::size_t threads = options_.threads;
        if (threads == 0 || threads > 256) throw config_error("a reader has 1 to 256 threads");
        bounces_.reserve(threads);
        threads_.reserve(threads);
        try {
            for (std::size_t i = 0; i < threads; ++i) {
                if (options_.direct) bounces_.emplace_back(bounce_size);
                threads_.emplace_back(
                    [this, i] { work(options_.direct ? bounces_[i].span() : std::span<std::byte>{}); });
            }
        } catch (const std::system_error&) {
            const std::string had = std::to_string(threads_.size());
            stop();
            throw budget_error("the system gave " + had + " of " + std::to_string(threads) +
                               " threads of a reader: ask for fewer");
        } catch (...) {
            stop();
            throw;
        }
    }
    ~pread_reader() override { stop(); }

    std::string_view name() const noexcept override { return "pread"; }
    bool start(read_call& call) override {
        if (files_.begin(call)) return true;
        // Notified under the lock: once it is released, the call may end and this reader after it.
        const std::lock_guard lock(mutex_);
        (last_ != nullptr ? last_->next : first_) = &call;
        last_ = &call;
        wake_.notify_one();
        return false;
    }
    std::size_t alignment() const noexcept override { return options_.direct ? detail::direct_alignment : 1; }
    read_counters counters() const override { return files_.counters(); }
    std::string status() const override {
        return "files are read by pread on " + std::to_string(options_.threads) + " threads, " + files_.status() +
               (options_.why.empty() ? "" : "; " + options_.why);
    }
    void forget(byte_source& source) noexcept override { files_.forget(source); }

private:
    static constexpr std::size_t bounce_size = std::size_t{1} << 20;

    void work(std::span<std::byte> bounce) {
        while (read_call* call = next()) {
            if (call->file == nullptr) {
                files_.read_source(*call);
            } else {
                for (bool complete = false; !complete;) {
                    const read_request request = detail::next_request(*call, bounce);
                    complete = files_.settle(*call, request, files_.system().pread(request));
                }
            }
            // After the post the call may be gone: its coroutine goes on elsewhere.
            run_loop* const home = call->home;
            home->post(call->done);
        }
    }

    // Null when the reader ends and nothing is left to read.
    read_call* next() {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return first_ != nullptr || stopping_; });
        if (first_ == nullptr) return nullptr;
        read_call* const call = std::exchange(first_, first_->next);
        if (first_ == nullptr) last_ = nullptr;
        return call;
    }

    void stop() {
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        wake_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

    pread_options options_;
    detail::direct_files files_;
    std::mutex mutex_;
    std::condition_variable wake_;
    read_call* first_ = nullptr;
    read_call* last_ = nullptr;
    bool stopping_ = false;
    std::vector<detail::bounce_memory> bounces_;
    std::vector<std::thread> threads_;
};

} // namespace tern
