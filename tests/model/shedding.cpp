// The context grows beyond what was planned for on a tight device: weights leave, and the tokens stay the same.
#include <tern/model/shedding.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/model/generate.hpp>
#include <tern/op/paged_cache.hpp>
#include <tern/op/sampler.hpp>
#include <tern/plan/first_fit.hpp>

#include <support/data.hpp>
#include <support/model.hpp>

namespace test = tern::test;
using namespace tern::literals;

namespace {

/// A cache in an accelerator's memory, where attention is computed.
class cache_there : public tern::paged_cache {
public:
    cache_there(tern::device& on, const tern::kv_shape& shape) : tern::paged_cache(on.memory(), shape, 8), on_(on) {}
    tern::device* computes_on(std::size_t) const noexcept { return &on_; }

private:
    tern::device& on_;
};

const std::vector<std::int32_t> prompt = {1, 17, 50, 3, 99};
constexpr std::size_t count = 150;

std::vector<std::int32_t> written(test::model& m, const auto& decoder, auto& cache) {
    std::vector<std::int32_t> tokens = prompt;
    tern::sampler choose({.temperature = 0});
    tern::any_cache any(cache);
    m.run().loop().run(tern::generate(m.run().ctx(), decoder, any, tokens, choose, {.tokens = count},
                                      [](std::int32_t) { return true; }));
    return tokens;
}

} // namespace

TEST_CASE("model/shedding: decoding goes on beyond the planned context, with the same tokens") {
    for (const char* name : {"llama_untied", "llama_moe"}) {
        CAPTURE(name);
        const std::string path = test::source_file(std::string("tests/data/logits/") + name + ".gguf");
        test::model plain(path);
        tern::contiguous_cache everywhere = plain.cache(200);
        const std::vector<std::int32_t> expected = written(plain, plain.decode(), everywhere);

        const tern::kv_shape shape = plain.config().cache_for(200);
        const tern::bytes per_token = tern::paged_cache::bytes_of_page(shape, 8);
        const tern::bytes each{per_token.count / 8};
        // Room for all weights that go there, what operators need, and a cache of 16 tokens.
        const tern::graph first = plain.record();
        const tern::bytes vram = first.weight_bytes() + first.activation_room() + each * 16 + 64_KiB;
        test::model tight(path, {.threads = 2, .vram = vram});
        const tern::graph g = tight.record();
        const tern::kept_free keep{.cache_per_token = each, .context = 16, .besides = 32_KiB};
        const tern::placement plan = tern::first_fit{.keep = keep}.place(g, tight.run().machine());
        tight.run().load(plan, g);
        {
            cache_there cache(*tight.run().accelerator(), shape);
            const tern::shedding_decoder longer(tight.decode(), tight.run(), plan, g,
                                                {.cache_per_token = each, .context = 16, .step = 16});
            CHECK(written(tight, longer, cache) == expected);
            CHECK(longer.context() >= prompt.size() + count - 1);
            const tern::location there{tern::tier_of<tern::vram>, 0, 0};
            CHECK(longer.plan().bytes_at(g, there) + each * (longer.context() - 16) <= plan.bytes_at(g, there));
            CHECK(longer.plan().bytes_at(g, there).count > 0);
        }
    }
}
