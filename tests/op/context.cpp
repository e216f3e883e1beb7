#include <tern/memory/heap_arena.hpp>
#include <tern/op/context.hpp>

#include <algorithm>
#include <cstddef>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tern/op/elementwise.hpp>
#include <tern/op/linear.hpp>

#include "support.hpp"

namespace test = tern::test;

namespace {

/// A device whose kernels are not the host's: nothing of it is ever called but its looks.
class foreign final : public tern::device {
public:
    explicit foreign(tern::arena& memory) : memory_(memory) {}
    std::string_view name() const noexcept override { return "foreign"; }
    tern::kernel_kind kernels() const noexcept override { return tern::kernel_kind::cuda; }
    tern::arena& memory() noexcept override { return memory_; }
    bool start(tern::device_call&) override { return true; }
    bool start(tern::copy_call&, tern::direction) override { return true; }

private:
    tern::arena& memory_;
};

} // namespace

TEST_CASE("op/context: bring moves an activation over the links and back, and leaves one alone that lies there") {
    tern::emulated_device other({.capacity = {1 << 20}, .index = 1}); // before the context, whose pool it serves
    test::bench b;
    const std::vector<float> values = test::numbers(6 * 10);
    tern::activation x = b.make(values, 6);
    const float* const first = x.data();
    x = b.loop.run(b.ctx.bring(std::move(x), b.cpu));
    CHECK(x.data() == first);
    x = b.on_gpu(std::move(x));
    CHECK(x.on() == &b.gpu);
    CHECK(x.rows() == 6);
    CHECK(b.gpu.traffic().to_device == tern::bytes{240});
    x = b.loop.run(b.ctx.bring(std::move(x), other)); // through the host
    CHECK(x.on() == &other);
    CHECK(b.gpu.traffic().to_host == tern::bytes{240});
    CHECK(b.values(std::move(x)) == values);
    CHECK_THROWS_AS(b.loop.run(b.ctx.bring(tern::activation{}, b.cpu)), tern::shape_error);
}

TEST_CASE("op/context: a stopped run throws at the next operator, and another run is right") {
    test::bench b;
    const std::vector<float> values = test::numbers(8);
    std::stop_source stop;
    b.ctx.stop_with(stop.get_token());
    CHECK(b.values(tern::add(b.ctx, b.make(values, 1), b.make(values, 1)))[3] == 2 * values[3]);
    stop.request_stop();
    const tern::activation other = b.make(values, 1);
    CHECK_THROWS_AS(b.loop.run(tern::add(b.ctx, b.make(values, 1), other)), tern::stopped_error);
    b.ctx.stop_with({});
    CHECK(b.values(tern::add(b.ctx, b.make(values, 1), other))[3] == 2 * values[3]);
}

TEST_CASE("op/context: a device without a kernel is refused with the operator's and the device's name") {
    tern::heap_arena memory;
    foreign strange(memory);
    test::bench b;
    tern::activation x(strange, b.ctx.pool(strange), 1, 4);
    const std::string text =
        test::text_of<tern::unsupported_error>([&] { b.loop.run(tern::soft_cap(b.ctx, std::move(x), 3)); });
    CHECK(test::has(text, "soft_cap"));
    CHECK(test::has(text, "foreign"));
}

TEST_CASE("op/context: recorded activations have shapes, no data, and a peak") {
    test::bench b;
    {
        const tern::activation a = b.recording.make(b.cpu, 4, 8);
        { const tern::activation second = b.recording.make(b.gpu, 2, 8); }
        const tern::activation third = b.recording.make(b.cpu, 1, 8);
        CHECK(a.data() == nullptr);
        CHECK(a.on() == nullptr);
        // Two of the smallest size were alive at once; a pool serves the third from what it has.
        CHECK(b.recording.recorded_peak() == tern::bytes{2 * 256});
        { const tern::activation large = b.recording.make(b.cpu, 100, 80); }
        CHECK(b.recording.recorded_peak() == tern::bytes{2 * 256 + 32 * 1024});
    }
    CHECK(b.ctx.recording() == nullptr);
    CHECK(b.ram.budget().used() == tern::bytes{});
    CHECK(b.ctx.recorded_peak() == tern::bytes{});
}

namespace {

/// The host, and what every call asks of it.
class watched final : public tern::device {
public:
    explicit watched(tern::device& host) : host_(host) {}
    std::string_view name() const noexcept override { return host_.name(); }
    tern::kernel_kind kernels() const noexcept override { return host_.kernels(); }
    tern::arena& memory() noexcept override { return host_.memory(); }
    bool start(tern::device_call& call) override {
        seen.push_back(tern::work_of(call));
        return host_.start(call);
    }
    bool start(tern::copy_call& call, tern::direction way) override { return host_.start(call, way); }

    std::vector<tern::call_work> seen{};

private:
    tern::device& host_;
};

} // namespace

TEST_CASE("op/context: a call describes its work, by the format of its weight") {
    test::bench b;
    watched host(b.cpu);
    tern::context ctx(b.loop, host);
    const test::op_weight plain = b.weight({48, 32}, "w");
    const test::op_weight blocks = b.weight<tern::q8_0>(test::numbers(48 * 32), {48, 32}, "w");
    const tern::activation x = b.make(5, 32);
    for (const test::op_weight* w : {&plain, &blocks}) static_cast<void>(b.loop.run(tern::linear(ctx, x, *w)));
    tern::activation sum = ctx.make(host, 5, 32);
    std::fill_n(sum.data(), 5 * 32, 1.0f);
    tern::activation other = ctx.make(host, 5, 32);
    std::fill_n(other.data(), 5 * 32, 2.0f);
    static_cast<void>(b.loop.run(tern::add(ctx, std::move(sum), other)));
    REQUIRE(host.seen.size() == 3);
    for (const std::size_t i : {0u, 1u}) {
        CHECK(host.seen[i].op == "linear");
        CHECK(host.seen[i].tokens == 5);
        CHECK(host.seen[i].operations == 2.0 * 5 * 48 * 32);
        CHECK(host.seen[i].other_bytes == 4.0 * 5 * (48 + 32));
        CHECK(host.seen[i].args != nullptr);
    }
    CHECK(host.seen[0].format == "f32");
    CHECK(host.seen[0].weight_bytes == 4.0 * 48 * 32);
    CHECK(host.seen[1].format == "q8_0");
    CHECK(host.seen[1].weight_bytes == 48.0 * 34); // a block of 32 takes 34 bytes
    CHECK(host.seen[2].op == "add");
    CHECK(host.seen[2].weight_bytes == 0);
    CHECK(host.seen[2].other_bytes == 12.0 * 5 * 32);
    CHECK(tern::work_of(tern::device_call{}).op.empty());
}
