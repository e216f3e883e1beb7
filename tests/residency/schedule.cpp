// Random schedules of everything that a store can do, in virtual time: many interleavings, each of which repeats. A
// failure names its seed, and TERN_SEED=<seed> runs that one alone.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "residency/schedule.hpp"
#include <tern/async/scope.hpp>
#include <tern/async/when_all.hpp>
#include <tern/residency/scheduler.hpp>
#include <tern/transfer/blocking.hpp>
#include <tern/transfer/prefetched.hpp>

using namespace tern::literals;
using namespace tern::test;

namespace {

constexpr std::array<tern::move_function, 6> moves{
    &tern::staged<256_B, 1>::move, &tern::staged<300_B, 2>::move, &tern::staged<64_B, 4>::move,
    &tern::staged<4_KiB, 2>::move, &tern::blocking::move,         &tern::prefetched<2, tern::staged<500_B, 2>>::move,
};
constexpr std::array<tern::retention, 3> retentions{tern::retention::drop, tern::retention::cache,
                                                    tern::retention::keep};

/// A lease that an actor holds, and where its bytes were when it came.
struct hold {
    tern::lease lease{};
    tern::slice_id id = 0;
    std::size_t on = 0;
    const std::byte* at = nullptr;
};

/// One of several coroutines that use the store at random.
class actor {
public:
    actor(world& w, std::size_t holds) : w_(w), held_(holds) {}
    ~actor() {
        for (hold& h : held_) release(h);
    }

    tern::task<> act(int steps) {
        for (int i = 0; i < steps; ++i) {
            co_await step();
            inspect();
            co_await pause();
            inspect();
        }
        for (hold& h : held_) release(h);
    }

private:
    tern::task<> pause() {
        const std::uint64_t kind = w_.random.below(4);
        if (kind == 0) co_return;
        if (kind == 1) co_await w_.home.schedule();
        if (kind > 1) co_await w_.time.sleep_for({1e-4 * static_cast<double>(w_.random.below(50))});
    }

    tern::task<> step() {
        const std::size_t on = w_.random.below(4) != 0;
        const auto id = static_cast<tern::slice_id>(w_.random.below(w_.slices));
        const tern::move_function move = moves[w_.random.below(moves.size())];
        const std::uint64_t what = w_.random.below(16);
        if (what < 5) co_await borrow(id, on, move);
        if (what == 5 || what == 6) try_borrow(id, on);
        if (what == 7 || what == 8) evict(id, on);
        if (what == 9 && w_.rough) co_await place(id, on, move);
        if (what == 10) assign(id, on);
        if (what == 11 && w_.rough) w_.store.expect(some_ids(id), w_.device(on), move);
        if (what == 12 || (what % 2 == 1 && what >= 9 && !w_.rough))
            w_.store.bring_ahead({&id, 1}, w_.device(on), move);
        if (what == 13 && w_.rough) w_.store.bring_ahead(some_ids(id), w_.device(on), move);
        if (what == 14) follow(move);
        if (what == 15) release(held_[w_.random.below(held_.size())]);
    }

    hold& free_hold() {
        for (hold& h : held_)
            if (!h.lease) return h;
        hold& h = held_[w_.random.below(held_.size())];
        release(h);
        return h;
    }
    void release(hold& h) {
        if (!h.lease) return;
        if (w_.is_copy(h.id, h.at)) --w_.held[h.id][h.on];
        h.lease = {};
    }
    void keep(hold& h, tern::lease got, tern::slice_id id, std::size_t on) {
        h.at = got.data();
        h.lease = std::move(got);
        h.id = id;
        h.on = on;
        if (w_.is_copy(id, h.at)) ++w_.held[id][on];
    }

