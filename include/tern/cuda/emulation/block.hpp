// Runs the threads of one block as fibers, in the order of a schedule: barriers, warp operations, and the report when
// threads wait for what never comes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/cuda/emulation/fault.hpp>
#include <tern/cuda/emulation/fiber.hpp>
#include <tern/cuda/emulation/schedule.hpp>
#include <tern/cuda/emulation/shared_memory.hpp>
#include <tern/cuda/emulation/vector_types.hpp>

namespace tern::cuda::emulation {

/// How a barrier reduces the numbers that threads bring.
enum class barrier_result { none, count, all, any };

/// Lane i brings in[i] and takes out[i]; null where lane i is not there.
struct warp_slots {
    std::array<const void*, 32> in{};
    std::array<void*, 32> out{};
    std::uint32_t mask = 0;   ///< the mask that they name
    std::uint32_t there = 0;  ///< the lanes that take part
    unsigned char poison = 0; ///< what an absent lane gives
};
using warp_operation = void (*)(const warp_slots&);

/// The asynchronous copies of one thread, in the order of their issue. Nothing lands before it is waited for.
class async_copies {
public:
    void clear() { pending_.clear(), batch_ = 0; }
    /// Copies `bytes - zeros` bytes and writes zeros behind them, once its batch is waited for.
    void issue(void* to, const void* from, std::size_t bytes, std::size_t zeros) {
        pending_.push_back({static_cast<unsigned char*>(to), from, bytes, zeros, batch_});
    }
    void commit() { ++batch_; }
    /// Lands all batches but the newest `keep`.
    void wait(std::size_t keep) {
        std::size_t landed = 0;
        for (; landed < pending_.size() && pending_[landed].batch + keep < batch_; ++landed) {
            const pending& p = pending_[landed];
            std::memcpy(p.to, p.from, p.bytes - p.zeros);
            std::memset(p.to + (p.bytes - p.zeros), 0, p.zeros);
        }
        pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(landed));
    }

private:
    struct pending {
        unsigned char* to;
        const void* from;
        std::size_t bytes, zeros, batch;
    };
    std::vector<pending> pending_;
    std::size_t batch_ = 0;
};

class block_runner {
public:
    using body = void (*)(void*);

    /// The block that runs now on this machine; null outside of kernels.
    static block_runner*& current() noexcept {
        static block_runner* runner = nullptr;
        return runner;
    }

    /// Runs block `index` of a grid to its end. Throws fault; then no thread of it is left.
    void run(uint3 index, dim3 threads, std::size_t shared_limit, const schedule& s, body f, void* argument) {
        const std::size_t count = std::size_t{threads.x} * threads.y * threads.z;
        schedule_ = s;
        random_ = random_source(s.seed * 1000003u + index.x + 7919u * index.y + 104729u * index.z);
        begin(count, threads, f, argument);
        shared_.begin(s.poison, shared_limit);
        blockIdx = index;
        current() = this;
        try {
            drive();
        } catch (...) {
            current() = nullptr;
            threads_.clear(); // with what they had begun
            throw;
        }
        current() = nullptr;
        shared_.check();
    }

    shared_memory& shared() noexcept { return shared_; }
    std::size_t dynamic_shared = 0; ///< bytes that the launch asked for
    /// Copies of the running thread that are under way.
    async_copies& copies() noexcept { return running_->copies; }
    const schedule& plan() const noexcept { return schedule_; }
    random_source& random() noexcept { return random_; }

    /// __syncthreads: waits for all threads of the block.
    int barrier(barrier_result result, int number, std::source_location where) {
        thread& t = *running_;
        t.state = waits::barrier, t.where = where, t.number = number, t.result = result;
        t.stack.leave();
        return t.number;
    }

