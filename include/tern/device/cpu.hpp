// The cpu device: a worker team over host memory. Work runs on the awaiting thread and its team, and never suspends.
#pragma once

#include <cstring>

#include <tern/device/device.hpp>
#include <tern/device/topology.hpp>
#include <tern/device/worker_team.hpp>

namespace tern {

/// Computes on the host.
///
///     tern::cpu_device cpu{ram};                 // as many workers as there are usable cores
///     tern::cpu_device single{ram, 1};
template <class = void> class basic_cpu_device final : public device {
public:
    /// `ram` holds activations and must outlive the device.
    explicit basic_cpu_device(arena& ram, std::size_t workers = usable_workers()) : ram_(ram), team_(workers) {}

    std::string_view name() const noexcept override { return "cpu"; }
    kernel_kind kernels() const noexcept override { return kernel_kind::host; }
    arena& memory() noexcept override { return ram_; }
    std::size_t workers() const noexcept override { return team_.workers(); }

    bool start(device_call& call) override {
        team_.run(call.items, call.grain, [&](std::size_t begin, std::size_t end) { call.compute(call, begin, end); });
        return true;
    }
    bool start(copy_call& call, direction) override {
        if (call.size.count != 0) std::memcpy(call.to, call.from, call.size.count);
        return true;
    }

private:
    arena& ram_;
    worker_team team_;
};

/// (A template underneath, so that a program compiles it only where it makes one.)
using cpu_device = basic_cpu_device<>;

} // namespace tern
