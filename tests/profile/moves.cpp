#include <tern/profile/moves.hpp>

#include <string>

#include <doctest/doctest.h>

#include "support/model.hpp"

using namespace tern::literals;

namespace {

const std::string mixture = std::string(TERN_SOURCE_DIR) + "/examples/data/tiny-moe.gguf";
const tern::location ram{tern::tier_of<tern::pageable>, 0, 0};
const tern::location vram{tern::tier_of<tern::vram>, 0, 0};
const tern::location mapped{tern::tier_of<tern::mapped>, 0, 0};
const tern::location direct{tern::tier_of<tern::direct>, 0, 0};

} // namespace

TEST_CASE("profile/moves: weights and activations are measured over the link, in no less than it takes") {
    tern::test::model m(mixture, {.threads = 1, .vram = 1_MiB, .bandwidth = {20e6}, .latency = {1e-3}});
    const tern::graph g = m.record();
    tern::profile p;
    tern::profile_moves(m.run().loop(), m.run().devices(), m.run().store(), g,
                        {.activations = {{8}, {10'000}}, .sizes = 3, .limits = {.least = 2, .most = 2}}, p);
    std::size_t weights = 0, in = 0, out = 0;
    for (const tern::move_sample& s : p.moves) {
        CHECK(s.time.count >= 1e-3 + double(s.size.count) / 20e6);
        weights += s.what == tern::cargo::weights && s.from == mapped && s.to == vram ? 1 : 0;
        in += s.what == tern::cargo::activations && s.from == ram && s.to == vram ? 1 : 0;
        out += s.what == tern::cargo::activations && s.from == vram && s.to == ram ? 1 : 0;
    }
    CHECK(weights == 3);
    CHECK(in == 2);
    CHECK(out == 2);
    CHECK(p.moves.size() == 7);
    CHECK(m.run().accelerator()->memory().budget().used() == 0_B);
}

TEST_CASE("profile/moves: what is read past the page cache comes to RAM too") {
    tern::test::model m(mixture, {.threads = 1});
    const tern::graph g = m.record();
    tern::profile p;
    tern::profile_moves(m.run().loop(), m.run().devices(), m.run().store(), g,
                        {.from = direct, .sizes = 2, .limits = {.least = 1, .most = 1}}, p);
    REQUIRE(p.moves.size() == 2);
    for (const tern::move_sample& s : p.moves) {
        CHECK(s.from == direct);
        CHECK(s.to == ram);
        CHECK(s.what == tern::cargo::weights);
        CHECK(s.time.count > 0);
    }
    CHECK(p.moves[0].size < p.moves[1].size);
    tern::profile none;
    tern::profile_moves(m.run().loop(), m.run().devices(), m.run().store(), g, {.sizes = 2}, none);
    CHECK(none.moves.empty()); // from a mapping the host computes in place
}
