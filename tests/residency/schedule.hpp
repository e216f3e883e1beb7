// What random schedules run on: a store in virtual time over devices, files and disks that fail at random.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "support/counting_source.hpp"
#include <tern/async/run_loop.hpp>
#include <tern/async/scope.hpp>
#include <tern/async/virtual_clock.hpp>
#include <tern/device/cpu.hpp>
#include <tern/device/virtual_device.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/memory/region_arena.hpp>
#include <tern/residency/scheduler.hpp>
#include <tern/residency/store.hpp>

namespace tern::test {

/// SplitMix64: the same on every machine.
struct randomness {
    std::uint64_t state;

    std::uint64_t next() {
        std::uint64_t z = state += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    std::uint64_t below(std::uint64_t n) { return next() % n; }
};

/// A virtual device of whose copies some fail.
class shaky_device final : public device {
public:
    shaky_device(const emulated_options& options, clock& time, randomness& random)
        : inner_(options, time), random_(random) {}

    std::string_view name() const noexcept override { return inner_.name(); }
    kernel_kind kernels() const noexcept override { return inner_.kernels(); }
    arena& memory() noexcept override { return inner_.memory(); }
    bool start(device_call& call) override { return inner_.start(call); }
    bool start(copy_call& call, direction way) override {
        ++copies;
        if (fails_one_in != 0 && random_.below(fails_one_in) == 0)
            call.error = std::make_exception_ptr(io_error("the link is broken"));
        return inner_.start(call, way);
    }

    std::uint64_t fails_one_in = 0; ///< 0: none
    int copies = 0;

private:
    virtual_device inner_;
    randomness& random_;
};

/// A disk in virtual time.
class virtual_disk final : public disk_reader {
public:
    explicit virtual_disk(clock& time) : service_(time, {}) {}

    std::string_view name() const noexcept override { return "virtual"; }
    bool start(read_call& call) override {
        service_.submit(call);
        return false;
    }
    std::size_t alignment() const noexcept override { return 1; }
    read_counters counters() const override { return {}; }
    std::string status() const override { return "in virtual time"; }
    void forget(byte_source&) noexcept override {}

private:
    struct server {
        seconds cost(const read_call& call) const { return {1e-4 + static_cast<double>(call.size) * 5e-7}; }
        void operator()(read_call& call) const { read_exact(*call.from, call.offset, {call.into, call.size}); }
    };
    detail::virtual_service<read_call, server> service_;
};

inline constexpr std::size_t slice_bytes = 1000; // in an arena: 1024
inline constexpr std::size_t calm_actors = 2;
inline constexpr std::size_t calm_holds = 2;

/// One in three is calm: nothing fails, and there is room for what is leased or in demand at once, so that no call may
/// fail. In the others anything may.
struct world {
    explicit world(std::uint64_t seed)
        : random{seed}, rough(seed % 3 != 0), slices(4 + random.below(9)),
          room(rough ? 1 + random.below(slices) : calm),
          ram(rough && random.below(2) == 0 ? bytes{(1 + random.below(slices)) * slice_bytes} : unlimited),
          staging({}, {staging_size()}),
          gpu({.capacity = {1024 * (room + (rough ? random.below(3) : 0))}, .bandwidth = {1e6}, .latency = {1e-4}},
              time, random),
          store(home, staging, {.disk = random.below(2) == 0 ? &disk : nullptr, .time = &time}) {
        add_slices();
        set_limits();
        if (!rough) return;
        file.context = this;
        file.on_read = [](counting_source& f, std::uint64_t) {
            world& w = *static_cast<world*>(f.context);
            if (w.file_fails_one_in != 0 && w.random.below(w.file_fails_one_in) == 0)
                throw io_error("the disk is broken", {.path = f.path()});
        };
        constexpr std::uint64_t rates[] = {0, 0, 100, 10};
        file_fails_one_in = rates[random.below(4)];
        gpu.fails_one_in = rates[random.below(4)];
    }

    // What actors lease or want at once.
    static constexpr std::size_t calm = calm_actors * calm_holds;

    std::uint64_t staging_size() {
        constexpr std::uint64_t sizes[] = {1024, 1 << 20, 4096, 128};
        return sizes[random.below(rough ? 4 : 2)]; // 1024: of one transfer alone
    }
    void add_slices() {
        const std::size_t in_file = random.below(slices + 1);
        for (std::size_t i = 0; i < slices; ++i) {
            backing from{};
            if (i < in_file)
                from = {.file = &file, .offset = i * slice_bytes};
            else
                from = {.memory = file.data.data() + i * slice_bytes};
            const slice_id id = store.add("slice " + std::to_string(i), from, {slice_bytes});
            if (random.below(2) == 0)
                store.assign(id, device(random.below(2)), random.below(2) == 0 ? retention::drop : retention::cache);
        }
    }
    void set_limits() {
        limits = {unlimited, {rough && random.below(4) == 0 ? unlimited.count : room * slice_bytes}};
        if (rough && random.below(2) == 0) limits[0] = {(1 + random.below(slices)) * slice_bytes};
        for (std::size_t on = 0; on < 2; ++on) store.bound(device(on), limits[on]);
    }

    tern::device& device(std::size_t on) { return on == 0 ? static_cast<tern::device&>(cpu) : gpu; }
    copy_state state(slice_id id, std::size_t on) { return store.state(id, device(on).memory().where()); }
    bool in_use(slice_id id, std::size_t on) {
        const copy_state s = state(id, on);
        return s == copy_state::leased || s == copy_state::leaving;
    }
    const std::byte* bytes_of(slice_id id) const { return file.data.data() + id * slice_bytes; }
    bool is_copy(slice_id id, const std::byte* at) const { return at != bytes_of(id); }
    bool right(slice_id id, const std::byte* at) const { return std::memcmp(at, bytes_of(id), slice_bytes) == 0; }

    void require(bool holds, const std::string& what) {
        if (!holds && wrong.empty()) wrong = what + " (at " + std::to_string(time.now().count) + " s)";
    }
    void inspect() {
        for (std::size_t on = 0; on < 2; ++on)
            require(store.cached(device(on)) <= limits[on], "cached copies take more than their limit");
        for (slice_id id = 0; id < slices; ++id) {
            for (std::size_t on = 0; on < 2; ++on)
                require(held[id][on] == 0 || in_use(id, on), "a copy went away under a lease");
            const std::vector<location> found = store.where(id);
            for (std::size_t i = 0; i < found.size(); ++i)
                for (std::size_t j = 0; j < i; ++j)
                    require(!(found[i] == found[j]), "there are two copies in one place");
        }
    }

    randomness random;
    bool rough;
    std::size_t slices;
    std::size_t room; // of the accelerator, in slices
    virtual_clock time;
    run_loop home{time};
    heap_arena ram;
    region_arena staging;
    cpu_device cpu{ram, 1};
    shaky_device gpu;
    virtual_disk disk{time};
    counting_source file{12 * slice_bytes};
    residency_store store;
    scheduler order{store};
    scope side;
    std::array<bytes, 2> limits{};
    std::array<std::array<int, 2>, 12> held{}; // leases of the actors on copies, by slice and device
    std::uint64_t file_fails_one_in = 0;
    std::uint64_t failures = 0; // calls that failed
    std::string wrong;          // the first thing that was
};

} // namespace tern::test
