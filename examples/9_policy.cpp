// A placement policy of one's own: a struct with a name and `place`. Attention stays on the accelerator; the matrices
// of the feed-forward networks, the larger part, lie on the disk and are brought through a window for each use.
#include <iostream>

#include <tern/file/open_checkpoint.hpp>
#include <tern/memory/open_reader.hpp>
#include <tern/model/open_decoder.hpp>
#include <tern/model/runtime.hpp>
#include <tern/op/sampler.hpp>
#include <tern/plan/roles.hpp>
#include <tern/tern.hpp>
using namespace tern::literals;

struct attention_stays {
    static constexpr std::string_view name = "attention_stays";
    tern::bytes window{}; // of the accelerator's memory, for what is on its way

    tern::placement place(const tern::graph& g, const tern::machine& m) const {
        const tern::location gpu{tern::tier_of<tern::vram>}, disk{tern::tier_of<tern::direct>};
        tern::placement p = tern::all_cpu{}.place(g, m); // what is not named below is read where it is mapped
        p.policy = name;
        for (std::size_t t = 0; t < g.tensors.size(); ++t) {
            const std::string& tensor = g.tensors[t].name;
            if (tensor.find(".attn") != tensor.npos) p.tensors[t] = {gpu, "attention stays", {}};
            if (tensor.find(".ffn") != tensor.npos) p.tensors[t] = {disk, "brought for each use", gpu};
        }
        p.pools.push_back({.where = gpu, .limit = window});
        return p;
    }
};
static_assert(tern::placement_policy<attention_stays>);

int main() try {
    const tern::checkpoint file = tern::open_checkpoint("examples/data/tiny.gguf");
    const auto reader = tern::open_reader(); // past the page cache where the system can; outlives the runtime
    tern::runtime run({.ram = 4_MiB, .vram = 1_MiB, .disk = reader.get()});
    const auto model = tern::open_decoder(file, run.store());
    const tern::graph graph = tern::record(*model, run.loop(), run.cpu(), 64);
    tern::paged_cache cache(run.ram(), model->config().cache_for(32));
    run.reserve(cache.bytes_for(cache.shape()) + tern::staging_room(graph)); // of RAM, for what is no weight
    const tern::placement plan = attention_stays{.window = 256_KiB}.place(graph, run.machine());
    std::cout << tern::explain(plan, graph, run.machine());
    run.load(plan, graph); // refuses a plan that does not fit the budgets
    tern::sampler choose({.temperature = 0});
    std::vector<std::int32_t> tokens = {1};
    run.loop().run(tern::generate(run.ctx(), *model, cache, tokens, choose, {.tokens = 16},
                                  [](std::int32_t token) { return bool(std::cout << token << ' '); }));
    std::cout << '\n';
} catch (const tern::error& e) { return std::cerr << e.what() << '\n', 1; }