    /// Waits for the lanes of `mask`; then `operation` runs once for all of them. Lanes meet where operation and
    /// mask are the same. Lanes that have returned are not waited for.
    void meet(warp_operation operation, std::uint32_t mask, const void* in, void* out, std::source_location where) {
        thread& t = *running_;
        if (((mask >> t.lane) & 1u) == 0)
            fail({fault_kind::mask,
                  "lane " + std::to_string(t.lane) + " is not in the mask " + hex(mask) + " at " + place(where)});
        t.state = waits::warp, t.where = where, t.operation = operation, t.mask = mask;
        t.in = in, t.out = out;
        if (!complete(t)) t.stack.leave();
    }

    /// Ends the block with a fault, from within a thread. Kernels are not noexcept: it is an exception.
    [[noreturn]] void fail(fault f) { throw f; }

    /// Lets others go first: a thread that waits for another in a loop calls it.
    void pause() { running_->stack.leave(); }

    /// The lanes of the running thread's warp that have not returned.
    std::uint32_t live_lanes() const noexcept {
        std::uint32_t lanes = 0;
        for (std::size_t i = first_of_warp(*running_); i < last_of_warp(*running_); ++i)
            lanes |= std::uint32_t{threads_[i].state != waits::finished} << threads_[i].lane;
        return lanes;
    }
    unsigned lane() const noexcept { return running_->lane; }
    std::size_t thread_number() const noexcept { return running_->number_in_block; }

private:
    enum class waits { nothing, barrier, warp, finished };
    struct thread {
        fiber stack;
        uint3 index{};
        std::size_t number_in_block = 0;
        unsigned lane = 0;
        waits state = waits::nothing;
        std::source_location where;
        barrier_result result = barrier_result::none;
        int number = 0;
        warp_operation operation = nullptr;
        std::uint32_t mask = 0;
        const void* in = nullptr;
        void* out = nullptr;
        async_copies copies;
        block_runner* runner = nullptr;
    };

    void begin(std::size_t count, dim3 shape, body f, void* argument) {
        body_ = f, argument_ = argument, failure_ = nullptr;
        count_ = count;
        while (threads_.size() < count) threads_.emplace_back();
        for (std::size_t i = 0; i < count; ++i) {
            thread& t = threads_[i];
            const auto n = static_cast<unsigned>(i);
            t.index = {n % shape.x, n / shape.x % shape.y, n / shape.x / shape.y};
            t.number_in_block = i, t.lane = n % 32, t.state = waits::nothing, t.runner = this;
            t.copies.clear();
            t.stack.assign([](void* self) { static_cast<thread*>(self)->runner->live(*static_cast<thread*>(self)); },
                           &t);
        }
        order_.resize(count);
    }

    void live(thread& t) {
        try {
            body_(argument_);
        } catch (...) { failure_ = std::current_exception(); }
        t.state = waits::finished;
    }

    void drive() {
        for (;;) {
            schedule_.arrange(order_, random_);
            bool moved = false;
            for (const std::size_t i : order_) {
                thread& t = threads_[i];
                if (t.state != waits::nothing) continue;
                moved = true;
                running_ = &t;
                threadIdx = t.index;
                t.stack.enter();
                if (failure_) std::rethrow_exception(failure_);
                if (t.state == waits::finished) recheck(t);
            }
            if (moved) continue;
            if (release_barrier()) continue;
            if (finished() == count_) return;
            report();
        }
    }

    std::size_t finished() const noexcept {
        std::size_t n = 0;
        for (std::size_t i = 0; i < count_; ++i) n += threads_[i].state == waits::finished;
        return n;
    }

    /// Nobody can run. Opens the barrier if every thread of the block stands at the same one.
    bool release_barrier() {
        const thread& first = threads_[0];
        int count = 0;
        for (std::size_t i = 0; i < count_; ++i) {
            const thread& t = threads_[i];
            if (t.state != waits::barrier || t.result != first.result || !same(t.where, first.where)) return false;
            count += t.number != 0;
        }
        for (std::size_t i = 0; i < count_; ++i) {
            thread& t = threads_[i];
            t.number = t.result == barrier_result::count ? count
                       : t.result == barrier_result::all ? count == static_cast<int>(count_)
                                                         : count != 0;
            t.state = waits::nothing;
        }
        return true;
    }

