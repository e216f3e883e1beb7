// score: the logits after each token of a given sequence, as raw floats, for comparison with other programs.
//
//     bench_score MODEL.gguf --tokens 1,403,407 --out logits.f32        [tokens, vocabulary] f32
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <tern/file/open_checkpoint.hpp>
#include <tern/model/generate.hpp>
#include <tern/model/open_decoder.hpp>
#include <tern/model/runtime.hpp>
#include <tern/op/paged_cache.hpp>
#include <tern/plan/first_fit.hpp>

#include "../examples/options.hpp"

namespace {

constexpr const char* help = R"(score: writes the logits after each token of a sequence as raw f32 [tokens, vocabulary].

usage: bench_score MODEL.gguf --tokens 1,2,3 --out FILE [--vram SIZE] [--threads N] [--batch N]
                   [--activations f32|q8]
)";

std::vector<std::int32_t> parse_tokens(const std::string& text) {
    std::vector<std::int32_t> tokens;
    for (const char* at = text.c_str(); *at != 0;) {
        char* end = nullptr;
        tokens.push_back(static_cast<std::int32_t>(std::strtol(at, &end, 10)));
        if (end == at || (*end != ',' && *end != 0)) throw tern::config_error("--tokens takes numbers: 1,2,3");
        at = *end == ',' ? end + 1 : end;
    }
    if (tokens.empty()) throw tern::config_error("--tokens is empty");
    return tokens;
}

void run_program(const options& args) {
    if (args.plain().empty() || !args.has("tokens") || !args.has("out")) throw usage_error{help};
    const std::vector<std::int32_t> tokens = parse_tokens(args.text("tokens", ""));
    const tern::checkpoint file = tern::open_checkpoint(args.plain()[0]);
    tern::runtime run({.threads = args.whole("threads", 0),
                       .vram = args.size("vram", {}),
                       .activations = tern::activation_policy_named(args.text("activations", "f32"))});
    const std::unique_ptr<tern::decoder> model = tern::open_decoder(file, run.store());
    const std::size_t size = args.whole("batch", 32);
    const tern::graph graph = tern::record(*model, run.loop(), run.cpu(), size, run.ctx().activations());
    run.load(tern::first_fit{}.place(graph, run.machine()), graph);

    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::fopen(args.text("out", "").c_str(), "wb"),
                                                              &std::fclose);
    if (!out) throw tern::io_error("cannot be written", {.path = args.text("out", "")});
    tern::paged_cache pages(run.ram(), model->config().cache_for(tokens.size()));
    tern::any_cache cache(pages);
    for (std::size_t begin = 0; begin < tokens.size(); begin += size) {
        const std::size_t count = std::min(size, tokens.size() - begin);
        tern::batch b;
        b.add(std::span(tokens).subspan(begin, count), begin, 0, true);
        tern::activation logits = run.loop().run(model->forward(run.ctx(), b, cache));
        logits = run.loop().run(run.ctx().bring(std::move(logits), run.cpu()));
        const std::size_t numbers = logits.rows() * logits.cols();
        if (std::fwrite(logits.data(), sizeof(float), numbers, out.get()) != numbers)
            throw tern::io_error("cannot be written", {.path = args.text("out", "")});
    }
}

} // namespace

int main(int argc, char** argv) {
    try {
        const options args(argc, argv, {"tokens", "out", "vram", "threads", "batch", "activations"}, {"help"});
        if (args.on("help"))
            std::cout << help;
        else
            run_program(args);
    } catch (const usage_error& e) {
        std::cerr << e.help;
        return 1;
    } catch (const std::exception& e) {
        std::cerr << "score: " << e.what() << "\n";
        return 1;
    }
}
