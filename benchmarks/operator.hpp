// The operator bench: times kernels of one operator in every format, beside what the machine can do at most. A kernel
// of one's own takes part by registration:
//
//     #include "operator.hpp"
//
//     void mine(const tern::kernel::linear::args& a, std::size_t begin, std::size_t end);      // rows begin .. end - 1
//
//     int main(int argc, char** argv) {
//         operator_bench::registry all = operator_bench::known_kernels();
//         all.add<tern::q4_k>("mine", &mine);
//         return operator_bench::run(all, argc, argv);
//     }
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <tern/device/worker_team.hpp>
#include <tern/format/formats.hpp>
#include <tern/kernel/cpu/ceilings.hpp>
#include <tern/kernel/linear.hpp>
#include <tern/kernel/linear_q8.hpp>

#include "../examples/options.hpp"

namespace operator_bench {

/// Numbers from a seed, the same on every machine.
class random_numbers {
public:
    std::uint32_t bits() {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<std::uint32_t>(state_ >> 33);
    }
    float operator()() { return static_cast<float>(bits()) * 0x1p-30f - 1; }

private:
    std::uint64_t state_ = 1;
};

/// One format as the bench sees it.
struct format_entry {
    std::string_view name;
    std::size_t block_size;
    std::size_t block_bytes;
    void (*encode)(const float* in, std::byte* block);
    void (*decode)(const std::byte* block, float* out);
};

/// One kernel: for activations in f32, or for those in 8 bits with what quantizes them.
struct contender {
    format_entry format;
    std::string path;
    tern::kernel::host_kernel<tern::kernel::linear> plain = nullptr;
    tern::kernel::host_kernel<tern::kernel::linear_q8> integer = nullptr;
    tern::kernel::host_kernel<tern::kernel::quantize_q8> quantize = nullptr;