    std::size_t first_of_warp(const thread& t) const noexcept { return t.number_in_block / 32 * 32; }
    std::size_t last_of_warp(const thread& t) const noexcept {
        const std::size_t end = first_of_warp(t) + 32;
        return end < count_ ? end : count_;
    }

    /// Whether all lanes that `t` waits for are there; then their operation runs and they go on.
    bool complete(thread& t) {
        warp_slots slots{.mask = t.mask, .poison = schedule_.poison};
        for (std::size_t i = first_of_warp(t); i < last_of_warp(t); ++i) {
            thread& other = threads_[i];
            if (((t.mask >> other.lane) & 1u) == 0 || other.state == waits::finished) continue;
            if (other.state != waits::warp || other.operation != t.operation || other.mask != t.mask) return false;
            slots.in[other.lane] = other.in, slots.out[other.lane] = other.out;
            slots.there |= 1u << other.lane;
        }
        if (t.operation) t.operation(slots);
        for (std::size_t i = first_of_warp(t); i < last_of_warp(t); ++i)
            if ((slots.there >> threads_[i].lane) & 1u) threads_[i].state = waits::nothing;
        return true;
    }
    /// A lane has returned: the others of its warp may have waited for it alone.
    void recheck(const thread& gone) {
        for (std::size_t i = first_of_warp(gone); i < last_of_warp(gone); ++i)
            if (threads_[i].state == waits::warp) complete(threads_[i]);
    }

    [[noreturn]] void report() const {
        std::string text;
        bool at_warp = false;
        std::size_t lines = 0;
        for (std::size_t i = 0; i < count_; ++i) {
            const thread& t = threads_[i];
            at_warp = at_warp || t.state == waits::warp;
            const bool told = i > 0 && threads_[i - 1].state == t.state && same(threads_[i - 1].where, t.where) &&
                              threads_[i - 1].mask == t.mask;
            if (told || ++lines > 6) continue;
            text += (text.empty() ? "" : "; ") + describe(t);
        }
        throw fault(at_warp ? fault_kind::divergent_warp : fault_kind::divergent_barrier,
                    text + (lines > 6 ? "; and others" : ""));
    }
    static std::string describe(const thread& t) {
        const std::string who = "thread " + std::to_string(t.number_in_block);
        if (t.state == waits::finished) return who + " has returned";
        if (t.state == waits::barrier) return who + " waits at the barrier " + place(t.where);
        return who + " waits at the warp operation " + place(t.where) + " with mask " + hex(t.mask);
    }

    static bool same(const std::source_location& a, const std::source_location& b) noexcept {
        return a.line() == b.line() && a.column() == b.column() && std::string_view(a.file_name()) == b.file_name();
    }
    static std::string place(const std::source_location& where) {
        const std::string_view file = where.file_name();
        return std::string(file.substr(file.rfind('/') + 1)) + ":" + std::to_string(where.line());
    }
    static std::string hex(std::uint32_t value) {
        std::string text = "0x";
        for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[(value >> shift) & 15u];
        return text;
    }

    std::deque<thread> threads_; // fibers do not move
    std::size_t count_ = 0;
    std::vector<std::size_t> order_;
    thread* running_ = nullptr;
    std::exception_ptr failure_;
    body body_ = nullptr;
    void* argument_ = nullptr;
    schedule schedule_;
    random_source random_{0};
    shared_memory shared_;
};

/// The block that runs now. Throws outside of a kernel.
inline block_runner& this_block() {
    block_runner* runner = block_runner::current();
    if (!runner) throw fault(fault_kind::misuse, "a function of the device was called outside of a kernel");
    return *runner;
}

} // namespace tern::cuda::emulation
