#include <tern/sim/disk.hpp>

#include <cstddef>

#include <doctest/doctest.h>

#include <tern/async/run_loop.hpp>
#include <tern/async/virtual_clock.hpp>
#include <tern/async/when_all.hpp>
#include <tern/sim/described_file.hpp>

#include "support.hpp"

namespace {

namespace test = tern::test;

struct bench {
    tern::virtual_clock time{};
    tern::run_loop home{time};
    const tern::machine m = test::plain_machine();
    const tern::cost_by<test::by_bytes> cost{test::by_bytes{}};
    tern::sim_world world{time, cost};
    tern::sim_disk disk{world, test::ram};
    tern::detail::absent_bytes file{"model", 1 << 20};

    tern::task<> read(std::size_t n) {
        co_await tern::read(disk, home, {.from = &file, .offset = 0, .into = nullptr, .size = n});
    }
};

} // namespace

TEST_CASE("sim/disk: a read takes latency and bytes; those that wait pass their latency beside the one before") {
    bench b;
    b.home.run(b.read(500'000));
    CHECK(b.time.now().count == doctest::Approx(1e-5 + 1e-3));
    const double begin = b.time.now().count;
    b.home.run(tern::when_all(b.read(500'000), b.read(250'000)));
    CHECK(b.time.now().count - begin == doctest::Approx(1.5e-3).epsilon(0.02));
    CHECK(b.disk.counters().read == tern::bytes{1'250'000});
    CHECK(b.disk.counters().requests == 3);
    b.home.run(b.read(0));
    CHECK(b.disk.reading().calls == 3);
    CHECK(b.world.under_way.empty());
}

TEST_CASE("sim/disk: a file that the system keeps in RAM is copied by the host") {
    bench b;
    b.disk.kept_in_ram(&b.m.processors[0]);
    b.home.run(b.read(500'000));
    CHECK(b.time.now().count == doctest::Approx(1e-6 + 1e6 / 10e9)); // read and written
    b.disk.kept_in_ram(nullptr);
    const double begin = b.time.now().count;
    b.home.run(b.read(500'000));
    CHECK(b.time.now().count - begin > 1e-3);
}