    std::string_view activations() const { return integer != nullptr ? "q8" : "f32"; }
};

class registry {
public:
    template <tern::format F> void add(std::string path, tern::kernel::host_kernel<tern::kernel::linear> run) {
        entries_.push_back({entry_of<F>(), std::move(path), run, nullptr, nullptr});
    }
    template <tern::format F>
    void add(std::string path, tern::kernel::host_kernel<tern::kernel::linear_q8> run,
             tern::kernel::host_kernel<tern::kernel::quantize_q8> quantize) {
        entries_.push_back({entry_of<F>(), std::move(path), nullptr, run, quantize});
    }
    const std::vector<contender>& entries() const { return entries_; }

private:
    template <tern::format F> static format_entry entry_of() {
        static_assert(tern::format_encodable<F>);
        return {F::name, F::block_size, sizeof(typename F::block),
                [](const float* in, std::byte* block) { F::encode(in, *reinterpret_cast<typename F::block*>(block)); },
                [](const std::byte* block, float* out) {
                    F::decode(*reinterpret_cast<const typename F::block*>(block), out);
                }};
    }
    std::vector<contender> entries_;
};

/// The references and what the kernel table holds: link tern::cpu_kernels, or include tern/cpu.hpp.
inline registry known_kernels() {
    using namespace tern::kernel;
    registry all;
    tern::all_formats::for_each([&]<class F>(std::type_identity<F>) {
        all.add<F>("reference", &linear::reference<F>);
        if constexpr (has_integer_form<F>) all.add<F>("reference", &linear_q8::reference<F>, &quantize_q8::reference<>);
        if (slot<linear, F>.get().run == &linear::reference<F>) return;
        all.add<F>(slot<linear, F>.get().path, slot<linear, F>.get().run);
        if constexpr (has_integer_form<F>)
            all.add<F>(slot<linear_q8, F>.get().path, slot<linear_q8, F>.get().run, slot<quantize_q8>.get().run);
    });
    return all;
}

/// Seconds by the clock, or of processor time that this thread has used.
inline double now(bool processor = false) {
    if (processor) {
        timespec t{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// How long each thing is measured, and by which clock: processor time leaves out what others took of the machine, and
/// tells of one thread alone.
struct measuring {
    double seconds = 0.3;
    bool processor = false;
};

/// The shortest and the median of at least five calls, and of as many as take `seconds`.
struct timing {
    double best = 0;
    double median = 0;

    template <class Fn> static timing of(const measuring& how, Fn fn) {
        std::vector<double> times;
        for (const double begin = now(); times.size() < 5 || now() - begin < how.seconds;) {
            const double t = now(how.processor);
            fn();
            times.push_back(now(how.processor) - t);
            if (times.size() >= 2 && now() - begin > 10 * how.seconds) break; // the references are slow
        }
        std::sort(times.begin(), times.end());
        return {times.front(), times[times.size() / 2]};
    }
};

/// The most that a team can do: bytes read from memory, operations of floats and of bytes, each a second.
struct ceilings {
    double read = 0;
    double floats = 0;
    double bytes = 0;

    void measure(tern::worker_team& team, const std::vector<std::byte>& memory, const measuring& how) {
        using namespace tern::kernel::cpu;
        // Short pieces, one after another through all of the memory: among many some are not disturbed.
        const std::size_t share = (4 << 20) / team.workers() / 4096 * 4096, pieces = memory.size() / (4 << 20);
        std::size_t piece = 0;
        std::atomic<std::uint64_t> sum{0};
        for (const read_way way : {read_way::plain, read_way::prefetched, read_way::four_streams}) {
            const timing t = timing::of(how, [&] {
                const std::byte* const from = memory.data() + (piece++ % pieces) * (4 << 20);
                team.run(team.workers(), 1, [&](std::size_t begin, std::size_t end) {
                    for (std::size_t i = begin; i < end; ++i) sum += read_all(from + i * share, share, way);
                });
            });
            read = std::max(read, static_cast<double>(share * team.workers()) / t.best);
        }
        std::atomic<std::uint64_t> done{0};
        const auto rate = [&](auto run) {
            const timing t = timing::of(how, [&] {
                done = 0;
                team.run(team.workers(), 1, [&](std::size_t begin, std::size_t end) {
                    for (std::size_t i = begin; i < end; ++i) done += run(1 << 16);
                });
            });
            return static_cast<double>(done) / t.best;
        };
        floats = std::max(floats, rate(&run_float_operations));
        bytes = std::max(bytes, rate(&run_byte_operations));
    }
};

/// Weights, activations and results of one shape.
struct problem {
    std::size_t rows, cols, tokens;
    std::vector<std::byte> weights; // several matrices after each other, so that they come from memory
    std::size_t matrix_bytes;
    std::size_t matrices;
    std::vector<float> x;
    std::vector<float> y;
    std::vector<tern::kernel::q8_block> codes;

    problem(const format_entry& f, std::size_t rows, std::size_t cols, std::size_t tokens, std::size_t at_least)
        : rows(rows), cols(cols), tokens(tokens), matrix_bytes(rows * (cols / f.block_size) * f.block_bytes),
          matrices(std::max<std::size_t>(1, at_least / matrix_bytes)), x(tokens * cols), y(tokens * rows),
          codes(tokens * tern::kernel::q8_blocks(cols)) {
        random_numbers random;
        // Encoding is slow: blocks are drawn from a few hundred.
        std::vector<std::byte> pool(std::max<std::size_t>(256, 4096 / f.block_size) * f.block_bytes);
        std::vector<float> values(f.block_size);
        for (std::size_t b = 0; b < pool.size(); b += f.block_bytes) {
            for (float& v : values) v = random();
            f.encode(values.data(), pool.data() + b);
        }
        weights.resize(matrix_bytes * matrices);
        for (std::size_t b = 0; b < weights.size(); b += f.block_bytes)
            std::memcpy(weights.data() + b, pool.data() + random.bits() % (pool.size() / f.block_bytes) * f.block_bytes,
                        f.block_bytes);
        for (float& v : x) v = random();
    }

    /// Rows that a worker takes at a time, as operators have it: four shares each, and no less than is worth waking
    /// for.
    std::size_t grain(std::size_t workers) const {
        const std::size_t share = (rows + 4 * workers - 1) / (4 * workers);
        const std::size_t worth = 32768 / (std::max<std::size_t>(matrix_bytes / rows, 1) * tokens) + 1;
        return (std::max({share, worth, std::size_t{tokens > 32 ? 64u : 1u}}) + 15) / 16 * 16;
    }

    void compute(const contender& c, tern::worker_team& team, std::size_t matrix) {
        const std::byte* w = weights.data() + matrix * matrix_bytes;
        if (c.integer != nullptr) {
            const tern::kernel::quantize_q8::args q{x.data(), cols, cols, tokens, codes.data()};
            team.run(tokens, 8, [&](std::size_t begin, std::size_t end) { c.quantize(q, begin, end); });
            const tern::kernel::linear_q8::args a{w, rows, cols, codes.data(), tokens, y.data(), rows, nullptr};
            team.run(rows, grain(team.workers()),
                     [&](std::size_t begin, std::size_t end) { c.integer(a, begin, end); });
        } else {
            const tern::kernel::linear::args a{w, rows, cols, x.data(), cols, tokens, y.data(), rows, nullptr};
            team.run(rows, grain(team.workers()), [&](std::size_t begin, std::size_t end) { c.plain(a, begin, end); });
        }
    }
};

/// How far the results of a kernel are from products in double precision: against what the kernel is given (activations
/// in f32, or those that were rounded to 8 bits), as a share of the sum of the sizes, the worst; against activations in
/// f32, relative, over all.
struct errors {
    double of_kernel = 0;
    double of_all = 0;

    static errors of(const contender& c, const problem& p) {
        errors e;
        double wrong = 0, norm = 0;
        std::vector<float> row(p.cols);
        for (std::size_t r = 0; r < p.rows; r += std::max<std::size_t>(1, p.rows / 61)) {
            const std::size_t blocks = p.cols / c.format.block_size;
            for (std::size_t b = 0; b < blocks; ++b)
                c.format.decode(p.weights.data() + (r * blocks + b) * c.format.block_bytes,
                                row.data() + b * c.format.block_size);
            for (std::size_t t = 0; t < p.tokens; t += std::max<std::size_t>(1, p.tokens / 7)) {
                double exact = 0, given = 0, size = 0;
                for (std::size_t i = 0; i < p.cols; ++i) {
                    const double w = static_cast<double>(row[i]), x = static_cast<double>(p.x[t * p.cols + i]);
                    const tern::kernel::q8_block& q = p.codes[t * tern::kernel::q8_blocks(p.cols) + i / 256];
                    const double rounded = static_cast<double>(q.scale[i % 256 / 32]) * q.codes[i % 256];
                    const double taken = c.integer != nullptr ? rounded : x;
                    exact += w * x;
                    given += w * taken;
                    size += std::fabs(w * taken);
                }
                const double y = static_cast<double>(p.y[t * p.rows + r]);
                e.of_kernel = std::max(e.of_kernel, std::fabs(y - given) / std::max(size, 1e-300));
                wrong += (y - exact) * (y - exact);
                norm += exact * exact;
            }
        }
        e.of_all = std::sqrt(wrong / norm);
        return e;
    }
};

/// Words between commas.
inline std::vector<std::string> words_of(const std::string& text) {
    std::vector<std::string> words(1);
    for (const char c : text)
        if (c == ',')
            words.emplace_back();
        else
            words.back() += c;
    return words;
}

inline bool listed(const std::vector<std::string>& words, std::string_view word) {
    for (const std::string& w : words)
        if (w == word || w == "all") return true;
    return false;
}

inline std::vector<std::size_t> numbers_of(const options& args, const char* name, const char* otherwise) {
    std::vector<std::size_t> numbers;
    for (const std::string& w : words_of(args.text(name, otherwise)))
        numbers.push_back(options::whole_number(std::string("--") + name, w));
    return numbers;
}

constexpr const char* help = R"(operator: times the kernels of an operator, after a check against double precision.

usage: bench_operator [options]
  --op linear              the operator (linear)
  --format q4_k,q6_k|all   formats of the weights (q4_k)
  --rows N, --cols N       of the weights (4096 each)
  --tokens 1,8,512         tokens at once (1)
  --threads 1,2            workers (1)
  --path all               reference, avx2, ... or all (avx2)
  --activations f32,q8     how activations enter (f32,q8)
  --seconds X              for each measurement (0.3)
  --clock wall|processor   processor: time that the thread ran, on a machine that others use; one thread only (wall)
  --memory SIZE            read by weights of few tokens before the first comes again (256MiB)

Each line: milliseconds (best, median), GB/s of weights, Gop/s, their shares of what this machine reads and computes at
most (best of several ways, measured before and after; floats for f32, bytes for q8), the largest error against double
precision with the same activations as a share of the sum of sizes, and the relative error against activations in f32.
)";

inline void run_case(const contender& c, problem& p, tern::worker_team& team, const ceilings& most,
                     const measuring& how) {
    p.compute(c, team, 0);
    const errors e = errors::of(c, p);
    if (!(e.of_kernel < 4e-6))
        throw tern::error("the kernel " + c.path + " of " + std::string(c.format.name) +
                          " is wrong: nothing was timed");
    std::size_t next = 0;
    const timing t = timing::of(how, [&] { p.compute(c, team, next++ % p.matrices); });
    const double read = static_cast<double>(p.matrix_bytes) / t.best;
    const double operations = 2.0 * static_cast<double>(p.rows * p.cols * p.tokens) / t.best;
    const double peak = c.integer != nullptr ? most.bytes : most.floats;
    std::printf("%-7s %-3s %-9s %5zu tokens %2zu threads %9.3f %9.3f ms %6.2f GB/s %3.0f%% %7.1f Gop/s %3.0f%%  "
                "%.1e %.1e\n",
                std::string(c.format.name).c_str(), std::string(c.activations()).c_str(), c.path.c_str(), p.tokens,
                team.workers(), 1e3 * t.best, 1e3 * t.median, 1e-9 * read, 100 * read / most.read, 1e-9 * operations,
                peak > 0 ? 100 * operations / peak : 0.0, e.of_kernel, e.of_all);
    std::fflush(stdout);
}

inline void run_all(const registry& all, const options& args) {
    if (args.text("op", "linear") != "linear") throw tern::config_error("--op knows linear");
    const auto formats = words_of(args.text("format", "q4_k")), paths = words_of(args.text("path", "avx2"));
    const auto activations = words_of(args.text("activations", "f32,q8"));
    const std::size_t rows = args.whole("rows", 4096), cols = args.whole("cols", 4096);
    measuring how{static_cast<double>(args.real("seconds", 0.3f)), args.text("clock", "wall") == "processor"};
    if (!how.processor && args.text("clock", "wall") != "wall")
        throw tern::config_error("--clock is wall or processor");
    const std::size_t memory = args.size("memory", {256 << 20}).count;
    const std::vector<std::byte> read_from(256 << 20, std::byte{1});
    for (const std::size_t threads : numbers_of(args, "threads", "1")) {
        tern::worker_team team(threads);
        if (how.processor && threads != 1) throw tern::config_error("--clock processor tells of one thread alone");
        ceilings most;
        const auto show = [&] {
            most.measure(team, read_from, how);
            std::printf("%zu threads: reads %.2f GB/s, floats %.1f Gop/s, bytes %.1f Gop/s\n", threads,
                        1e-9 * most.read, 1e-9 * most.floats, 1e-9 * most.bytes);
        };
        show();
        for (const contender& c : all.entries()) {
            if (!listed(formats, c.format.name) || !listed(paths, c.path) || !listed(activations, c.activations()))
                continue;
            if (rows == 0 || cols == 0 || cols % c.format.block_size != 0) {
                std::printf("%s: %zu columns are no whole blocks\n", std::string(c.format.name).c_str(), cols);
                continue;
            }
            for (const std::size_t tokens : numbers_of(args, "tokens", "1")) {
                problem p(c.format, rows, cols, std::max<std::size_t>(tokens, 1), tokens <= 8 ? memory : 0);
                run_case(c, p, team, most, how);
            }
        }
        show();
    }
}

/// The program.
inline int run(const registry& all, int argc, char** argv) {
    try {
        const options args(
            argc, argv,
            {"op", "format", "rows", "cols", "tokens", "threads", "path", "activations", "seconds", "memory", "clock"},
            {"help"});
        if (args.on("help"))
            std::cout << help;
        else
            run_all(all, args);
        return 0;
    } catch (const std::exception& e) {
        std::cerr << "operator: " << e.what() << "\n";
        return 1;
    }
}

} // namespace operator_bench
