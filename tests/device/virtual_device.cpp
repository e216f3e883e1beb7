#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/counting_source.hpp"
#include <tern/async/run_loop.hpp>
#include <tern/async/virtual_clock.hpp>
#include <tern/async/when_all.hpp>
#include <tern/device/virtual_device.hpp>

using namespace tern::literals;

namespace {

constexpr double rounding = 1e-12;

struct bench {
    tern::virtual_clock time;
    tern::run_loop home{time};
    tern::virtual_device gpu;
    explicit bench(
        tern::emulated_options options = {.capacity = 1_MiB, .bandwidth = {1e6}, .latency = 1.0_ms, .launch = 20.0_ms})
        : gpu(options, time) {}
    double now() const { return time.now().count; }
};

/// Copies `n` bytes and gives the time at which they are there.
tern::task<double> move(bench& b, tern::direction way, std::byte* to, const std::byte* from, tern::bytes n,
                        tern::lane lane = tern::lane::weights) {
    co_await tern::copy(b.gpu, b.home, way, to, from, n, lane);
    co_return b.now();
}
tern::task<double> compute(bench& b, std::vector<int>& order, int who) {
    co_await tern::launch(b.gpu, b.home, 3, 1, [&order, who](std::size_t begin, std::size_t end) {
        order.push_back(begin == 0 && end == 3 ? who : -1);
    });
    co_return b.now();
}
struct told {
    tern::call_work work;
    void operator()(std::size_t, std::size_t) const {}
    tern::call_work describe() const { return work; }
};
tern::task<double> compute(bench& b, tern::call_work what) {
    const double begin = b.now();
    co_await tern::launch(b.gpu, b.home, 1, 1, told{what});
    co_return b.now() - begin;
}
tern::task<double> fail(bench& b) {
    co_await tern::launch(b.gpu, b.home, 1, 1,
                          [](std::size_t, std::size_t) { throw std::out_of_range("no such row"); });
    co_return b.now();
}
tern::task<double> caught(bench& b) {
    try {
        co_await fail(b);
    } catch (const std::out_of_range&) { co_return b.now(); }
    co_return -1;
}
tern::task<double> late(bench& b, std::byte* to, const std::byte* from, double after) {
    co_await b.time.sleep_for({after});
    co_return co_await move(b, tern::direction::to_device, to, from, 9'000_B);
}
tern::task<bool> look(bench& b, const std::byte* at, double when) {
    co_await b.time.sleep_for({when});
    co_return *at == std::byte{0};
}

} // namespace

TEST_CASE("device/virtual_device: a copy takes its latency and its bytes over the bandwidth, exactly") {
    bench b;
    const auto data = tern::test::pattern_bytes(99'000);
    const tern::allocation there = b.gpu.memory().allocate(99'000_B, "x");
    CHECK(b.home.run(move(b, tern::direction::to_device, there.data(), data.data(), 99'000_B)) == 0.1);
    CHECK(std::memcmp(there.data(), data.data(), 99'000) == 0);
    CHECK(b.gpu.time_of_copy(99'000_B) == tern::seconds{0.1});
    CHECK(b.gpu.traffic().to_device == 99'000_B);
    CHECK(b.gpu.traffic().to_host == 0_B);
    std::vector<std::byte> back(9'000);
    CHECK(b.home.run(move(b, tern::direction::to_host, back.data(), there.data(), 9'000_B)) ==
          doctest::Approx(0.11).epsilon(rounding));
    CHECK(std::memcmp(back.data(), data.data(), 9'000) == 0);
    CHECK(b.gpu.traffic().to_host == 9'000_B);
    CHECK(b.home.run(move(b, tern::direction::to_host, nullptr, nullptr, 0_B)) ==
          doctest::Approx(0.111).epsilon(rounding));
}

TEST_CASE("device/virtual_device: copies of one direction and lane queue, those of others do not") {
    bench b;
    const auto data = tern::test::pattern_bytes(9'000);
    std::vector<std::byte> back(9'000);
    const tern::allocation there = b.gpu.memory().allocate(36'000_B, "x");
    std::byte* const at = there.data();
    const auto in = tern::direction::to_device;
    const auto out = tern::direction::to_host;
    const auto [a, a2, a3, c, d, e] = b.home.run(
        tern::when_all(move(b, in, at, data.data(), 9'000_B), move(b, in, at + 9'000, data.data(), 4'000_B),
                       late(b, at + 18'000, data.data(), 0.1), move(b, out, back.data(), at + 27'000, 9'000_B),
                       move(b, in, at + 27'000, data.data(), 1'000_B, tern::lane::activations),
                       move(b, out, back.data(), at, 2'000_B, tern::lane::activations)));
    CHECK(a == doctest::Approx(0.01).epsilon(rounding));
    CHECK(a2 == doctest::Approx(0.015).epsilon(rounding)); // behind the first
    CHECK(a3 == doctest::Approx(0.11).epsilon(rounding));  // an idle link begins when it is asked
    CHECK(c == doctest::Approx(0.01).epsilon(rounding));
    CHECK(d == doctest::Approx(0.002).epsilon(rounding));
    CHECK(e == doctest::Approx(0.003).epsilon(rounding));
}

TEST_CASE("device/virtual_device: operators come after one another, beside copies, and compute when they are due") {
    bench b;
    std::vector<int> order;
    const auto data = tern::test::pattern_bytes(9'000);
    const tern::allocation there = b.gpu.memory().allocate(9'000_B, "x");
    const auto [first, second, copied] =
        b.home.run(tern::when_all(compute(b, order, 1), compute(b, order, 2),
                                  move(b, tern::direction::to_device, there.data(), data.data(), 9'000_B)));
    CHECK(first == doctest::Approx(0.02).epsilon(rounding));
    CHECK(second == doctest::Approx(0.04).epsilon(rounding));
    CHECK(copied == doctest::Approx(0.01).epsilon(rounding));
    CHECK(order == std::vector<int>{1, 2});
    const auto [failed, third] = b.home.run(tern::when_all(caught(b), compute(b, order, 3)));
    CHECK(failed == doctest::Approx(0.06).epsilon(rounding));
    CHECK(third == doctest::Approx(0.08).epsilon(rounding));
    CHECK_THROWS_AS(static_cast<void>(b.home.run(fail(b))), std::out_of_range);
}

TEST_CASE("device/virtual_device: bytes are not there before their time") {
    bench b;
    const std::vector<std::byte> ones(9'000, std::byte{1});
    const tern::allocation there = b.gpu.memory().allocate(9'000_B, "x");
    std::memset(there.data(), 0, 9'000);
    const auto [copied, before, after] =
        b.home.run(tern::when_all(move(b, tern::direction::to_device, there.data(), ones.data(), 9'000_B),
                                  look(b, there.data() + 8'999, 0.0099), look(b, there.data(), 0.0101)));
    CHECK(copied == doctest::Approx(0.01).epsilon(rounding));
    CHECK(before);
    CHECK_FALSE(after);
}

TEST_CASE("device/virtual_device: what takes no time completes, and a thousand calls in a row nest nowhere") {
    bench b({.capacity = 1_MiB});
    std::vector<int> order;
    std::vector<tern::task<double>> all;
    for (int i = 0; i < 1000; ++i) all.push_back(compute(b, order, i));
    for (const double t : b.home.run(tern::when_all(std::move(all)))) CHECK(t == 0);
    REQUIRE(order.size() == 1000);
    for (int i = 0; i < 1000; ++i) REQUIRE(order[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("device/virtual_device: it is a device of its own, and what cannot be is refused") {
    bench b({.capacity = 1_KiB, .index = 3});
    CHECK(b.gpu.name() == "virtual:3");
    CHECK(to_string(b.gpu.memory().where()) == "vram:3");
    CHECK(b.gpu.kernels() == tern::kernel_kind::host);
    CHECK_FALSE(b.gpu.reads({tern::tier_of<tern::pageable>, 0, 0}));
    CHECK_THROWS_AS(static_cast<void>(b.gpu.memory().allocate(1025_B, "x")), tern::budget_error);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    CHECK_THROWS_AS(bench({.capacity = 1_KiB, .bandwidth = {0}}), tern::config_error);
    CHECK_THROWS_AS(bench({.capacity = 1_KiB, .bandwidth = {nan}}), tern::config_error);
    CHECK_THROWS_AS(bench({.capacity = 1_KiB, .latency = {-1}}), tern::config_error);
    CHECK_THROWS_AS(bench({.capacity = 1_KiB, .launch = {nan}}), tern::config_error);
    CHECK_THROWS_AS(bench({.capacity = 1_KiB, .memory = {-1}}), tern::config_error);
    CHECK_THROWS_AS(bench({.capacity = 1_KiB, .operations = nan}), tern::config_error);
    CHECK_THROWS_AS(bench({.capacity = 1_KiB, .slowdown = 2}), tern::config_error); // of no time
}

TEST_CASE(
    "device/virtual_device: an operator takes its launch and the longer of its bytes and its operations, exactly") {
    bench b({.capacity = 1_MiB, .launch = 10.0_ms, .memory = {1e6}, .operations = 1e9});
    CHECK(b.home.run(compute(b, {.operations = 5e6, .weight_bytes = 2000, .other_bytes = 1000})) ==
          doctest::Approx(0.015).epsilon(rounding));
    CHECK(b.home.run(compute(b, {.operations = 5e6, .weight_bytes = 20'000, .other_bytes = 1000})) ==
          doctest::Approx(0.031).epsilon(rounding));
    CHECK(b.home.run(compute(b, tern::call_work{})) == doctest::Approx(0.01).epsilon(rounding));
    std::vector<int> order;
    CHECK(b.home.run(compute(b, order, 1)) == doctest::Approx(0.066).epsilon(rounding)); // nobody described it
    CHECK(order == std::vector<int>{1});
}
