#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/counting_source.hpp"
#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/memory/region_arena.hpp>
#include <tern/residency/store.hpp>
#include <tern/tensor/tensor.hpp>
#include <tern/transfer/staged.hpp>

using namespace tern::literals;

namespace tensor_test {

using pageable_only = tern::tiers<tern::pageable>;
using mixed = tern::tensor<tern::formats<tern::q8_0, tern::f32, tern::q4_0>, pageable_only>;
using plain = tern::tensor<tern::formats<tern::f32>, pageable_only>;

static_assert(tern::weight_tensor<mixed> && tern::weight_tensor<const plain&>);
static_assert(!tern::weight_tensor<int> && !tern::weight_tensor<tern::lease> && !tern::weight_tensor<plain*>);
struct looks_like_one {
    using formats_type = tern::formats<tern::f32>;
    using tiers_type = pageable_only;
    using transfer_type = tern::in_place;
};
static_assert(!tern::weight_tensor<looks_like_one>);
struct derived : plain {};
static_assert(!tern::weight_tensor<derived>);

template <class T, class F>
concept owns_as = requires(tern::arena& ram, std::span<const float> x) {
    T::template own<F>(ram, x, {1, 32});
};
static_assert(owns_as<mixed, tern::q8_0>);
static_assert(!owns_as<mixed, tern::q6_k>);                                                          // not in its list
static_assert(!owns_as<tern::tensor<tern::formats<tern::f32>, tern::tiers<tern::vram>>, tern::f32>); // nor in RAM

// With one format the visit gives that format's own type: nothing is chosen at run time.
struct block_of {
    template <tern::format F> typename F::block operator()() const { return {}; }
};
static_assert(std::is_same_v<decltype(std::declval<const plain&>().visit(block_of{})), tern::f32::block>);

struct name_of {
    template <tern::format F> std::string operator()() const { return std::string(F::name); }
};

/// A user's own tier and a user's own transfer.
struct remote {
    static constexpr std::string_view name = "remote";
    static constexpr auto reached_by = tern::reach::device;
};
struct reversed_order { // the last byte first, each by itself
    static constexpr std::string_view name = "reversed_order";
    static tern::task<void> move(tern::transfer_request request) {
        const tern::allocation one = request.staging->allocate(1_B, request.what);
        for (std::uint64_t i = request.size.count; i-- > 0;) {
            co_await tern::read_backing(request, i, one.data(), 1);
            co_await tern::copy(*request.on, *request.home, tern::direction::to_device, request.to + i, one.data(),
                                1_B);
        }
    }
};
class remote_device final : public tern::device {
public:
    std::string_view name() const noexcept override { return "remote"; }
    tern::kernel_kind kernels() const noexcept override { return tern::kernel_kind::host; }
    tern::arena& memory() noexcept override { return memory_; }
    bool start(tern::device_call& call) override { return call.compute(call, 0, call.items), true; }
    bool start(tern::copy_call& call, tern::direction) override {
        std::memcpy(call.to, call.from, call.size.count);
        return true;
    }

private:
    tern::region_arena memory_{{tern::tier_of<remote>, 0, 0}, 64_KiB};
};
using own_weight = tern::tensor<tern::formats<tern::f32>, tern::tiers<remote>, reversed_order>;

template <class T> tern::task<std::vector<std::byte>> bytes_of(const T& t, tern::device& on, std::size_t expert = 0) {
    const tern::lease held = co_await t.lend(on, expert);
    co_return std::vector<std::byte>(held.data(), held.data() + t.slice_bytes().count);
}

} // namespace tensor_test

using namespace tensor_test;

