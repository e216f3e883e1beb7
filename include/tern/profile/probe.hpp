// probe: what this machine is and how fast it is, measured: memories, processors, links, disk.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/async/run_loop.hpp>
#include <tern/async/when_all.hpp>
#include <tern/cost/cost_model.hpp>
#include <tern/cost/machine.hpp>
#include <tern/device/device.hpp>
#include <tern/device/emulated.hpp>
#include <tern/format/plain.hpp>
#include <tern/kernel/cpu/ceilings.hpp>
#include <tern/kernel/linear.hpp>
#include <tern/memory/arena.hpp>
#include <tern/memory/disk_reader.hpp>
#include <tern/memory/file_handle.hpp>
#include <tern/profile/timing.hpp>

namespace tern {

namespace detail {

/// What the system calls the processor; "cpu" where it does not say.
inline std::string cpu_model(const std::string& file = "/proc/cpuinfo") {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
        const std::size_t colon = line.find(": ");
        if (line.compare(0, 10, "model name") == 0 && colon != line.npos) return line.substr(colon + 2);
    }
    return "cpu";
}

/// A number in a name: short, and the same every time.
inline std::string short_number(double n) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", n);
    return text;
}

/// What an accelerator is called: for an emulated one, with what it is told to be, for another would be another
/// machine.
inline std::string device_model(const device& d) {
    std::string name(d.name());
    const auto* const e = dynamic_cast<const emulated_device*>(&d);
    if (e == nullptr) return name;
    const emulated_options& o = e->options();
    return name + " (link " + short_number(o.bandwidth.count) + " B/s, " + short_number(o.latency.count) +
           " s; operators " + short_number(o.launch.count) + " s, " + short_number(o.memory.count) + " B/s, " +
           short_number(o.operations) + "/s, x" + short_number(o.slowdown) + ")";
}

} // namespace detail

/// This machine without any figures: memories as `budgets` has them, a processor for each kind of device, links between
/// them. Devices: the host's first. Its fingerprint holds the processor's model, the workers and the kernel path, and
/// what an emulated accelerator is told to be.
///
///     tern::machine here = tern::describe_machine(run.devices(), run.machine());
template <class = void> machine describe_machine(std::span<device* const> devices, const machine& budgets) {
    machine m = budgets;
    m.processors.clear();
    m.links.clear();
    if (devices.empty()) throw config_error("a machine has at least one device");
    device& host = *devices.front();
    const location ram = host.memory().where();
    processor cpu{.name = detail::cpu_model() + ", " + std::to_string(host.workers()) + " workers, " +
                          kernel::slot<kernel::linear, f32>.get().path,
                  .reads = {ram}};
    for (memory_space& s : m.memories) {
        if (s.where.tier == tier_of<direct>) s.bus = "disk";
        if (s.where.tier.reached_by != reach::host || s.where.tier == tier_of<direct>) continue;
        s.bus = "dram";
        if (s.where != ram) cpu.reads.push_back(s.where);
    }
    m.name = cpu.name;
    m.processors.push_back(cpu);
    for (device* d : devices) {
        const location there = d->memory().where();
        if (there.tier.reached_by == reach::host) continue;
        m.processors.push_back({.name = detail::device_model(*d),
                                .kind = processor_kind::accelerator,
                                .device = there.device,
                                .reads = {there}});
        const std::string bus(d->name());
        for (const location& from : cpu.reads) m.links.push_back({from, there, {}, {}, bus + " in"});
        m.links.push_back({there, ram, {}, {}, bus + " out"});
    }
    for (const location& to : cpu.reads)
        if (m.memory_at({tier_of<direct>, 0, 0}) != nullptr && to.tier != tier_of<mapped>)
            m.links.push_back({{tier_of<direct>, 0, 0}, to, {}, {}, "disk"});
    return m;
}

/// How long, and what of.
struct probe_options {
    seconds each{0.1};           ///< for each thing
    bytes memory{64 << 20};      ///< that is read, more than caches hold
    bytes copy{4 << 20};         ///< over a link at once
    disk_reader* disk = nullptr; ///< with `file`: the bandwidth of the disk
    byte_source* file = nullptr;
};