    tern::task<> borrow(tern::slice_id id, std::size_t on, tern::move_function move) {
        hold& h = free_hold();
        try {
            tern::lease got = co_await w_.store.borrow(id, w_.device(on), move);
            keep(h, std::move(got), id, on);
            w_.require(w_.in_use(id, on), "a borrowed copy is not leased");
        } catch (const tern::error& e) { failed(e, id, on); }
    }
    void try_borrow(tern::slice_id id, std::size_t on) {
        const bool there = w_.store.readable(id, w_.device(on));
        hold& h = free_hold();
        // What was released just now may have been streamed, and is gone then.
        const bool still = w_.store.readable(id, w_.device(on));
        tern::lease got = w_.store.try_borrow(id, w_.device(on));
        w_.require(static_cast<bool>(got) == still && (there || !still), "try_borrow and readable disagree");
        if (!got) return;
        keep(h, std::move(got), id, on);
        w_.require(!w_.is_copy(id, h.at) || w_.in_use(id, on), "a copy lent at once is not leased");
    }
    tern::task<> place(tern::slice_id id, std::size_t on, tern::move_function move) {
        std::stop_source stop(std::nostopstate);
        if (w_.random.below(3) == 0) {
            stop = std::stop_source();
            w_.side.spawn(stop_later(w_, stop, 1e-4 * static_cast<double>(w_.random.below(40))));
        }
        try {
            co_await w_.store.place(id, w_.device(on), move, stop.get_token());
            const tern::copy_state s = w_.state(id, on);
            w_.require(s == tern::copy_state::resident || s == tern::copy_state::leased, "a placed copy is not there");
            w_.require(w_.store.home_of(id) == &w_.device(on), "a placed slice computes elsewhere");
        } catch (const tern::error& e) { failed(e, id, on); }
    }
    static tern::task<> stop_later(world& w, std::stop_source stop, double after) {
        co_await w.time.sleep_for({after});
        stop.request_stop();
    }
    void failed(const tern::error& e, tern::slice_id id, std::size_t on) {
        const bool budget = dynamic_cast<const tern::budget_error*>(&e) != nullptr;
        const bool known = budget || dynamic_cast<const tern::io_error*>(&e) != nullptr ||
                           dynamic_cast<const tern::stopped_error*>(&e) != nullptr;
        w_.require(known && w_.rough, e.what());
        const tern::copy_state s = w_.state(id, on);
        w_.require(s == tern::copy_state::absent || s == tern::copy_state::arriving, "a failed arrival left a copy");
        ++w_.failures;
    }
    void evict(tern::slice_id id, std::size_t on) {
        w_.store.evict(id, w_.device(on));
        const tern::copy_state s = w_.state(id, on);
        w_.require(s != tern::copy_state::resident && s != tern::copy_state::leased, "an evicted copy stays");
    }
    void assign(tern::slice_id id, std::size_t on) {
        const std::size_t kinds = w_.rough ? retentions.size() : 2;
        w_.store.assign(id, w_.device(on), retentions[w_.random.below(kinds)], w_.random.below(2) == 0);
        w_.require(w_.store.home_of(id) == &w_.device(on), "an assigned slice computes elsewhere");
    }
    std::span<const tern::slice_id> some_ids(tern::slice_id first) {
        ids_.clear();
        for (tern::slice_id id = first; id < w_.slices && ids_.size() < 4; id += 1 + (w_.random.below(4) == 0))
            ids_.push_back(id);
        return ids_;
    }
    void follow(tern::move_function move) {
        std::vector<tern::scheduled_use> uses;
        const tern::slice_id step = w_.random.below(2) == 0 ? 1 : 2;
        for (tern::slice_id id = 0; id < w_.slices; id += step)
            uses.push_back({id, &w_.device(1), move, 1 + w_.random.below(3)});
        w_.order.follow(uses);
    }
    /// What must hold at any time.
    void inspect() {
        w_.inspect();
        for (const hold& h : held_) {
            if (!h.lease) continue;
            w_.require(h.lease.data() == h.at && w_.right(h.id, h.at), "the bytes of a leased copy changed");
            w_.require(!w_.is_copy(h.id, h.at) || w_.in_use(h.id, h.on), "a leased copy is taken for another state");
        }
    }

    world& w_;
    std::vector<hold> held_;
    std::vector<tern::slice_id> ids_;
};

void end(world& w) {
    w.home.run(w.side.join());
    w.order.follow({});
    w.home.run(w.store.drain());
    w.inspect();
    for (tern::slice_id id = 0; id < w.slices; ++id)
        for (std::size_t on = 0; on < 2; ++on) {
            const tern::copy_state s = w.state(id, on);
            w.require(s == tern::copy_state::absent || s == tern::copy_state::resident, "a copy is stuck");
            w.store.evict(id, w.device(on));
            w.require(w.state(id, on) == tern::copy_state::absent, "an evicted copy is there");
        }
    for (std::size_t on = 0; on < 2; ++on) {
        w.require(w.store.cached(w.device(on)) == 0_B, "the pool counts what is gone");
        w.require(w.device(on).memory().budget().used() == 0_B, "memory was lost");
    }
    w.require(w.staging.budget().used() == 0_B, "staging was lost");
}

/// What went wrong with a seed; empty where nothing did.
std::string run_schedule(std::uint64_t seed, std::uint64_t* failures = nullptr) {
    // A schedule that hangs cannot be taken down: it is left behind.
    auto* const w = new world(seed);
    try {
        const std::size_t count = w->rough ? 2 + w->random.below(3) : calm_actors;
        std::vector<std::unique_ptr<actor>> actors;
        for (std::size_t i = 0; i < count; ++i)
            actors.push_back(std::make_unique<actor>(*w, w->rough ? 3 : calm_holds));
        std::vector<tern::task<>> all;
        for (auto& a : actors) all.push_back(a->act(static_cast<int>(60 / count)));
        w->home.run(tern::when_all(std::move(all)));
        end(*w);
    } catch (const std::exception& e) { return std::string("it hangs or fails: ") + e.what() + "; " + w->wrong; }
    if (failures != nullptr) *failures += w->failures;
    const std::string wrong = w->wrong;
    delete w;
    return wrong;
}

} // namespace

TEST_CASE("residency/schedule: whatever is done in whatever order, copies stay whole and nothing is lost") {
    std::uint64_t failures = 0;
    if (const char* one = std::getenv("TERN_SEED")) {
        CHECK(run_schedule(std::strtoull(one, nullptr, 10), &failures) == "");
        return;
    }
    for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
        CAPTURE(seed);
        REQUIRE(run_schedule(seed, &failures) == "");
    }
    CHECK(failures > 1000); // or else the faults were none
}
