#include <doctest/doctest.h>

#include <coroutine>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "support/counting_source.hpp"
#include "support/failing_device.hpp"
#include <tern/async/run_loop.hpp>
#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>
#include <tern/memory/heap_arena.hpp>

using namespace tern::literals;

namespace {

/// A user's own device, in host memory, that finishes at once.
class plain_device final : public tern::device {
public:
    explicit plain_device(tern::arena& ram) : ram_(ram) {}
    std::string_view name() const noexcept override { return "plain"; }
    tern::kernel_kind kernels() const noexcept override { return tern::kernel_kind::host; }
    tern::arena& memory() noexcept override { return ram_; }
    bool start(tern::device_call& call) override {
        call.compute(call, 0, call.items);
        return true;
    }
    bool start(tern::copy_call& call, tern::direction) override {
        std::memcpy(call.to, call.from, call.size.count);
        return true;
    }

private:
    tern::arena& ram_;
};

tern::task<int> sum_on(tern::device& d, tern::run_loop& home, int factor) {
    std::vector<int> out(10);
    co_await tern::launch(d, home, 10, 3, [&out, factor](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) out[i] = factor * static_cast<int>(i);
    });
    int sum = 0;
    for (const int x : out) sum += x;
    co_return sum;
}

tern::task<> fail_on(tern::device& d, tern::run_loop& home) {
    co_await tern::launch(d, home, 4, 1, [](std::size_t, std::size_t) { throw std::out_of_range("a kernel"); });
}

// Which copy threw: the error belongs to the co_await of the copy that failed.
tern::task<int> failing_copy(tern::test::failing_device& d, tern::run_loop& home, int copies) {
    const tern::allocation to = d.memory().allocate(64_B, "to");
    const auto from = tern::test::pattern_bytes(64);
    int i = 0;
    try {
        for (; i < copies; ++i) co_await tern::copy(d, home, tern::direction::to_device, to.data(), from.data(), 64_B);
    } catch (const tern::io_error&) { co_return i; }
    co_return -1;
}

} // namespace

TEST_CASE("device/device: a launch gives the same on every kind of device") {
    tern::run_loop home;
    tern::heap_arena ram;
    plain_device plain{ram};
    tern::cpu_device cpu{ram, 2};
    tern::emulated_device gpu{{.capacity = 1_MiB}};
    tern::test::failing_device own{1_MiB};
    CHECK(home.run(sum_on(plain, home, 2)) == 90);
    CHECK(home.run(sum_on(cpu, home, 2)) == 90);
    CHECK(home.run(sum_on(gpu, home, 2)) == 90);
    CHECK(home.run(sum_on(own, home, 2)) == 90);
    CHECK(plain.workers() == 1);
    CHECK(plain.traffic().to_device == 0_B);
    CHECK(plain.traffic().to_host == 0_B);
}

TEST_CASE("device/device: a kernel's exception surfaces at its co_await, of its own type") {
    tern::run_loop home;
    tern::heap_arena ram;
    plain_device plain{ram};
    tern::cpu_device cpu{ram, 2};
    tern::emulated_device gpu{{.capacity = 1_MiB}};
    for (tern::device* d :
         {static_cast<tern::device*>(&plain), static_cast<tern::device*>(&cpu), static_cast<tern::device*>(&gpu)}) {
        CHECK_THROWS_AS(home.run(fail_on(*d, home)), std::out_of_range);
        CHECK(home.run(sum_on(*d, home, 1)) == 45);
    }
}

TEST_CASE("device/device: a failing copy surfaces at the co_await of that copy") {
    tern::run_loop home;
    tern::test::failing_device d{1_MiB};
    d.fails_at = 2;
    CHECK(home.run(failing_copy(d, home, 5)) == 2);
    CHECK(d.copies == 3);
    CHECK(home.run(failing_copy(d, home, 5)) == -1);
    CHECK(d.memory().budget().used() == 0_B);
}

TEST_CASE("device/device: who reads what in place") {
    tern::heap_arena ram;
    plain_device host{ram};
    tern::emulated_device first{{.capacity = 1_KiB, .index = 0}};
    tern::emulated_device second{{.capacity = 1_KiB, .index = 1}};
    const tern::location pageable{tern::tier_of<tern::pageable>, 0, 0};
    const tern::location mapped{tern::tier_of<tern::mapped>, 0, 0};
    const tern::location other_node{tern::tier_of<tern::pageable>, 0, 1};
    CHECK(host.reads(pageable));
    CHECK(host.reads(mapped));
    CHECK(host.reads(other_node));
    CHECK_FALSE(host.reads(first.memory().where()));
    CHECK(first.reads(first.memory().where()));
    CHECK_FALSE(first.reads(second.memory().where()));
    CHECK_FALSE(first.reads(pageable));
}
