// A team of workers that compute one operator at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>

namespace tern {

/// Splits the items of one operator over threads; the caller is one of them. Between operators the others spin for a
/// short, bounded time and then sleep. `run` may be called from several threads: the team serves one operator at a
/// time; one of a single piece is its caller's own affair. Not to be called from within a piece.
///
///     tern::worker_team team{tern::usable_workers()};
///     team.run(rows, 16, [&](std::size_t begin, std::size_t end) { ... });
template <class = void> class basic_worker_team {
public:
    /// `workers` counts the caller too: 1 starts no thread. Throws config_error for 0 or more than 4096, budget_error
    /// where the system grants fewer threads.
    explicit basic_worker_team(std::size_t workers) {
        if (workers == 0 || workers > 4096) throw config_error("a team has 1 to 4096 workers");
        threads_.reserve(workers - 1);
        try {
            for (std::size_t i = 1; i < workers; ++i) threads_.emplace_back([this] { serve(); });
        } catch (const std::system_error&) {
            const std::string had = std::to_string(threads_.size() + 1);
            stop();
            throw budget_error("the system gave " + had + " of " + std::to_string(workers) +
                               " workers: ask for fewer threads");
        } catch (...) {
            stop();
            throw;
        }
    }
    basic_worker_team(const basic_worker_team&) = delete;
    basic_worker_team& operator=(const basic_worker_team&) = delete;
    ~basic_worker_team() { stop(); }

    std::size_t workers() const noexcept { return threads_.size() + 1; }

    /// Calls `fn(begin, end)` over [0, items) in pieces of `grain` items, or in a single one where there is one worker,
    /// and returns when all are done. The pieces are taken by whoever is free, so results must depend neither on which
    /// worker computes what nor on how items are grouped. The first exception of a piece is rethrown here; pieces not
    /// yet begun are then left out.
    template <class Fn> void run(std::size_t items, std::size_t grain, Fn&& fn) {
        if (items == 0) return;
        grain = grain == 0 ? 1 : grain;
        if (threads_.empty() || items <= grain) {
            fn(std::size_t{0}, items);
            return;
        }
        using callable = std::remove_reference_t<Fn>;
        const auto call = [](void* f, std::size_t begin, std::size_t end) { (*static_cast<callable*>(f))(begin, end); };
        dispatch({call, const_cast<void*>(static_cast<const void*>(std::addressof(fn))), items, grain});
    }

private:
    struct job {
        void (*call)(void*, std::size_t, std::size_t) = nullptr;
        void* fn = nullptr;
        std::size_t items = 0;
        std::size_t grain = 1;
    };
    // About twenty microseconds: longer than the gap between two operators of a layer, shorter than a time slice.
    static constexpr int spins = 4000;

    void dispatch(job work) {
        const std::lock_guard one_at_a_time(run_mutex_);
        job_ = work;
        next_.store(0, std::memory_order_relaxed);
        busy_.store(threads_.size(), std::memory_order_relaxed);
        generation_.fetch_add(1, std::memory_order_release);
        generation_.notify_all();
        take_pieces();
        wait_while(busy_, [](std::size_t busy) { return busy != 0; });
        if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    }

    void take_pieces() noexcept {
        for (;;) {
            const std::size_t begin = next_.fetch_add(job_.grain, std::memory_order_relaxed);
            if (begin >= job_.items) return;
            const std::size_t left = job_.items - begin;
            try {
                job_.call(job_.fn, begin, begin + (left < job_.grain ? left : job_.grain));
            } catch (...) {
                const std::lock_guard lock(error_mutex_);
                if (!error_) error_ = std::current_exception();
                next_.store(job_.items, std::memory_order_relaxed);
            }
        }
    }

    void serve() noexcept {
        std::uint32_t seen = 0;
        for (;;) {
            wait_while(generation_, [&](std::uint32_t now) { return now == seen; });
            ++seen;
            if (stopping_.load(std::memory_order_acquire)) return;
            take_pieces();
            if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_all();
        }
    }

    /// Waits while `again(value)` holds: first spinning, then asleep.
    template <class T, class Again> static void wait_while(std::atomic<T>& value, Again again) noexcept {
        for (int i = 0; i < spins; ++i) {
            if (!again(value.load(std::memory_order_acquire))) return;
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
        for (T now = value.load(std::memory_order_acquire); again(now); now = value.load(std::memory_order_acquire))
            value.wait(now, std::memory_order_acquire);
    }

    void stop() noexcept {
        stopping_.store(true, std::memory_order_release);
        generation_.fetch_add(1, std::memory_order_release);
        generation_.notify_all();
        for (std::thread& thread : threads_) thread.join();
        threads_.clear();
    }

    std::vector<std::thread> threads_;
    std::mutex run_mutex_;
    job job_;
    std::atomic<std::size_t> next_{0};
    std::atomic<std::size_t> busy_{0};
    std::atomic<std::uint32_t> generation_{0};
    std::atomic<bool> stopping_{false};
    std::mutex error_mutex_;
    std::exception_ptr error_;
};

/// (A template underneath, so that a program compiles it only where it makes one.)
using worker_team = basic_worker_team<>;

} // namespace tern
