// The emulated device: its memory, and streams whose order is adversarial.
//
// Work that was put into a stream runs when something waits for it, or at some other call before: which, a seed
// decides. Streams that no event joins run in any order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tern/cuda/emulation/checked_run.hpp>

namespace tern::cuda::emulation {

/// When work that could run does.
enum class stream_order {
    eager,  ///< at once: as if every call were synchronous
    lazy,   ///< not before somebody waits for it
    random, ///< at any call after it was put there
};

/// One piece of work in a stream. It may run when the pieces it is behind have run.
struct work_item {
    std::function<void()> run;
    std::vector<std::shared_ptr<work_item>> behind;
    bool done = false;

    bool ready() const {
        return std::all_of(behind.begin(), behind.end(), [](const auto& other) { return other->done; });
    }
};
using work = std::shared_ptr<work_item>;

struct stream_state {
    bool blocking = true; ///< waits for the legacy default stream, and it for this one
    std::deque<work> queue;
    work last; ///< the newest piece, whether it has run or not
};

/// What a stream handle points to.
struct stream_handle {
    stream_state state;
};
/// What an event handle points to: the piece after which it is complete. Before it is recorded it counts as complete.
struct event_handle {
    work recorded;
};

class device {
public:
    static device& get() {
        static device the_device;
        return the_device;
    }

    /// Held by each call: one thread of the host at a time.
    std::unique_lock<std::recursive_mutex> lock() { return std::unique_lock(mutex_); }

    const settings& how() const noexcept { return how_; }
    device_memory& memory() noexcept { return memory_; }
    stream_order order = stream_order::random;

    /// Forgets queued work and errors and takes up new settings. Allocations and streams stay.
    void reset(const settings& how, stream_order streams = stream_order::random) {
        drop();
        how_ = how, order = streams;
        memory_.capacity = how.capacity;
        random_ = random_source(how.seed);
        deferred_.reset();
    }

    stream_state& state_of(stream_handle* stream) { return stream ? stream->state : legacy_; }

    stream_handle* make_stream(bool blocking) {
        streams_.push_back(std::make_unique<stream_handle>());
        streams_.back()->state.blocking = blocking;
        return streams_.back().get();
    }
    /// Its work runs all the same, by and by.
    void destroy_stream(stream_handle* stream) {
        const auto found = std::find_if(streams_.begin(), streams_.end(), [&](auto& s) { return s.get() == stream; });
        if (found == streams_.end()) return;
        for (const work& w : stream->state.queue) orphans_.queue.push_back(w);
        streams_.erase(found);
    }

    /// Puts work into a stream, behind what is there. Then some of all the work may run.
    work put(stream_handle* stream, std::function<void()> run, work after = nullptr) {
        stream_state& s = state_of(stream);
        auto item = std::make_shared<work_item>();
        item->run = std::move(run);
        if (s.last) item->behind.push_back(s.last);
        if (after) item->behind.push_back(std::move(after));
        if (&s == &legacy_) {
            for (auto& other : streams_)
                if (other->state.blocking && other->state.last) item->behind.push_back(other->state.last);
        } else if (s.blocking && legacy_.last) {
            item->behind.push_back(legacy_.last);
        }
        std::erase_if(item->behind, [](const work& w) { return w->done; });
        s.queue.push_back(item);
        s.last = item;
        if (order == stream_order::eager)
            wait(item);
        else
            disturb();
        return item;
    }

    /// Lets some of the work run, as time passing would.
    void disturb() {
        if (order != stream_order::random) return;
        while (random_.below(3) == 0 && step()) {}
    }
    /// Runs work, of any streams, until `item` has run.
    void wait(const work& item) {
        raise();
        while (item && !item->done && step(order == stream_order::lazy ? item.get() : nullptr)) {}
    }
    void wait_stream(stream_handle* stream) { wait(state_of(stream).last); }
    /// Whether `item` has run; asking lets time pass.
    bool poll(const work& item) {
        raise();
        if (item && !item->done) step(order == stream_order::lazy ? item.get() : nullptr);
        return !item || item->done;
    }
    void wait_all() {
        raise();
        while (step()) {}
    }
    /// For calls that must not throw, such as cudaFree in a destructor: the next call that waits throws instead.
    void wait_all_quietly() noexcept {
        try {
            while (step()) {}
        } catch (const fault& f) {
            if (!deferred_) deferred_ = f;
        } catch (...) {
            if (!deferred_) deferred_ = fault(fault_kind::misuse, "a host function threw");
        }
    }

    void run_kernel(const kernel_call& call) { checked_run(memory_, runner_, how_).run(call); }

private:
    std::vector<stream_state*> all_streams() {
        std::vector<stream_state*> all = {&legacy_, &orphans_};
        for (auto& s : streams_) all.push_back(&s->state);
        return all;
    }

    /// Throws what a quiet call kept.
    void raise() {
        if (!deferred_) return;
        const fault f = *deferred_;
        deferred_.reset();
        throw f;
    }

    /// Runs one piece that may run; with `wanted`, one that it needs, and no more than that. False where there is none.
    bool step(const work_item* wanted = nullptr) {
        std::vector<std::pair<stream_state*, std::size_t>> ready;
        for (stream_state* s : all_streams())
            for (std::size_t i = 0; i < s->queue.size(); ++i)
                if (s->queue[i]->ready() && (!wanted || needs(*wanted, *s->queue[i]))) ready.emplace_back(s, i);
        if (ready.empty()) return false;
        const auto [s, i] = ready[random_.below(ready.size())];
        const work item = s->queue[i];
        s->queue.erase(s->queue.begin() + static_cast<std::ptrdiff_t>(i));
        item->done = true;
        item->behind.clear();
        try {
            item->run();
        } catch (...) {
            drop(); // as a device does: after a fault nothing that was queued runs
            throw;
        }
        return true;
    }
    /// Gives up all queued work, whose memory the caller may give back now.
    void drop() {
        for (stream_state* s : all_streams()) {
            for (const work& w : s->queue) w->done = true, w->behind.clear();
            s->queue.clear();
        }
    }
    static bool needs(const work_item& item, const work_item& other) {
        if (&item == &other) return true;
        return std::any_of(item.behind.begin(), item.behind.end(),
                           [&](const work& w) { return !w->done && needs(*w, other); });
    }

    std::recursive_mutex mutex_;
    settings how_;
    device_memory memory_;
    block_runner runner_;
    stream_state legacy_, orphans_;
    std::vector<std::unique_ptr<stream_handle>> streams_;
    random_source random_{1};
    std::optional<fault> deferred_;
};

} // namespace tern::cuda::emulation