/// A link while something else is under way.
struct busy_link {
    tern::route way{};
    std::string beside{}; ///< "the other direction", "reads of memory", "the disk"
    bytes_per_second bandwidth{};
};

/// What was measured.
struct probed {
    machine here{};
    bytes_per_second one_worker{}; ///< at which a single worker reads RAM; the memory has that of all
    std::vector<busy_link> busy{};
};

namespace detail {

template <class = void> class prober {
public:
    prober(run_loop& home, std::span<device* const> devices, const machine& budgets, const probe_options& how)
        : home_(home), devices_(devices), how_(how), host_(*devices.front()),
          data_(std::max<std::uint64_t>(how.memory.count, how.copy.count) / 4096 * 4096, std::byte{1}) {
        if (data_.size() < 1 << 20) throw config_error("memory is measured over at least a mebibyte");
        result_.here = describe_machine(devices, budgets);
    }

    probed probe() {
        for (processor& p : result_.here.processors) compute(p);
        for (memory_space& s : result_.here.memories) {
            const processor* const p = result_.here.processor_at(s.where);
            if (p == &result_.here.processors.front()) s.bandwidth = {reads(host_, host_.workers())};
            if (s.where.tier.reached_by != reach::host) s.bandwidth = {reads(*at(s.where), 1)};
        }
        result_.one_worker = {reads(host_, 1)};
        for (device* d : devices_)
            if (d->memory().where().tier.reached_by != reach::host) links(*d);
        disk();
        return std::move(result_);
    }

private:
    struct counted_call {
        prober* self;
        double operations, size;
        std::size_t pieces;
        void (*work)(prober&, std::size_t piece, std::size_t pieces);
        void operator()(std::size_t begin, std::size_t end) const {
            for (std::size_t i = begin; i < end; ++i) work(*self, i, pieces);
        }
        call_work describe() const { return {.op = "probe", .operations = operations, .weight_bytes = size}; }
    };
    static constexpr std::size_t stretch = 4 << 20; // that is read at once, in turn through all of the memory

    device* at(const location& where) const {
        for (device* d : devices_)
            if (d->memory().where() == where) return d;
        throw config_error("no device has memory in " + to_string(where));
    }

    /// The seconds of one launch on a device; awaited, so that a switch to it is in it.
    task<seconds> launched(device& on, counted_call c) {
        const seconds begin = clock_now();
        co_await launch(on, home_, c.pieces, 1, c);
        co_return clock_now() - begin;
    }
    double median(device& on, const counted_call& c) {
        std::vector<seconds> times;
        const auto once = [&] { return launched(on, c); };
        home_.run(repeat(once, {.least = 5, .most = 10'000, .each = how_.each}, times));
        return median_of(std::move(times)).count;
    }

    void compute(processor& p) {
        device& on = *at(p.reads.front());
        const double launch = median(on, {this, 0, 0, 1, [](prober&, std::size_t, std::size_t) {}});
        const std::size_t workers = on.workers();
        const double each = static_cast<double>(kernel::cpu::run_float_operations(rounds));
        p.launch = {launch};
        p.sync = {}; // whoever awaits a launch or a copy has waited already
        if (each == 0) return;
        const double floats =
            median(on, {this, each * double(workers), 0, workers, [](prober& self, std::size_t, std::size_t) {
                            self.seen_ += kernel::cpu::run_float_operations(rounds);
                        }});
        const double bytes =
            median(on, {this, 4 * each * double(workers), 0, workers, [](prober& self, std::size_t, std::size_t) {
                            self.seen_ += kernel::cpu::run_byte_operations(rounds);
                        }});
        p.rates.f32 = each * double(workers) / std::max(floats - launch, 1e-9);
        p.rates.f16 = p.rates.f32; // floats of 16 bits are widened
        p.rates.int8 = 4 * each * double(workers) / std::max(bytes - launch, 1e-9);
    }

    double reads(device& on, std::size_t workers) {
        const std::size_t size = std::min(stretch, data_.size());
        const double t = median(on, {this, 0, double(size), workers, [](prober& self, std::size_t i, std::size_t n) {
                                         const std::size_t size = std::min(stretch, self.data_.size());
                                         const std::size_t share = size / n / 4096 * 4096;
                                         if (i == 0) self.turn_ += size;
                                         const std::size_t from = self.turn_ % (self.data_.size() - size + 1);
                                         self.seen_ +=
                                             kernel::cpu::read_all(self.data_.data() + from / 64 * 64 + i * share,
                                                                   share, kernel::cpu::read_way::prefetched);
                                     }});
        return double(size) / t;
    }

    task<seconds> copied(device& with, direction way, std::byte* there, std::size_t size) {
        const seconds begin = clock_now();
        if (way == direction::to_device)
            co_await copy(with, home_, way, there, data_.data(), {size});
        else
            co_await copy(with, home_, way, data_.data() + (way == direction::to_host ? back_ : 0), there, {size});
        co_return clock_now() - begin;
    }
    double median_copy(device& with, direction way, std::byte* there, std::size_t size) {
        std::vector<seconds> times;
        const auto once = [&] { return copied(with, way, there, size); };
        home_.run(repeat(once, {.least = 3, .most = 1000, .each = how_.each}, times));
        return median_of(std::move(times)).count;
    }

    /// Each direction alone, then beside the other, beside reads of memory, and beside the disk.
    void links(device& d) {
        const budget& room = d.memory().budget();
        std::uint64_t size = std::min<std::uint64_t>(how_.copy.count, data_.size() / 2);
        if (room.limit() != unlimited) size = std::min(size, (room.limit() - room.used()).count / 4);
        if (size < 4096) return;
        const allocation in = d.memory().allocate({size}, "a copy that is timed");
        const allocation out = d.memory().allocate({size}, "a copy that is timed");
        back_ = data_.size() / 2;
        for (const direction way : {direction::to_device, direction::to_host}) {
            const double latency = median_copy(d, way, in.data(), 1);
            const double t = std::max(median_copy(d, way, in.data(), size) - latency, 1e-9);
            for (link& l : result_.here.links) {
                const location& end = way == direction::to_device ? l.to : l.from;
                if (end != d.memory().where()) continue;
                l.bandwidth = bytes_per_second{double(size) / t};
                l.latency = seconds{latency};
            }
            beside(d, way, in.data(), out.data(), size, latency);
        }
    }
    void beside(device& d, direction way, std::byte* there, std::byte* other, std::size_t size, double latency) {
        const location mine = d.memory().where(), ram = host_.memory().where();
        const tern::route named = way == direction::to_device ? tern::route{ram, mine} : tern::route{mine, ram};
        const auto note = [&](std::string what, seconds took) {
            result_.busy.push_back({named, std::move(what), {double(size) / std::max(took.count - latency, 1e-9)}});
        };
        const direction back = way == direction::to_device ? direction::to_host : direction::to_device;
        std::vector<seconds> times;
        const auto both = [&]() -> task<seconds> { return with_other(d, way, back, there, other, size); };
        home_.run(repeat(both, {.least = 3, .most = 1000, .each = how_.each}, times));
        note("the other direction", median_of(std::exchange(times, {})));
        const auto reading = [&]() -> task<seconds> { return with_reads(d, way, there, size); };
        home_.run(repeat(reading, {.least = 3, .most = 1000, .each = how_.each}, times));
        note("reads of memory", median_of(std::exchange(times, {})));
        if (how_.disk == nullptr || how_.file == nullptr) return;
        const auto with_file = [&]() -> task<seconds> { return with_disk(d, way, there, size); };
        home_.run(repeat(with_file, {.least = 3, .most = 100, .each = how_.each}, times));
        note("the disk", median_of(std::move(times)));
    }
    task<seconds> with_other(device& d, direction way, direction back, std::byte* there, std::byte* other,
                             std::size_t size) {
        const auto [a, b] = co_await when_all(copied(d, way, there, size), copied(d, back, other, size));
        static_cast<void>(b);
        co_return a;
    }
    /// The copy's own time, while this thread reads memory until it is done.
    task<seconds> with_reads(device& d, direction way, std::byte* there, std::size_t size) {
        bool done = false;
        const auto [a, b] = co_await when_all(finish(d, way, there, size, done), read_until(done));
        static_cast<void>(b);
        co_return a;
    }
    task<seconds> finish(device& d, direction way, std::byte* there, std::size_t size, bool& done) {
        const seconds t = co_await copied(d, way, there, size);
        done = true;
        co_return t;
    }
    task<int> read_until(const bool& done) {
        while (!done) {
            seen_ += kernel::cpu::read_all(data_.data(), std::min<std::size_t>(data_.size(), 256 << 10),
                                           kernel::cpu::read_way::prefetched);
            co_await home_.schedule();
        }
        co_return 0;
    }
    task<seconds> with_disk(device& d, direction way, std::byte* there, std::size_t size) {
        const auto [a, b] = co_await when_all(copied(d, way, there, size), read_file(size));
        static_cast<void>(b);
        co_return a;
    }
    task<seconds> read_file(std::size_t size) {
        const std::uint64_t pages = how_.file->size() / 4096;
        size = std::min<std::size_t>(size, pages * 4096);
        if (buffer_.size() < size + 4096) buffer_.resize(size + 4096);
        const auto base = reinterpret_cast<std::uintptr_t>(buffer_.data());
        std::byte* const into = buffer_.data() + (4096 - base % 4096) % 4096;
        if (offset_ + size > pages * 4096) offset_ = 0;
        const std::uint64_t from = std::exchange(offset_, offset_ + size);
        const seconds begin = clock_now();
        co_await read(*how_.disk, home_, {.from = how_.file, .offset = from, .into = into, .size = size});
        co_return clock_now() - begin;
    }
    void disk() {
        if (how_.disk == nullptr || how_.file == nullptr || how_.file->size() < 4096) return;
        const std::size_t size = std::min<std::uint64_t>(how_.copy.count, how_.file->size()) / 4096 * 4096;
        const auto timed = [&](std::size_t n) {
            std::vector<seconds> times;
            const auto once = [&] { return read_file(n); };
            home_.run(repeat(once, {.least = 3, .most = 100, .each = how_.each}, times));
            return median_of(std::move(times)).count;
        };
        const double latency = timed(4096);
        const double whole = std::max(timed(size) - latency, 1e-9);
        for (link& l : result_.here.links)
            if (l.from.tier == tier_of<direct>) {
                l.latency = seconds{latency};
                l.bandwidth = bytes_per_second{double(size) / whole};
            }
        for (memory_space& s : result_.here.memories)
            if (s.where.tier == tier_of<direct>) s.bandwidth = bytes_per_second{double(size) / whole};
    }

    static constexpr std::size_t rounds = 1 << 14;

    run_loop& home_;
    std::span<device* const> devices_;
    const probe_options& how_;
    device& host_;
    std::vector<std::byte> data_;
    std::vector<std::byte> buffer_{};
    std::size_t back_ = 0;
    std::uint64_t offset_ = 0;
    std::atomic<std::uint64_t> turn_{0};
    std::atomic<std::uint64_t> seen_{0}; // so that reads are not left out
    probed result_{};
};

} // namespace detail

/// Measures this machine with the devices of a run, the host's first, and the memories and budgets of `budgets`: the
/// bandwidth at which processors read their memory (the host's with one worker and with all), their arithmetic, what a
/// launch takes, and each link's bandwidth and latency: alone, beside the other direction, beside reads of memory and,
/// where a file and a reader are given, beside the disk, whose bandwidth is measured too. A fraction of a second for
/// each. Devices must run the host's kernels. Throws config_error where no device is given.
///
///     const tern::probed p = tern::probe(run.loop(), run.devices(), run.machine());
///     tern::write_text_file("machine.json", tern::to_json(p.here));
template <class = void>
probed probe(run_loop& home, std::span<device* const> devices, const machine& budgets, const probe_options& how = {}) {
    if (devices.empty()) throw config_error("a machine has at least one device");
    return detail::prober<>(home, devices, budgets, how).probe();
}

} // namespace tern
