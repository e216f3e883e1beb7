#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "support/counting_source.hpp"
#include <tern/async/run_loop.hpp>
#include <tern/async/when_all.hpp>
#include <tern/device/emulated.hpp>

using namespace tern::literals;

namespace {

using clock_type = std::chrono::steady_clock;

double since(clock_type::time_point start) { return std::chrono::duration<double>(clock_type::now() - start).count(); }

tern::task<int> write_and_read_back(tern::emulated_device& gpu, tern::run_loop& home, std::chrono::microseconds delay) {
    const tern::allocation there = gpu.memory().allocate({sizeof(int)}, "value");
    co_await tern::launch(gpu, home, 1, 1, [&, delay](std::size_t, std::size_t) {
        std::this_thread::sleep_for(delay);
        const int value = 42;
        std::memcpy(there.data(), &value, sizeof value);
    });
    int back = 0;
    co_await tern::copy(gpu, home, tern::direction::to_host, reinterpret_cast<std::byte*>(&back), there.data(),
                        {sizeof back});
    co_return back;
}

tern::task<std::thread::id> thread_of_work(tern::emulated_device& gpu, tern::run_loop& home, std::thread::id& after) {
    std::thread::id inside;
    co_await tern::launch(gpu, home, 1, 1, [&](std::size_t, std::size_t) { inside = std::this_thread::get_id(); });
    after = std::this_thread::get_id();
    co_return inside;
}

// Says of itself that it is `operations` and `bytes`.
struct told {
    double operations;
    double bytes;
    std::chrono::microseconds needs{0};
    void operator()(std::size_t, std::size_t) const { std::this_thread::sleep_for(needs); }
    tern::call_work describe() const { return {.op = "told", .operations = operations, .weight_bytes = bytes}; }
};
tern::task<> compute(tern::emulated_device& gpu, tern::run_loop& home, told what) {
    co_await tern::launch(gpu, home, 1, 1, what);
}

tern::task<> copy_in(tern::emulated_device& gpu, tern::run_loop& home, std::byte* to, const std::byte* from,
                     tern::bytes n) {
    co_await tern::copy(gpu, home, tern::direction::to_device, to, from, n);
}
tern::task<> copy_out(tern::emulated_device& gpu, tern::run_loop& home, std::byte* to, const std::byte* from,
                      tern::bytes n) {
    co_await tern::copy(gpu, home, tern::direction::to_host, to, from, n);
}

// Two kernels that each wait for what the other device has done would hang if they shared a worker.
tern::task<> meet(tern::emulated_device& gpu, tern::run_loop& home, std::atomic<int>& here) {
    co_await tern::launch(gpu, home, 1, 1, [&](std::size_t, std::size_t) {
        ++here;
        while (here < 2) std::this_thread::yield();
    });
}

} // namespace

TEST_CASE("device/emulated: a delayed kernel's result is what the awaited read-back gives") {
    tern::run_loop home;
    tern::emulated_device gpu{{.capacity = 1_MiB}};
    for (int i = 0; i < 1000; ++i)
        if (home.run(write_and_read_back(gpu, home, std::chrono::microseconds(i % 4 == 0 ? 200 : 0))) != 42)
            FAIL("the read-back was early");
    CHECK(gpu.memory().budget().used() == 0_B);
}

TEST_CASE("device/emulated: work runs on a worker of its own, and its waiter goes on at home") {
    tern::run_loop home;
    tern::emulated_device gpu{{.capacity = 1_MiB}};
    std::thread::id after;
    const std::thread::id inside = home.run(thread_of_work(gpu, home, after));
    CHECK(inside != std::this_thread::get_id());
    CHECK(inside != std::thread::id{});
    CHECK(after == std::this_thread::get_id());
    tern::emulated_device second{{.capacity = 1_MiB, .index = 1}};
    std::atomic<int> here{0};
    home.run(tern::when_all(meet(gpu, home, here), meet(second, home, here)));
    CHECK(here == 2);
}

TEST_CASE("device/emulated: bytes are counted each way") {
    tern::run_loop home;
    tern::emulated_device gpu{{.capacity = 1_MiB}};
    const auto data = tern::test::pattern_bytes(1000);
    std::vector<std::byte> back(1000);
    const tern::allocation there = gpu.memory().allocate(1000_B, "there");
    home.run(copy_in(gpu, home, there.data(), data.data(), 1000_B));
    CHECK(gpu.traffic().to_device == 1000_B);
    CHECK(gpu.traffic().to_host == 0_B);
    home.run(copy_out(gpu, home, back.data(), there.data(), 300_B));
    home.run(copy_out(gpu, home, back.data(), there.data(), 0_B));
    CHECK(gpu.traffic().to_device == 1000_B);
    CHECK(gpu.traffic().to_host == 300_B);
}

