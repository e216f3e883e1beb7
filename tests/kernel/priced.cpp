#include <tern/kernel/priced.hpp>

#include <doctest/doctest.h>

using namespace tern::kernel;

TEST_CASE("kernel/priced: latent attention counts the keys that each token sees") {
    // Three tokens behind two others see 3, 4 and 5 keys.
    const amount n = latent_attention::work({.tokens = 3, .seen = 5, .heads = 2, .kv_rank = 8, .rope_dim = 4});
    CHECK(n.operations == 2.0 * 2 * (8 + 4 + 8) * (3 + 4 + 5));
    CHECK(n.other_bytes == 4.0 * (5 * 12 + 2 * 3 * 2 * 8));
}

TEST_CASE("kernel/priced: linear attention does not grow with the context") {
    const amount n = delta_attention::work({.tokens = 3, .value_heads = 2, .key_dim = 4, .value_dim = 8});
    CHECK(n.operations == 8.0 * 2 * 4 * 8 * 3);
    CHECK(n.other_bytes == 4.0 * (2 * 2 * 4 * 8 + 3 * 2 * (2 * 4 + 2 * 8)));
}