TEST_CASE("tensor/tensor: own() keeps the numbers, at the precision of the format") {
    tern::run_loop home;
    tern::heap_arena ram;
    tern::cpu_device cpu{ram, 1};
    std::vector<float> values(3 * 64 * 2);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
    {
        const auto w = plain::own<tern::f32>(ram, values, {.rows = 3, .cols = 64, .experts = 2}, "w");
        CHECK(w);
        CHECK(w.owns());
        CHECK(w.name() == "w");
        CHECK(w.rows() == 3);
        CHECK(w.cols() == 64);
        CHECK(w.experts() == 2);
        CHECK(w.slice_bytes() == 768_B);
        CHECK(ram.budget().used() == 1536_B);
        for (std::size_t expert = 0; expert < 2; ++expert) {
            const auto raw = home.run(bytes_of(w, cpu, expert));
            CHECK(std::memcmp(raw.data(), values.data() + expert * 192, 768) == 0);
        }
        const auto quantized = mixed::own<tern::q8_0>(ram, values, {.rows = 6, .cols = 64});
        const auto raw = home.run(bytes_of(quantized, cpu));
        REQUIRE(raw.size() == 12 * sizeof(tern::q8_0::block));
        float worst = 0;
        for (std::size_t b = 0; b < 12; ++b) {
            tern::q8_0::block block;
            std::memcpy(&block, raw.data() + b * sizeof block, sizeof block);
            float out[32];
            tern::q8_0::decode(block, out);
            for (std::size_t i = 0; i < 32; ++i) worst = std::max(worst, std::fabs(out[i] - values[b * 32 + i]));
        }
        CHECK(worst <= 0.005f);
        const plain shared = w;
        CHECK(home.run(bytes_of(shared, cpu)) == home.run(bytes_of(w, cpu)));
    }
    CHECK(ram.budget().used() == 0_B);
}

TEST_CASE("tensor/tensor: visit picks the format that it was made in") {
    tern::heap_arena ram;
    const std::vector<float> values(32, 1.0f);
    CHECK(mixed::own<tern::q8_0>(ram, values, {1, 32}).visit(name_of{}) == "q8_0");
    CHECK(mixed::own<tern::f32>(ram, values, {1, 32}).visit(name_of{}) == "f32");
    const auto w = mixed::own<tern::q4_0>(ram, values, {1, 32});
    CHECK(w.visit(name_of{}) == "q4_0");
    CHECK(w.format_index() == 2);
    CHECK(w.format().name == "q4_0");
    CHECK(w.format().block_bytes == sizeof(tern::q4_0::block));
    CHECK(plain::own<tern::f32>(ram, values, {1, 32}).format_index() == 0);
}

TEST_CASE("tensor/tensor: what does not fit together is an error that names the tensor") {
    tern::run_loop home;
    tern::heap_arena ram;
    tern::cpu_device cpu{ram, 1};
    tern::emulated_device gpu{{.capacity = 1_KiB}};
    const std::vector<float> values(64);
    try {
        static_cast<void>(plain::own<tern::f32>(ram, values, {2, 33}, "blk.3"));
        FAIL("64 values are not 66");
    } catch (const tern::shape_error& e) { CHECK(e.tensor() == "blk.3"); }
    CHECK_THROWS_AS(static_cast<void>(mixed::own<tern::q8_0>(ram, values, {4, 16})), tern::shape_error);
    CHECK_THROWS_AS(static_cast<void>(plain::own<tern::f32>(ram, values, {std::size_t{1} << 63, 2}, "w")),
                    tern::shape_error);
    CHECK(ram.budget().used() == 0_B);
    tern::heap_arena little{255_B};
    CHECK_THROWS_AS(static_cast<void>(plain::own<tern::f32>(little, values, {1, 64})), tern::budget_error);

    const auto w = plain::own<tern::f32>(ram, values, {1, 64}, "w");
    CHECK_THROWS_AS(home.run(bytes_of(w, cpu, 1)), tern::shape_error);
    CHECK_THROWS_AS(home.run(bytes_of(w, gpu)), tern::config_error);
    CHECK_THROWS_AS(home.run(bytes_of(plain{}, cpu)), tern::config_error);
    CHECK_FALSE(plain{});
    CHECK(&w.computes_on(cpu) == &cpu);
}

