// generate: opens a model file, says where its weights go, and writes text.
//
//     generate MODEL.gguf --prompt "Once upon a time" --vram 8MiB --tokens 100
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

#include <tern/base/json_writer.hpp>
#include <tern/file/llama2c.hpp>
#include <tern/file/open_checkpoint.hpp>
#include <tern/model/generate.hpp>
#include <tern/model/open_decoder.hpp>
#include <tern/model/read_vocabulary.hpp>
#include <tern/model/runtime.hpp>
#include <tern/op/paged_cache.hpp>
#include <tern/op/sampler.hpp>
#include <tern/plan/explain.hpp>
#include <tern/plan/first_fit.hpp>
#include <tern/text/stream.hpp>
#if __has_include(<pcre2.h>)
#include <tern/text/byte_pair.hpp>
#endif

#include "options.hpp"

namespace {

constexpr const char* help = R"(generate: writes text with a language model.

usage: generate [MODEL.gguf] [PROMPT] [options]

  MODEL.gguf             llama (dense or with experts), qwen2, qwen3, qwen3moe or gemma3; one file or the first of a
                         split set; or a llama2.c file (.bin). Default: examples/data/tiny.gguf
  --tokenizer FILE       the tokenizer of a llama2.c model (tok512.bin)
  --prompt TEXT          what to continue (also as second argument)
  --tokens N             how many tokens to write at most (default 64)
  --context N            the longest text in tokens, prompt included (default: prompt + tokens)
memory
  --vram SIZE            an emulated accelerator with this much memory, e.g. 8MiB; weights that fit live there
  --link SIZE            its link in bytes per second, e.g. 12GiB (default: no limit)
  --latency-us N         of each copy over that link, in microseconds (default 0)
  --ram SIZE             limit for activations, cache and copies (default: none)
  --load                 copy the other weights to RAM; without it they are read from the mapped file
  --threads N            workers of the CPU (default: physical cores that this process may use)
choosing tokens
  --temperature X        0 (default) takes the most probable token
  --top-k N, --top-p X, --min-p X, --repetition-penalty X
  --seed N               of the random choice (default 0)
output
  --json                 one JSON object in place of text and figures
  --explain              say where each weight goes, and why, before loading
  --special              take special tokens such as <s> in the prompt as tokens
  --help                 this text
)";

volatile std::sig_atomic_t interrupted = 0;

/// Shows how much has arrived, on a terminal.
struct progress final : tern::arrival_listener {
    tern::bytes total{};
    tern::bytes seen{};
    bool shown = ::isatty(STDERR_FILENO) != 0;

    void arrived(tern::bytes n) override {
        seen += n;
        if (shown) std::fprintf(stderr, "\rloading %s of %s", to_string(seen).c_str(), to_string(total).c_str());
        if (shown && seen == total) std::fprintf(stderr, "\n");
    }
};

struct figures {
    std::size_t prompt_tokens = 0;
    std::size_t new_tokens = 0;
    double prefill_seconds = 0;
    double decode_seconds = 0;

