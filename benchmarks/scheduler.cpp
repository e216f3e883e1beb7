// scheduler: what a lease costs, and how much of that is the scheduler's, beside all transfers: in virtual time, so
// that nothing else runs.
//
//     bench_scheduler          the last line: at most 219 ns an operator
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <tern/async/run_loop.hpp>
#include <tern/async/virtual_clock.hpp>
#include <tern/device/virtual_device.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/residency/scheduler.hpp>
#include <tern/residency/store.hpp>
#include <tern/transfer/prefetched.hpp>
#include <tern/transfer/staged.hpp>

#include "../examples/options.hpp"

namespace {

using namespace tern::literals;

constexpr const char* help = R"(scheduler: what a lease of a resident slice costs with a scheduler and without.

usage: bench_scheduler [options]
  --slices N     slices in the order (1000)
  --repeat N     passes over it, of which the median counts (301)
)";

constexpr tern::bytes slice_size = 256_B;
using move = tern::prefetched<8, tern::staged<4_KiB, 2>>;

/// Which slices are on the accelerator; copies of the others never come while leases are timed.
enum class resident { all, every_second };

struct machine {
    machine(std::size_t slices, resident which)
        : gpu({.capacity = slice_size * slices, .latency = {1}}, time), weights(slices * slice_size.count) {
        for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<std::byte>(i * 7 + i / 256);
        for (std::size_t i = 0; i < slices; ++i) {
            const tern::slice_id id =
                store.add("w" + std::to_string(i), {.memory = weights.data() + i * slice_size.count}, slice_size);
            uses.push_back({id, &gpu, &move::move, move::ahead});
            if (which == resident::every_second && i % 2 != 0) continue;
            loop.run(store.place(id, gpu, &move::move));
            leased.push_back(id);
        }
        store.bound(gpu, slice_size * 4); // for copies ahead
    }

    tern::virtual_clock time;
    tern::run_loop loop{time};
    tern::heap_arena staging;
    tern::virtual_device gpu;
    std::vector<std::byte> weights;
    tern::residency_store store{loop, staging};
    std::vector<tern::scheduled_use> uses;
    std::vector<tern::slice_id> leased;
};

/// An operator's part: a lease at once, given back after its use.
tern::task<double> lease_at_once(machine& m) {
    std::size_t missing = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (const tern::slice_id id : m.leased) missing += !m.store.try_borrow(id, m.gpu);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    if (missing != 0) throw tern::error("a slice that is resident was not lent");
    co_return took.count() / static_cast<double>(m.leased.size());
}
/// The same by the awaitable that brings what is not there.
tern::task<double> lease_awaited(machine& m) {
    const auto begin = std::chrono::steady_clock::now();
    for (const tern::slice_id id : m.leased) static_cast<void>(co_await m.store.borrow(id, m.gpu, &move::move));
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    co_return took.count() / static_cast<double>(m.leased.size());
}

void check(machine& m) {
    for (const tern::slice_id id : m.leased) {
        const tern::lease held = m.store.try_borrow(id, m.gpu);
        if (!held || std::memcmp(held.data(), m.weights.data() + id * slice_size.count, slice_size.count) != 0)
            throw tern::error("the bytes on the accelerator are not those in memory");
    }
}

double median(std::vector<double> of) {
    std::sort(of.begin(), of.end());
    return of[of.size() / 2];
}

double timed(machine& m, std::size_t repeat, tern::task<double> (*lease)(machine&)) {
    std::vector<double> times;
    for (std::size_t i = 0; i < repeat; ++i) times.push_back(m.loop.run(lease(m)));
    return median(std::move(times));
}

struct figures {
    double at_once;
    double awaited;
};
figures measure(std::size_t slices, std::size_t repeat, resident which, bool scheduled) {
    machine m(slices, which);
    check(m);
    std::unique_ptr<tern::scheduler> order;
    if (scheduled) {
        order = std::make_unique<tern::scheduler>(m.store);
        order->follow(m.uses);
    }
    const figures took{timed(m, repeat, &lease_at_once), timed(m, repeat, &lease_awaited)};
    check(m);
    if (scheduled) order->follow({});
    m.loop.run(m.store.drain());
    return took;
}

void run_program(const options& args) {
    if (!args.plain().empty()) throw usage_error{help};
    const auto slices = static_cast<std::size_t>(args.whole("slices", 1000));
    const auto repeat = static_cast<std::size_t>(args.whole("repeat", 301));
    if (slices == 0 || repeat == 0) throw usage_error{help};
    const figures alone = measure(slices, repeat, resident::all, false);
    const figures all = measure(slices, repeat, resident::all, true);
    const figures pending = measure(slices, repeat, resident::every_second, true);
    const auto show = [](const char* what, const figures& f) {
        std::cout << what << f.at_once << " ns at once, " << f.awaited << " ns awaited\n";
    };
    show("no scheduler                      ", alone);
    show("scheduler, all resident           ", all);
    show("scheduler, copies ahead pending   ", pending);
    std::cout << "at most " << std::max({all.at_once, all.awaited, pending.at_once, pending.awaited})
              << " ns an operator\n";
}

} // namespace

int main(int argc, char** argv) {
    try {
        run_program(options(argc, argv, {"slices", "repeat"}, {}));
    } catch (const usage_error& e) {
        std::cerr << e.help;
        return 1;
    } catch (const std::exception& e) {
        std::cerr << "scheduler: " << e.what() << "\n";
        return 1;
    }
}