TEST_CASE("tensor/tensor: slices of a store are lent expert by expert, moving where they must") {
    tern::run_loop home;
    tern::heap_arena ram;
    tern::cpu_device cpu{ram, 1};
    tern::emulated_device gpu{{.capacity = 64_KiB}};
    tern::test::counting_source file(4 * 1024);
    tern::residency_store store{home, ram};
    for (std::size_t e = 0; e < 4; ++e) store.add("experts", {.file = &file, .offset = e * 1024}, 1024_B);
    using streamed = tern::tensor<tern::formats<tern::f32>, tern::tiers<tern::vram>, tern::staged<256_B, 2>>;
    const streamed w{store, 0, 0, {.rows = 4, .cols = 64, .experts = 4}, "experts"};
    CHECK_FALSE(w.owns());
    CHECK(w.slice(3) == 3);
    for (const std::size_t e : {2u, 0u}) {
        const auto raw = home.run(bytes_of(w, gpu, e));
        CHECK(std::memcmp(raw.data(), file.data.data() + e * 1024, 1024) == 0);
    }
    CHECK(gpu.traffic().to_device == 2048_B); // the experts that were asked for alone
    CHECK(&w.computes_on(cpu, 1) == &cpu);
    store.assign(1, gpu);
    CHECK(&w.computes_on(cpu, 1) == &gpu);
    CHECK(&w.computes_on(cpu, 2) == &cpu);
}

TEST_CASE("tensor/tensor: a user's own tier, device and transfer") {
    tern::run_loop home;
    tern::heap_arena ram;
    remote_device far;
    tern::test::counting_source file(512);
    tern::residency_store store{home, ram};
    const own_weight w{store, store.add("w", {.file = &file}, 512_B), 0, {.rows = 2, .cols = 64}, "w"};
    CHECK(home.run(bytes_of(w, far)) == file.data);
    CHECK(file.reads == 512);
    CHECK(to_string(far.memory().where()) == "remote:0");
    CHECK(far.memory().budget().used() == 0_B);
}

TEST_CASE("tensor/tensor: what is expected comes together, also where it is more than one call tells of") {
    tern::run_loop home;
    tern::heap_arena ram;
    tern::emulated_device gpu{{.capacity = 64_KiB}};
    constexpr std::size_t count = 40; // 16 at a time
    tern::test::counting_source file(count * 256);
    tern::residency_store store{home, ram};
    for (std::size_t e = 0; e < count; ++e) store.add("experts", {.file = &file, .offset = e * 256}, 256_B);
    using streamed = tern::tensor<tern::formats<tern::f32>, tern::tiers<tern::vram>, tern::staged<4_KiB, 2>>;
    const streamed w{store, 0, 0, {.rows = 1, .cols = 64, .experts = count}, "experts"};
    for (std::size_t e = 0; e < count; ++e) CHECK_FALSE(w.readable(gpu, e));
    w.expect(gpu, 1, 38);
    w.expect(gpu, 5, 0);
    home.run(store.drain());
    for (std::size_t e = 0; e < count; ++e) CHECK(w.readable(gpu, e) == (e >= 1 && e < 39));
    CHECK(store.counters(gpu).arrivals == 38);
    CHECK(store.counters(gpu).transfers == 3); // neighbours: 16, 16 and 6
    for (const std::size_t e : {1u, 16u, 17u, 38u}) {
        const auto raw = home.run(bytes_of(w, gpu, e));
        CHECK(std::memcmp(raw.data(), file.data.data() + e * 256, 256) == 0);
        CHECK_FALSE(w.readable(gpu, e)); // gone with its use
    }
    CHECK(file.bytes_read == 38 * 256);
    const plain mine = plain::own<tern::f32>(ram, std::vector<float>(64), {1, 64});
    tern::cpu_device cpu{ram, 1};
    mine.expect(cpu, 0, 1); // nothing to bring
    CHECK(mine.readable(cpu));
    CHECK(mine.bandwidth_to(gpu) == tern::bytes_per_second{});
}
