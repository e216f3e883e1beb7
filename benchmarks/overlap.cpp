// overlap: how long a layer takes whose weights come over a throttled link while others compute, beside the longer of
// the two, which is what it would take if nothing else cost time.
//
//     bench_overlap            the last line: largest 1.043 of the longer, all within 10% and one chunk's copy
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

#include <tern/async/loop_thread.hpp>
#include <tern/async/real_clock.hpp>
#include <tern/async/run_loop.hpp>
#include <tern/device/emulated.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/residency/scheduler.hpp>
#include <tern/residency/store.hpp>
#include <tern/transfer/prefetched.hpp>
#include <tern/transfer/staged.hpp>

#include "../examples/options.hpp"

namespace {

using namespace tern::literals;

constexpr const char* help =
    R"(overlap: layers whose weights come over the emulated accelerator's link while others compute.

usage: bench_overlap [options]
  --repeat N     repetitions of which the median counts, all ratios in turn (3)
  --longer MS    milliseconds that the longer of copy and operator takes (16)
)";

constexpr std::size_t layers = 12;
constexpr tern::bytes layer_size = 1_MiB;
constexpr tern::bytes chunk = 256_KiB;
constexpr std::array<double, 10> ratios{0.1, 0.17, 0.3, 0.5, 0.8, 1.25, 2.0, 3.3, 6.0, 10.0};
using weights_ahead = tern::prefetched<2, tern::staged<chunk, 2>>;

/// Milliseconds of one layer's copy and operator.
struct load {
    double copy;
    double compute;
    double longer() const { return std::max(copy, compute); }
    double copy_of_chunk() const { return copy * (static_cast<double>(chunk.count) / layer_size.count); }
};
load load_of(double ratio, double longer) {
    return ratio < 1 ? load{longer * ratio, longer} : load{longer, longer / ratio};
}

struct machine {
    explicit machine(const load& l, const std::vector<std::byte>& bytes)
        : gpu({.capacity = layer_size * 4,
               .bandwidth = {layer_size.count / l.copy * 1e3},
               .launch = {l.compute * 1e-3}}),
          weights(bytes) {
        std::vector<tern::scheduled_use> uses;
        for (std::size_t i = 0; i < layers; ++i) {
            const std::byte* const from = weights.data() + i * layer_size.count;
            const tern::slice_id id = store.add("blk." + std::to_string(i), {.memory = from}, layer_size);
            store.assign(id, gpu);
            uses.push_back({id, &gpu, &weights_ahead::move, weights_ahead::ahead});
        }
        store.bound(gpu, layer_size * 3);
        order.follow(uses);
    }

    tern::run_loop loop;
    tern::real_clock time;
    tern::heap_arena staging;
    tern::emulated_device gpu;
    tern::loop_thread transfers;
    const std::vector<std::byte>& weights;
    tern::residency_store store{loop, staging, {.transfers = &transfers.loop(), .time = &time}};
    tern::scheduler order{store};
};

/// Milliseconds a layer in one pass; with `check` it compares the bytes as well.
tern::task<double> pass(machine& m, bool check) {
    const double begin = m.time.now().count;
    std::size_t wrong = 0;
    for (tern::slice_id id = 0; id < layers; ++id) {
        tern::lease held = m.store.try_borrow(id, m.gpu);
        if (!held) held = co_await m.store.borrow(id, m.gpu, &weights_ahead::move);
        const std::byte* const here = held.data();
        const std::byte* const expected = check ? m.weights.data() + id * layer_size.count : here;
        co_await tern::launch(m.gpu, m.loop, 1, 1, [&wrong, here, expected](std::size_t, std::size_t) {
            wrong += here != expected && std::memcmp(here, expected, layer_size.count) != 0;
        });
    }
    if (wrong != 0) throw tern::error("the weights on the accelerator are not those in memory");
    co_return (m.time.now().count - begin) * 1e3 / layers;
}

double median(std::vector<double> of) {
    std::sort(of.begin(), of.end());
    return of[of.size() / 2];
}

std::vector<std::byte> random_bytes() {
    std::vector<std::byte> data(layers * layer_size.count);
    std::uint64_t random = 1;
    for (std::byte& b : data) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        b = static_cast<std::byte>(random >> 56);
    }
    return data;
}

void run_program(const options& args) {
    if (!args.plain().empty()) throw usage_error{help};
    const auto repeat = static_cast<std::size_t>(args.whole("repeat", 3));
    const auto longer = static_cast<double>(args.whole("longer", 16));
    if (repeat == 0 || longer == 0) throw usage_error{help};
    const std::vector<std::byte> data = random_bytes();
    std::array<std::vector<double>, ratios.size()> times;
    for (std::size_t n = 0; n < repeat; ++n)
        for (std::size_t r = 0; r < ratios.size(); ++r) {
            machine m(load_of(ratios[r], longer), data);
            static_cast<void>(m.loop.run(pass(m, true))); // the first pass fills the pipe, and is checked
            times[r].push_back(m.loop.run(pass(m, false)));
        }
    std::cout << "copy/operator  copy ms  operator ms  layer ms  of the longer\n" << std::fixed;
    double largest = 0;
    bool within = true;
    for (std::size_t r = 0; r < ratios.size(); ++r) {
        const load l = load_of(ratios[r], longer);
        const double took = median(times[r]);
        const bool good = took <= 1.1 * l.longer() + l.copy_of_chunk();
        largest = std::max(largest, took / l.longer());
        within = within && good;
        std::cout << std::setprecision(2) << std::setw(13) << ratios[r] << std::setw(9) << l.copy << std::setw(13)
                  << l.compute << std::setw(10) << took << std::setprecision(3) << std::setw(15) << took / l.longer()
                  << (good ? "" : "  too long") << "\n";
    }
    std::cout << "largest " << largest << " of the longer, " << (within ? "all" : "not all")
              << " within 10% and one chunk's copy\n";
}

} // namespace

int main(int argc, char** argv) {
    try {
        run_program(options(argc, argv, {"repeat", "longer"}, {}));
    } catch (const usage_error& e) {
        std::cerr << e.help;
        return 1;
    } catch (const std::exception& e) {
        std::cerr << "overlap: " << e.what() << "\n";
        return 1;
    }
}
