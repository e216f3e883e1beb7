// A disk in virtual time: reads bring nothing and take what a cost model says.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tern/device/virtual_device.hpp>
#include <tern/memory/disk_reader.hpp>
#include <tern/sim/world.hpp>

namespace tern {

/// Reads one stretch after the other. While more wait, their latencies pass beside the transfers before them, as with a
/// queue of the system's. Where the system keeps the file in RAM, a read is a copy by the host's processor.
///
///     tern::sim_disk disk(world, {tern::tier_of<tern::pageable>, 0, 0});
template <class = void> class basic_sim_disk final : public disk_reader {
public:
    /// `to`: the memory that reads go to.
    basic_sim_disk(sim_world& world, const location& to)
        : world_(world), way_{{tier_of<direct>, 0, 0}, to}, reads_{"disk", true}, queue_(world.time, server{this}) {}

    std::string_view name() const noexcept override { return "simulated"; }
    bool start(read_call& call) override {
        if (call.size == 0) return true;
        queue_.submit(call);
        return false;
    }
    std::size_t alignment() const noexcept override { return 1; }
    read_counters counters() const override {
        const bytes n{static_cast<std::uint64_t>(reads_.bytes)};
        return {.asked = n, .read = n, .requests = reads_.calls};
    }
    std::string status() const override { return "files are not read: time passes in their place"; }
    void forget(byte_source&) noexcept override {}

    const sim_track& reading() const noexcept { return reads_; }
    /// Files lie in RAM from now on, where `host` copies them; null: they are read from the disk.
    void kept_in_ram(const processor* host) noexcept { host_ = host; }

private:
    struct server {
        basic_sim_disk* owner;
        seconds cost(const read_call& call) const { return owner->begin(call); }
        void operator()(read_call&) const noexcept { owner->end(); }
    };

    void end() noexcept {
        if (host_ == nullptr) world_.end(way_);
    }
    seconds begin(const read_call& call) {
        const seconds now = world_.time.now();
        if (host_ != nullptr) {
            const seconds t = world_.cost.price(run{
                .op = "copy", .processor = host_->name, .reads = host_->reads.front(), .other = bytes{call.size} * 2});
            world_.note(reads_, "copy", t, static_cast<double>(call.size));
            return t;
        }
        seconds t = world_.begin({way_.from, way_.to, {call.size}, cargo::weights, {}});
        if (reads_.calls != 0 && !(free_at_ < now)) {
            world_.end(way_);
            t = t - world_.begin({way_.from, way_.to, {}, cargo::weights, {}});
        }
        free_at_ = now + t;
        world_.note(reads_, "read", t, static_cast<double>(call.size));
        return t;
    }

    sim_world& world_;
    const route way_;
    const processor* host_ = nullptr;
    sim_track reads_;
    seconds free_at_{};
    detail::virtual_service<read_call, server> queue_;
};

/// (A template underneath, so that a program compiles it only where it makes one.)
using sim_disk = basic_sim_disk<>;

} // namespace tern
