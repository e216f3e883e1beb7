// A mixture of 122e9 parameters on a desktop: what automatic gains over layer split, and how near it is to the least
// time.
#include <algorithm>
#include <cstddef>
#include <memory>

#include <doctest/doctest.h>

#include <tern/cost/presets.hpp>
#include <tern/model/decoder.hpp>
#include <tern/plan/automatic.hpp>
#include <tern/plan/bound.hpp>
#include <tern/plan/layer_upload.hpp>
#include <tern/sim/described_decoder.hpp>
#include <tern/sim/described_file.hpp>
#include <tern/sim/simulation.hpp>

#include <support/data.hpp>

namespace {

struct desktop {
    tern::cost_by<tern::roofline> priced{tern::roofline(tern::machines::rtx4090_64g())};
    tern::simulation sim{tern::machines::rtx4090_64g(), priced};
    tern::model_description description =
        tern::read_description(tern::test::source_file("examples/models/qwen3.5-122b-a10b-int4.json"));
    tern::checkpoint file = tern::described_file(description);
    std::unique_ptr<tern::decoder> model = tern::open_described(description, file, sim.store());
    tern::graph graph = tern::record(*model, sim.loop(), sim.host(), 512);
    tern::roofline cost{tern::machines::rtx4090_64g()};

    desktop() { sim.reserve_cache(*model, graph, 2048); }

    tern::chain_options options(std::size_t tokens) const {
        tern::chain_options o;
        o.how.shape.tokens = tokens;
        o.how.shape.context = tokens == 1 ? 2048 : 0;
        o.how.shape.habits = tern::overlapped_engine;
        return o;
    }
    double split(std::size_t tokens) const {
        tern::chain_options o = options(tokens);
        o.how.shape.habits.serial_uploads = true;
        const tern::layer_split alone{.layers = tern::layer_split::as_many_as_fit};
        const auto time = [&](const tern::placement& p) {
            return tern::estimate(graph, p, sim.machine(), cost, o.how).total.count;
        };
        return std::min(time(alone.place(graph, sim.machine())),
                        time(tern::layer_upload{}.place_for(tokens, graph, sim.machine())));
    }
    double automatic(std::size_t tokens) const {
        const tern::chain_options o = options(tokens);
        const tern::placement p = tern::automatic<>{cost, o}.place(graph, sim.machine());
        return tern::estimate(graph, p, sim.machine(), cost, o.how).total.count;
    }
    double least(std::size_t tokens, tern::least_of what) const {
        const tern::chain_options o = options(tokens);
        return tern::least_time(graph, sim.machine(), cost, o.how, {}, o.into, {o.rest, 0, 0}, what).count;
    }
};

} // namespace

TEST_CASE(
    "sim/desktop: automatic is 3.3 times as fast as layer split for single tokens, or within 10% of their bytes") {
    const desktop d;
    const double mine = d.automatic(1), split = d.split(1), least = d.least(1, tern::least_of::bytes);
    MESSAGE("a token: " << mine << " s, layer split " << split / mine << " times, least " << mine / least);
    CHECK((split >= 3.3 * mine || mine <= 1.1 * least));
    CHECK(mine >= least);
    CHECK(split >= 2.9 * mine);
}

TEST_CASE("sim/desktop: of a prompt it is within 10% of what bytes and arithmetic take") {
    const desktop d;
    const double mine = d.automatic(512), split = d.split(512), least = d.least(512, tern::least_of::arithmetic);
    MESSAGE("512 tokens: " << mine << " s, layer split " << split / mine << " times, least " << mine / least);
    CHECK(mine <= 1.1 * least);
    CHECK(mine >= least);
    CHECK(split >= 1.5 * mine);
}
