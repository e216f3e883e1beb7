// host_memory: a second memory of the host, such as pinned RAM, in which another device computes.
#pragma once

#include <string>
#include <string_view>

#include <tern/device/device.hpp>

namespace tern {

/// Owns nothing and computes with `computes`; copies that are placed with it lie in `memory`. Both must outlive it.
///
///     tern::pinned_arena locked{{.limit = 1_GiB}};
///     tern::host_memory pinned{cpu, locked};
///     loop.run(store.place(slice, pinned, move));   // and the cpu reads it there
class host_memory final : public device {
public:
    host_memory(device& computes, arena& memory) : computes_(computes), memory_(memory) {}

    std::string_view name() const noexcept override { return memory_.where().tier.name; }
    kernel_kind kernels() const noexcept override { return computes_.kernels(); }
    arena& memory() noexcept override { return memory_; }
    std::size_t workers() const noexcept override { return computes_.workers(); }
    bool start(device_call& call) override { return computes_.start(call); }
    bool start(copy_call& call, direction way) override { return computes_.start(call, way); }

private:
    device& computes_;
    arena& memory_;
};

} // namespace tern