    double prefill_rate() const { return prefill_seconds > 0 ? double(prompt_tokens) / prefill_seconds : 0; }
    double decode_rate() const { return decode_seconds > 0 ? double(new_tokens - 1) / decode_seconds : 0; }
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct result {
    std::string text;
    std::vector<std::int32_t> tokens;
    figures timing;
};

/// Prefill and decode, with text going out as soon as its characters are whole.
result write_text(tern::runtime& run, const tern::decoder& model, const tern::tokenizer& words,
                  std::vector<std::int32_t> history, const options& args, bool quiet) {
    const std::size_t limit = args.whole("tokens", 64);
    const std::size_t context = args.whole("context", history.size() + limit);
    tern::paged_cache cache(run.ram(), model.config().cache_for(context));
    tern::any_cache any(cache);
    tern::sampler choose({.temperature = args.real("temperature", 0),
                          .top_k = static_cast<std::int32_t>(args.whole("top-k", 0)),
                          .top_p = args.real("top-p", 1),
                          .min_p = args.real("min-p", 0),
                          .repetition_penalty = args.real("repetition-penalty", 1),
                          .seed = args.whole("seed", 0)});
    result out;
    out.timing.prompt_tokens = history.size();
    tern::text_stream stream(words);
    const double begin = now();
    double first = 0;
    const auto show = [&](std::string_view piece) {
        out.text += piece;
        if (!quiet) std::cout << piece << std::flush;
    };
    auto on_token = [&](std::int32_t token) {
        if (out.tokens.empty()) first = now();
        out.tokens.push_back(token);
        if (words.is_end(token) || interrupted != 0) return false;
        show(stream.push(token));
        return true;
    };
    if (limit > 0) run.loop().run(tern::generate(run.ctx(), model, any, history, choose, {.tokens = limit}, on_token));
    show(stream.finish());
    out.timing.new_tokens = out.tokens.size();
    out.timing.prefill_seconds = first - begin;
    out.timing.decode_seconds = now() - first;
    return out;
}

void print_json(const result& r, const tern::placement& plan, const tern::graph& graph, tern::runtime& run) {
    tern::json_writer json;
    json.begin_object();
    json.member("text", r.text);
    json.key("tokens").begin_array();
    for (const std::int32_t t : r.tokens) json.value(t);
    json.end_array();
    json.member("prompt_tokens", r.timing.prompt_tokens);
    json.member("prefill_tokens_per_second", r.timing.prefill_rate());
    json.member("decode_tokens_per_second", r.timing.decode_rate());
    json.member("threads", run.cpu().workers());
    json.member("kernel_path", std::string(tern::kernel::slot<tern::kernel::linear, tern::f32>.get().path));
    json.key("weight_bytes").begin_object();
    for (const tern::memory_space& m : run.machine().memories)
        json.member(to_string(m.where), plan.bytes_at(graph, m.where).count);
    json.end_object();
    if (tern::emulated_device* gpu = run.accelerator()) {
        json.member("link_bytes_to_device", gpu->traffic().to_device.count);
        json.member("link_bytes_to_host", gpu->traffic().to_host.count);
    }
    json.end_object();
    std::cout << std::move(json).take() << "\n";
}

void print_figures(const result& r, const tern::placement& plan, const tern::graph& graph, tern::runtime& run) {
    std::cerr << "prefill " << r.timing.prompt_tokens << " tokens at " << r.timing.prefill_rate()
              << " tokens/s, decode " << r.timing.new_tokens << " at " << r.timing.decode_rate() << " tokens/s, "
              << run.cpu().workers() << " threads, " << tern::kernel::slot<tern::kernel::linear, tern::f32>.get().path
              << " kernels; weights:";
    for (const tern::memory_space& m : run.machine().memories)
        std::cerr << " " << to_string(m.where) << " " << to_string(plan.bytes_at(graph, m.where));
    std::cerr << "\n";
}

int run_program(const options& args) {
    const std::string path = args.plain().empty() ? "examples/data/tiny.gguf" : args.plain()[0];
    const std::string prompt =
        args.text("prompt", args.plain().size() > 1 ? args.plain()[1] : "In the beginning God created");
    const tern::checkpoint file =
        path.ends_with(".bin") ? tern::open_llama2c(path, args.text("tokenizer", "")) : tern::open_checkpoint(path);
    const tern::tokenizer words = tern::make_tokenizer(tern::read_vocabulary(file));
    std::vector<std::int32_t> history = words.encode(prompt, {.parse_special = args.on("special")});

    tern::runtime run({.threads = args.whole("threads", 0),
                       .ram = args.size("ram", tern::unlimited),
                       .vram = args.size("vram", {}),
                       .bandwidth = args.has("link") ? tern::bytes_per_second{double(args.size("link", {}).count)}
                                                     : tern::bytes_per_second{},
                       .latency = {double(args.whole("latency-us", 0)) * 1e-6}});
    const std::unique_ptr<tern::decoder> model = tern::open_decoder(file, run.store());
    const tern::graph graph = tern::record(*model, run.loop(), run.cpu(), tern::generate_options{}.prefill_batch);
    const tern::tier_info rest = args.on("load") ? tern::tier_of<tern::pageable> : tern::tier_of<tern::mapped>;
    const tern::placement plan = tern::first_fit{.rest = rest}.place(graph, run.machine());
    if (args.on("explain")) std::cerr << tern::explain(plan, graph, run.machine());

    progress shown;
    shown.total = tern::bytes_to_load(plan, graph);
    run.load(plan, graph, {}, &shown);

    const bool json = args.on("json");
    if (!json) std::cout << prompt << std::flush;
    const result r = write_text(run, *model, words, std::move(history), args, json);
    if (json) {
        print_json(r, plan, graph, run);
    } else {
        std::cout << "\n" << std::flush;
        print_figures(r, plan, graph, run);
    }
    return interrupted != 0 ? 130 : 0;
}

} // namespace

int main(int argc, char** argv) {
    try {
        const options args(argc, argv,
                           {"prompt", "tokenizer", "tokens", "context", "vram", "link", "latency-us", "ram", "threads",
                            "temperature", "top-k", "top-p", "min-p", "repetition-penalty", "seed"},
                           {"load", "json", "explain", "special", "help"});
        if (args.on("help")) {
            std::cout << help;
            return 0;
        }
        std::signal(SIGINT, [](int) { interrupted = 1; });
        return run_program(args);
    } catch (const std::exception& e) {
        std::cerr << "generate: " << e.what() << "\n";
        return 1;
    }
}