TEST_CASE("device/emulated: a copy has its exact size and touches nothing around it") {
    tern::run_loop home;
    tern::emulated_device gpu{{.capacity = 1_MiB}};
    constexpr std::size_t guard = 64;
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{144} * 1024, std::size_t{176} * 1024}) {
        const auto data = tern::test::pattern_bytes(n);
        const tern::allocation there = gpu.memory().allocate({n + 2 * guard}, "expert");
        std::memset(there.data(), 0xEE, n + 2 * guard);
        home.run(copy_in(gpu, home, there.data() + guard, data.data(), {n}));
        std::vector<std::byte> back(n + 2 * guard, std::byte{0xDD});
        home.run(copy_out(gpu, home, back.data() + guard, there.data() + guard, {n}));
        bool exact = true;
        for (std::size_t i = 0; i < n; ++i) exact = exact && back[guard + i] == data[i];
        for (std::size_t i = 0; i < guard; ++i) {
            exact = exact && back[i] == std::byte{0xDD} && back[guard + n + i] == std::byte{0xDD};
            exact = exact && there.data()[i] == std::byte{0xEE} && there.data()[guard + n + i] == std::byte{0xEE};
        }
        CHECK(exact);
    }
}

TEST_CASE("device/emulated: a copy takes at least its latency and its bytes over the bandwidth") {
    tern::run_loop home;
    const auto data = tern::test::pattern_bytes(100'000);
    {
        tern::emulated_device gpu{{.capacity = 1_MiB, .bandwidth = {1e7}, .latency = 5.0_ms}};
        const tern::allocation there = gpu.memory().allocate(100'000_B, "x");
        auto start = clock_type::now();
        home.run(copy_in(gpu, home, there.data(), data.data(), 100'000_B));
        CHECK(since(start) >= 0.015);
        start = clock_type::now();
        home.run(copy_in(gpu, home, there.data(), data.data(), 0_B));
        CHECK(since(start) >= 0.005);
        // One direction is one link: two copies come after one another.
        start = clock_type::now();
        home.run(tern::when_all(copy_in(gpu, home, there.data(), data.data(), 50'000_B),
                                copy_in(gpu, home, there.data() + 50'048, data.data(), 49'000_B)));
        CHECK(since(start) >= 0.0199);
    }
}

TEST_CASE("device/emulated: its capacity is hard, and its name and place tell which it is") {
    tern::emulated_device gpu{{.capacity = 1_KiB, .index = 3}};
    CHECK(gpu.name() == "emulated:3");
    CHECK(to_string(gpu.memory().where()) == "vram:3");
    CHECK(gpu.kernels() == tern::kernel_kind::host);
    CHECK_THROWS_AS(static_cast<void>(gpu.memory().allocate(1025_B, "x")), tern::budget_error);
    CHECK(gpu.memory().allocate(1024_B, "x"));
}

TEST_CASE("device/emulated: a link that cannot be is refused") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    CHECK_THROWS_AS(tern::emulated_device({.capacity = 1_KiB, .bandwidth = {0}}), tern::config_error);
    CHECK_THROWS_AS(tern::emulated_device({.capacity = 1_KiB, .bandwidth = {-1}}), tern::config_error);
    CHECK_THROWS_AS(tern::emulated_device({.capacity = 1_KiB, .bandwidth = {nan}}), tern::config_error);
    CHECK_THROWS_AS(tern::emulated_device({.capacity = 1_KiB, .latency = {-1}}), tern::config_error);
    CHECK_THROWS_AS(tern::emulated_device({.capacity = 1_KiB, .latency = {nan}}), tern::config_error);
    CHECK_THROWS_AS(tern::emulated_device({.capacity = 1_KiB, .memory = {0}}), tern::config_error);
    CHECK_THROWS_AS(tern::emulated_device({.capacity = 1_KiB, .memory = {nan}}), tern::config_error);
    CHECK_THROWS_AS(tern::emulated_device({.capacity = 1_KiB, .operations = 0}), tern::config_error);
    CHECK_THROWS_AS(tern::emulated_device({.capacity = 1_KiB, .operations = nan}), tern::config_error);
    CHECK_THROWS_AS(tern::emulated_device({.capacity = 1_KiB, .slowdown = 0.5}), tern::config_error);
    CHECK_THROWS_AS(tern::emulated_device({.capacity = 1_KiB, .slowdown = nan}), tern::config_error);
}

TEST_CASE("device/emulated: what an operator takes is its launch and the longer of its bytes and its operations") {
    const tern::emulated_options how{.launch = 1.0_ms, .memory = {1e6}, .operations = 1e9};
    const auto time = [&](double operations, double weights, double other) {
        return how.time_of({.operations = operations, .weight_bytes = weights, .other_bytes = other}).count;
    };
    CHECK(time(0, 0, 0) == doctest::Approx(0.001));
    CHECK(time(5e6, 1000, 2000) == doctest::Approx(0.006));   // 5 ms of arithmetic, 3 ms of bytes
    CHECK(time(5e6, 10'000, 2000) == doctest::Approx(0.013)); // 12 ms of bytes
    CHECK(tern::emulated_options{}.time_of({.operations = 1e30, .weight_bytes = 1e30}).count == 0);
}

TEST_CASE("device/emulated: operators are not done before their deadline, however fast the host is") {
    tern::run_loop home;
    tern::emulated_device gpu{{.capacity = 1_MiB, .launch = 1.0_ms, .memory = {1e6}, .operations = 1e9, .slowdown = 3}};
    const auto took = [&](told what) {
        const auto start = clock_type::now();
        home.run(compute(gpu, home, what));
        return since(start);
    };
    CHECK(took({5e6, 1000}) >= 0.006);
    CHECK(took({0, 4000}) >= 0.005);
    CHECK(took({0, 0, std::chrono::microseconds(4000)}) >= 0.012); // three times what the host needed
    CHECK(gpu.options().slowdown == 3);
}
