#include <tern/memory/heap_arena.hpp>
#include <tern/profile/bench.hpp>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>

using namespace tern::literals;

namespace {

struct two {
    tern::run_loop home;
    tern::heap_arena ram{tern::unlimited};
    tern::cpu_device cpu{ram, 1};
    tern::emulated_device gpu{{.capacity = 1_MiB, .launch = 2.0_ms}};
    tern::context ctx{home, cpu};
};

const tern::call_kind matrix{.op = "linear", .weights = {{"q8_0", 96, 64}}, .in = 64, .out = 96, .times = 1};

} // namespace

TEST_CASE("profile/bench: every operator that decoders call can be made alone") {
    two t;
    const std::string_view none[] = {"add", "soft_cap", "rope", "rope_angles", "select_rows"};
    const tern::call_details how{.heads = 4, .kv_heads = 2, .head_dim = 16};
    std::vector<tern::call_kind> kinds{
        matrix,
        {.op = "linear", .weights = {{"q8_0", 96, 64}, {"f32", 1, 96}}, .in = 64, .out = 96},
        {.op = "gated_linear", .weights = {{"f16", 96, 64}, {"f16", 96, 64}}, .in = 64, .out = 96},
        {.op = "rms_norm", .weights = {{"f32", 1, 64}}, .in = 64, .out = 64},
        {.op = "embed", .weights = {{"q4_0", 50, 64}}, .in = 64, .out = 64},
        {.op = "attention", .in = 64, .out = 64},
        {.op = "route", .weights = {{"f32", 8, 64}}, .in = 64, .out = 8, .used = 2},
        {.op = "experts",
         .weights = {{"q8_0", 32, 64}, {"q8_0", 32, 64}, {"q8_0", 64, 32}},
         .in = 64,
         .out = 64,
         .used = 2}};
    for (const std::string_view op : none) kinds.push_back({.op = op, .in = 64, .out = 64});
    for (const tern::call_kind& k : kinds)
        for (tern::device* on : {static_cast<tern::device*>(&t.cpu), static_cast<tern::device*>(&t.gpu)}) {
            CAPTURE(k.op);
            tern::call_bench<> bench(t.ctx, *on, k, how, 100_KiB);
            if (k.op == "attention") bench.deepen(5, 3, 2, 1_MiB);
            for (const std::size_t tokens : {1, 3, 1}) {
                const double took = t.home.run(bench.once(tokens)).count;
                const bool on_host = k.op == "attention" || k.op == "rope_angles";
                CHECK(took >= (on == &t.gpu && !on_host ? 2e-3 : 0)); // it was there
            }
        }
    CHECK(t.gpu.memory().budget().used() < 1_MiB); // the context's pools stay
    CHECK_THROWS_AS((tern::call_bench<>(t.ctx, t.cpu, {.op = "fold"}, {}, 1_KiB)), tern::unsupported_error);
    CHECK_THROWS_AS(
        t.home.run(tern::call_bench<>(t.ctx, t.cpu, {.op = "attention", .in = 64, .out = 64}, how, 1_KiB).once(1)),
        tern::config_error);
}

TEST_CASE("profile/bench: a matrix that is larger than its room is cut to fewer rows, and says so") {
    two t;
    tern::call_bench<> whole(t.ctx, t.cpu, matrix, {}, 100_KiB);
    CHECK(whole.weight_bytes() == tern::bytes{96 * 2 * 34});
    CHECK_FALSE(whole.is_cut());
    tern::call_bench<> half(t.ctx, t.cpu, matrix, {}, {96 * 34});
    CHECK(half.weight_bytes() == tern::bytes{48 * 2 * 34});
    CHECK(half.is_cut());
    CHECK(t.home.run(half.once(2)).count >= 0);
    const tern::call_kind odd{.op = "linear", .weights = {{"q9", 96, 64}}, .in = 64, .out = 96};
    CHECK_THROWS_AS((tern::call_bench<>(t.ctx, t.cpu, odd, {}, 1_KiB)), tern::unsupported_error);
}
