// An accelerator of a test's own: its copies run on another thread, are counted, and fail where a test asks for it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <string_view>

#include <tern/base/error.hpp>
#include <tern/device/device.hpp>
#include <tern/device/service.hpp>
#include <tern/memory/region_arena.hpp>

namespace tern::test {

class failing_device final : public device {
public:
    explicit failing_device(bytes capacity) : memory_({tier_of<vram>, 7, 0}, capacity) {}

    std::string_view name() const noexcept override { return "failing"; }
    kernel_kind kernels() const noexcept override { return kernel_kind::host; }
    arena& memory() noexcept override { return memory_; }
    bool start(device_call& call) override {
        call.compute(call, 0, call.items);
        return true;
    }
    bool start(copy_call& call, direction) override {
        link_.submit(call);
        return false;
    }

    std::atomic<int> copies{0};
    std::atomic<int> fails_at{-1}; ///< the copy with this number throws io_error

private:
    struct copier {
        failing_device* self;
        void operator()(copy_call& call) const {
            if (self->copies++ == self->fails_at) throw io_error("the link is broken");
            if (call.size.count != 0) std::memcpy(call.to, call.from, call.size.count);
        }
    };

    region_arena memory_;
    service<copy_call, copier> link_{copier{this}};
};

} // namespace tern::test
