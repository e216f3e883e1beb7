#include <tern/plan/kept_free.hpp>

#include <cstddef>
#include <limits>

#include <doctest/doctest.h>

#include <tern/base/error.hpp>
#include <tern/plan/expert_offload.hpp>
#include <tern/plan/first_fit.hpp>
#include <tern/plan/layer_split.hpp>
#include <tern/plan/layer_stream.hpp>

#include "support.hpp"

namespace test = tern::test;

TEST_CASE("plan/kept_free: the room of weights is less by the cache, which grows with the context") {
    const tern::graph g = test::layers(); // activations need 500
    const tern::machine m = test::with({10'000});
    CHECK(tern::weight_room(g, m, test::vram0, {}).count == 9500);
    CHECK(tern::weight_room(g, m, test::vram0, {.cache_per_token = {7}, .context = 100}).count == 8800);
    CHECK(tern::weight_room(g, m, test::vram0, {.cache_per_token = {7}, .context = 200, .besides = {1000}}).count ==
          7100);
    CHECK(tern::weight_room(g, m, test::vram0, {.cache_per_token = {7}, .context = 2000}).count == 0);
    CHECK(tern::weight_room(g, test::with(tern::unlimited), test::vram0, {.besides = {1000}}) == tern::unlimited);
    CHECK_THROWS_AS(
        tern::weight_room(g, m, test::vram0,
                          {.cache_per_token = {1 << 20}, .context = std::numeric_limits<std::size_t>::max()}),
        tern::shape_error);
}

namespace {

/// What weights and pools take of vram where `n` tokens are kept free.
std::uint64_t taken(const auto& policy, const tern::graph& g, const tern::machine& m) {
    const tern::placement p = policy.place(g, m);
    const bool sound = test::sound(p, g, m);
    CHECK(sound);
    return (p.bytes_at(g, test::vram0) + p.pool_at(test::vram0)).count;
}

} // namespace

TEST_CASE("plan/kept_free: every policy leaves it, more with a longer context") {
    const tern::graph g = test::mixture();
    const tern::machine m = test::with({600 << 10}, {4 << 20});
    std::uint64_t last[8] = {};
    for (std::size_t context = 0; context <= 1000; context += 100) {
        CAPTURE(context);
        const tern::kept_free keep{.cache_per_token = {300}, .context = context};
        const std::uint64_t now[8] = {
            taken(tern::first_fit{.keep = keep}, g, m),
            taken(tern::layer_split{.layers = tern::layer_split::as_many_as_fit, .keep = keep}, g, m),
            taken(tern::layer_stream{.from = tern::tier_of<tern::mapped>, .keep = keep}, g, m),
            taken(tern::expert_offload{.keep = keep}, g, m),
            taken(tern::expert_offload{.experts = tern::expert_choice::uniform, .keep = keep}, g, m),
            taken(tern::expert_offload{.experts = tern::expert_choice::first_layers, .keep = keep}, g, m),
            taken(tern::expert_offload{.experts = tern::expert_choice::last_layers, .window = {100'000}, .keep = keep},
                  g, m),
            taken(tern::expert_offload{.experts = tern::expert_choice::by_frequency,
                                       .activity = {std::vector<double>(8, 1.0), std::vector<double>(8, 1.0)},
                                       .keep = keep},
                  g, m)};
        for (std::size_t i = 0; i < 8; ++i) {
            CAPTURE(i);
            CHECK(now[i] + 500 + 300 * context <= (600 << 10));
            if (context != 0) CHECK(now[i] <= last[i]);
            last[i] = now[i];
        }
    }
}
