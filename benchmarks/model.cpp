// model: prefill and decode tokens per second of one model, after a check that its logits do not depend on the batch.
//
//     bench_model MODEL.gguf --prompt 128 --tokens 32 --threads 2        one JSON object a repetition
#include <algorithm>
#include <chrono>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <tern/base/json_writer.hpp>
#include <tern/file/open_checkpoint.hpp>
#include <tern/model/generate.hpp>
#include <tern/model/open_decoder.hpp>
#include <tern/model/runtime.hpp>
#include <tern/op/paged_cache.hpp>
#include <tern/plan/first_fit.hpp>

#include "../examples/options.hpp"

namespace {

constexpr const char* help = R"(model: times prefill and decode of a model and prints a JSON object for each repetition.

usage: bench_model MODEL.gguf [--prompt N (128)] [--tokens N (32)] [--threads N] [--vram SIZE] [--repeat N (1)]
                              [--activations f32|q8]

Before anything is timed the logits of the last prompt token are computed twice, in one batch and in
batches of five, and must be equal bit for bit.
)";

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct bench {
    tern::runtime& run;
    const tern::decoder& model;
    std::vector<std::int32_t> prompt;

    tern::activation feed(tern::any_cache& cache, std::size_t batch) {
        tern::activation y =
            run.loop().run(tern::prefill(run.ctx(), model, cache, std::span<const std::int32_t>(prompt), batch));
        return run.loop().run(run.ctx().bring(std::move(y), run.cpu()));
    }

    void validate() {
        std::vector<float> logits[2];
        for (const std::size_t batch : {prompt.size(), std::size_t{5}}) {
            tern::paged_cache pages(run.ram(), model.config().cache_for(prompt.size()));
            tern::any_cache cache(pages);
            const tern::activation y = feed(cache, batch);
            logits[batch == prompt.size() ? 0 : 1].assign(y.data(), y.data() + y.cols());
        }
        if (logits[0] != logits[1]) throw tern::error("the logits depend on the size of the batch: nothing was timed");
    }

    std::string once(std::size_t tokens) {
        tern::paged_cache pages(run.ram(), model.config().cache_for(prompt.size() + tokens));
        tern::any_cache cache(pages);
        const double begin = now();
        tern::activation y = feed(cache, 512);
        const double middle = now();
        tern::batch b;
        for (std::size_t i = 0; i < tokens; ++i) {
            const float* best = std::max_element(y.data(), y.data() + y.cols());
            b.clear();
            b.add(static_cast<std::int32_t>(best - y.data()), prompt.size() + i);
            y = run.loop().run(model.forward(run.ctx(), b, cache));
            y = run.loop().run(run.ctx().bring(std::move(y), run.cpu()));
        }
        const double end = now();
        tern::json_writer json;
        json.begin_object();
        json.member("prefill_tps", static_cast<double>(prompt.size()) / (middle - begin));
        json.member("decode_tps", static_cast<double>(tokens) / (end - middle));
        json.member("threads", run.cpu().workers());
        json.member("activations", std::string(name_of(run.ctx().activations())));
        json.member("path", std::string(tern::kernel::slot<tern::kernel::linear, tern::f32>.get().path));
        json.end_object();
        return std::move(json).take();
    }
};

void run_program(const options& args) {
    if (args.plain().empty()) throw usage_error{help};
    const tern::checkpoint file = tern::open_checkpoint(args.plain()[0]);
    tern::runtime run({.threads = args.whole("threads", 0),
                       .vram = args.size("vram", {}),
                       .activations = tern::activation_policy_named(args.text("activations", "f32"))});
    const std::unique_ptr<tern::decoder> model = tern::open_decoder(file, run.store());
    const tern::graph graph = tern::record(*model, run.loop(), run.cpu(), 64, run.ctx().activations());
    run.load(tern::first_fit{}.place(graph, run.machine()), graph);
    bench b{run, *model, {}};
    for (std::uint64_t i = 0; i < std::max<std::uint64_t>(args.whole("prompt", 128), 1); ++i)
        b.prompt.push_back(
            static_cast<std::int32_t>(i * 7919 % std::min<std::size_t>(model->config().vocabulary, 1000)));
    b.validate();
    for (std::uint64_t i = 0; i < args.whole("repeat", 1); ++i)
        std::cout << b.once(std::max<std::uint64_t>(args.whole("tokens", 32), 1)) << std::endl;
}

} // namespace

int main(int argc, char** argv) {
    try {
        const options args(argc, argv, {"prompt", "tokens", "threads", "vram", "repeat", "activations"}, {"help"});
        if (args.on("help"))
            std::cout << help;
        else
            run_program(args);
    } catch (const usage_error& e) {
        std::cerr << e.help;
        return 1;
    } catch (const std::exception& e) {
        std::cerr << "model: " << e.what() << "\n";
        return 1;
    }
}
