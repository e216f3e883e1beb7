// From a model file to text: open, record, place, explain, load, generate.
#include <cstdint>
#include <iostream>
#include <vector>

#include <tern/file/open_checkpoint.hpp>
#include <tern/model/open_decoder.hpp>
#include <tern/model/runtime.hpp>
#include <tern/op/sampler.hpp>
#include <tern/tern.hpp>
using namespace tern::literals;

int main() try {
    const tern::checkpoint file = tern::open_checkpoint("examples/data/tiny.gguf"); // no weight is read yet
    tern::runtime run({.vram = 1_MiB});                                             // an emulated accelerator
    const auto model = tern::open_decoder(file, run.store());
    const tern::graph graph = tern::record(*model, run.loop(), run.cpu(), 64);
    const tern::placement plan = tern::first_fit{}.place(graph, run.machine());
    std::cout << tern::explain(plan, graph, run.machine()); // what goes where, and why
    run.load(plan, graph);

    tern::paged_cache cache(run.ram(), model->config().cache_for(32));
    tern::sampler choose({.temperature = 0});
    std::vector<std::int32_t> tokens = {1};
    run.loop().run(tern::generate(run.ctx(), *model, cache, tokens, choose, {.tokens = 16}, [](std::int32_t token) {
        return bool(std::cout << token << ' ' << std::flush); // false ends it
    }));
    std::cout << '\n';
} catch (const tern::error& e) {
    std::cerr << e.what() << '\n'; // the path, the tensor, what was needed and what there is
    return 1;
}
