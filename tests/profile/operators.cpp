#include <tern/profile/operators.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/data.hpp"
#include "support/model.hpp"
#include <tern/cost/profile_json.hpp>
#include <tern/file/open_checkpoint.hpp>
#include <tern/plan/all_cpu.hpp>
#include <tern/plan/estimate.hpp>
#include <tern/plan/expert_offload.hpp>
#include <tern/plan/first_fit.hpp>
#include <tern/plan/layer_stream.hpp>
#include <tern/profile/moves.hpp>
#include <tern/profile/probe.hpp>

using namespace tern::literals;

namespace {

const std::string mixture = std::string(TERN_SOURCE_DIR) + "/examples/data/tiny-moe.gguf";

struct counter final : tern::profile_listener {
    std::size_t done = 0, of = 0;
    bool in_order = true;
    void measured(std::size_t now, std::size_t total, std::string_view what) override {
        in_order = in_order && now == done + 1 && now <= total && !what.empty();
        done = now;
        of = total;
    }
};

tern::profile_options quick(const tern::decoder_config& c) {
    return {.tokens = {1, 4},
            .depths = {1, 8},
            .cache_per_token = {8 * c.layers * c.kv_heads * c.head_dim},
            .working_set = 1_MiB,
            .details = {.heads = c.heads, .kv_heads = c.kv_heads, .head_dim = c.head_dim},
            .limits = {.least = 1, .most = 1, .each = {0.0}}};
}

} // namespace

TEST_CASE("profile/operators: what is measured prices every call of a mixture, on both processors") {
    tern::test::model m(mixture, {.threads = 1, .vram = 4_MiB, .bandwidth = {1e9}, .launch = {1e-3}});
    const tern::graph g = m.record();
    const tern::machine here = tern::describe_machine(m.run().devices(), m.run().machine());
    const tern::profile_options how = quick(m.config());
    counter told;
    tern::measured_operators got = tern::profile_operators(m.run().loop(), m.run().devices(), here, g, how, &told);
    CHECK(got.left_out.empty());
    CHECK(told.in_order);
    CHECK(told.done == told.of);
    CHECK(told.of > 0);
    tern::profile_moves(m.run().loop(), m.run().devices(), m.run().store(), g, {.limits = {.least = 1, .most = 1}},
                        got.table);
    CHECK(m.run().accelerator()->memory().budget().used() == 0_B); // nothing stays

    // Each operator of the accelerator takes at least what that is told to take.
    for (const tern::run_sample& s : got.table.runs)
        if (s.processor == here.processors[1].name && s.op != "attention" && s.op != "rope_angles") // the host's
            CHECK(s.time.count >= 1e-3);
    for (const tern::launch_sample& l : got.table.launches) CHECK(l.time.count > 0);
    REQUIRE(got.table.launches.size() == 2);

    const tern::profile again = tern::parse_profile(tern::to_json(got.table));
    const tern::profiled cost(again, here);
    tern::estimate_options ask{.shape = {.tokens = 1, .context = 5, .cache_per_token = how.cache_per_token}};
    const auto total = [&](const tern::placement& p) { return tern::estimate(g, p, here, cost, ask).total.count; };
    const double cpu = total(tern::all_cpu{}.place(g, here));
    CHECK(cpu > 0);
    CHECK(total(tern::first_fit{}.place(g, here)) >= 1e-3 * 5 * double(m.config().layers));
    CHECK(total(tern::layer_stream{.from = tern::tier_of<tern::mapped>}.place(g, here)) > 0);
    CHECK(total(tern::expert_offload{}.place(g, here)) > 0);
    ask.shape.tokens = 3;
    CHECK(total(tern::all_cpu{}.place(g, here)) > 0);

    // Another accelerator is another machine.
    tern::test::model other(mixture, {.threads = 1, .vram = 4_MiB, .bandwidth = {2e9}});
    CHECK_THROWS_AS(tern::profiled(again, tern::describe_machine(other.run().devices(), other.run().machine())),
                    tern::config_error);
}

TEST_CASE("profile/operators: a sample is measured once however many calls of a graph are alike") {
    tern::test::model m(mixture, {.threads = 1});
    const tern::graph g = m.record();
    const tern::machine here = tern::describe_machine(m.run().devices(), m.run().machine());
    const auto got = tern::profile_operators(m.run().loop(), m.run().devices(), here, g, quick(m.config()));
    CHECK(got.table.machine == tern::fingerprint(here));
    for (const tern::run_sample& a : got.table.runs)
        CHECK(std::count_if(got.table.runs.begin(), got.table.runs.end(), [&](const tern::run_sample& b) {
                  return a.op == b.op && a.format == b.format && a.processor == b.processor && a.tokens == b.tokens &&
                         a.size == b.size;
              }) == 1);
    for (const tern::graph_node& n : g.nodes)
        CHECK(std::any_of(got.table.runs.begin(), got.table.runs.end(),
                          [&](const tern::run_sample& s) { return s.op == n.op; }));
}

TEST_CASE("profile/operators: what makes no sense is refused, and unknown operators are left out by name") {
    tern::test::model m(mixture, {.threads = 1});
    tern::graph g = m.record();
    const tern::machine here = tern::describe_machine(m.run().devices(), m.run().machine());
    const auto measure = [&](const tern::profile_options& how) {
        return tern::profile_operators(m.run().loop(), m.run().devices(), here, g, how);
    };
    tern::profile_options how = quick(m.config());
    how.tokens.clear();
    CHECK_THROWS_AS(measure(how), tern::config_error);
    how.tokens = {0};
    CHECK_THROWS_AS(measure(how), tern::config_error);
    how = quick(m.config());
    how.rounds = 0;
    CHECK_THROWS_AS(measure(how), tern::config_error);
    how = quick(m.config());
    g.nodes.resize(1);
    g.nodes[0].op = "fold";
    const auto got = measure(how);
    REQUIRE(got.left_out.size() == 1);
    CHECK(got.left_out[0].find("\"fold\"") != std::string::npos);
}
