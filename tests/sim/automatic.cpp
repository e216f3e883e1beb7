// automatic on every preset and every description of a model.
#include <tern/plan/automatic.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/cost/presets.hpp>
#include <tern/model/decoder.hpp>
#include <tern/plan/first_fit.hpp>
#include <tern/sim/described_decoder.hpp>
#include <tern/sim/described_file.hpp>
#include <tern/sim/simulation.hpp>

#include <support/sanitized.hpp>

namespace {

/// The graph of a described model, with its machine less the room of a cache of 2048 tokens.
struct described_run {
    explicit described_run(const std::string& path, const tern::machine& on)
        : cost{tern::roofline(on)}, sim(on, cost), description(tern::read_description(path)),
          file(tern::described_file(description)), model(tern::open_described(description, file, sim.store())),
          graph(tern::record(*model, sim.loop(), sim.host(), 512)) {
        sim.reserve_cache(*model, graph, 2048);
    }
    tern::cost_by<tern::roofline> cost;
    tern::simulation sim;
    tern::model_description description;
    tern::checkpoint file;
    std::unique_ptr<tern::decoder> model;
    tern::graph graph;
};

tern::chain_options options_of(std::size_t tokens) {
    tern::chain_options o;
    o.how.shape = {.tokens = tokens, .context = tokens == 1 ? 2048u : 0u, .habits = {.cache_on_host = false}};
    return o;
}

double price(const tern::placement& p, const described_run& r, tern::chain_options o, tern::on_miss how) {
    o.how.misses = how;
    return tern::estimate(r.graph, p, r.sim.machine(), tern::roofline(r.sim.machine()), o.how).total.count;
}

const std::string models = std::string(TERN_SOURCE_DIR) + "/examples/models/";

// All that there is, but one in five under sanitizers: they look at memory, and take ten times as long.
#if defined(TERN_TEST_SANITIZED)
constexpr std::size_t every = 5;
#else
constexpr std::size_t every = 1;
#endif

} // namespace

TEST_CASE("sim/automatic: on no preset and no model slower by more than 3% than the best of the others") {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(models)) paths.push_back(entry.path().string());
    std::sort(paths.begin(), paths.end());
    REQUIRE(paths.size() >= 13);
    std::size_t number = 0;
    for (const std::string name : {"rtx3060_laptop", "rtx4090_64g", "rtx6000_ada_nvme", "h100", "h200", "cpu2"})
        for (const std::string& path : paths)
            for (const std::size_t tokens : {1, 512}) {
                if (number++ % every != 0) continue;
                CAPTURE(name);
                CAPTURE(path);
                CAPTURE(tokens);
                const described_run r(path, *tern::machines::named(name));
                const tern::machine& m = r.sim.machine();
                const tern::chain_options o = options_of(tokens);
                const tern::automatic<> policy{{}, o};
                const tern::placement mine = policy.place(r.graph, m);
                tern::check(mine, r.graph, m);
                const double best = price(mine, r, o, tern::on_miss::fetch);
                const auto compare = [&](const auto& other, tern::on_miss how = tern::on_miss::fetch) {
                    const tern::placement p = other.place(r.graph, m);
                    try {
                        tern::check(p, r.graph, m);
                    } catch (const tern::budget_error&) { return; }
                    CAPTURE(p.policy);
                    CHECK(best <= 1.03 * price(p, r, o, how));
                };
                compare(tern::all_cpu{});
                compare(tern::first_fit{});
                compare(
                    tern::layer_split{.layers = m.room_at(o.into).count == 0 ? 0 : tern::layer_split::as_many_as_fit});
                compare(tern::by_tensor{policy.prices(m), o});
                for (const tern::tier_info& from : {tern::tier_of<tern::mapped>, tern::tier_of<tern::direct>}) {
                    compare(tern::layer_stream{.from = from});
                    for (const tern::on_miss how : {tern::on_miss::fetch, tern::on_miss::compute, tern::on_miss::split})
                        compare(tern::expert_offload{.from = from}, how);
                    for (const tern::expert_choice which :
                         {tern::expert_choice::uniform, tern::expert_choice::first_layers,
                          tern::expert_choice::last_layers})
                        compare(tern::expert_offload{.from = from, .experts = which});
                }
            }
}
