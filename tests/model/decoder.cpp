#include <tern/model/decoder.hpp>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tern/op/contiguous_cache.hpp>

#include <support/data.hpp>
#include <support/model.hpp>

namespace test = tern::test;

namespace {

/// A decoder of a user's own: its logits are the positions of the tokens.
struct positions {
    tern::decoder_config about{};

    const tern::decoder_config& config() const { return about; }
    template <tern::kv_cache Cache>
    tern::task<tern::activation> forward(tern::context& ctx, const tern::batch& b, Cache& cache) const {
        cache.reserve(b);
        tern::activation y = ctx.make(ctx.host(), b.outputs.size(), 1);
        for (std::size_t i = 0; y.data() != nullptr && i < b.outputs.size(); ++i)
            y.data()[i] = static_cast<float>(b.positions[static_cast<std::size_t>(b.outputs[i])]);
        co_return y;
    }
};

struct without_config {
    tern::task<tern::activation> forward(tern::context&, const tern::batch&, tern::null_cache&) const;
};
struct another_result : positions {
    tern::task<void> forward(tern::context&, const tern::batch&, tern::null_cache&) const;
};
static_assert(tern::decoder_model<positions> && tern::decoder_model<tern::decoder>);
static_assert(!tern::decoder_model<without_config> && !tern::decoder_model<another_result>);
static_assert(!tern::decoder_model<int> && !std::is_copy_constructible_v<tern::decoder>);

} // namespace

TEST_CASE("model/decoder: a decoder of a user's own behind the interface, over any cache") {
    tern::runtime run({.threads = 1});
    const tern::decoder_of<positions> own(positions{});
    const tern::decoder& model = own;
    tern::contiguous_cache kv(run.ram(), {.layers = 1, .width = 1, .context = 8});
    tern::batch b;
    b.add(std::vector<std::int32_t>{4, 4, 4}, 0, 0, true);
    const tern::activation y = run.loop().run(model.forward(run.ctx(), b, kv));
    REQUIRE(y.rows() == 3);
    CHECK(y.data()[2] == 2);
    CHECK(kv.length(0) == 3);
}

TEST_CASE("model/decoder: recording makes a graph without touching a cache or memory") {
    test::model m(test::source_file("tests/data/logits/qwen2.gguf"), {.threads = 1});
    const tern::graph g = tern::record(m.decode(), m.run().loop(), m.run().cpu(), 3);
    CHECK(g.nodes.front().rows == 3);
    CHECK(g.nodes.back().rows == 1);
    CHECK(m.run().ram().budget().peak() == tern::bytes{});
}
