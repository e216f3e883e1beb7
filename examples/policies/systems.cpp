// systems: five known systems on one model, one engine and one budget, side by side. Each is a composition of a few
// lines in a header of its own.
//
//     systems --model MODEL.gguf --vram 8MiB --tokens 100
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tern/file/open_checkpoint.hpp>
#include <tern/model/generate.hpp>
#include <tern/model/open_decoder.hpp>
#include <tern/model/read_vocabulary.hpp>
#include <tern/model/runtime.hpp>
#include <tern/model/tiered.hpp>
#include <tern/op/paged_cache.hpp>
#include <tern/op/sampler.hpp>
#include <tern/text/tokenizer.hpp>
#if __has_include(<pcre2.h>)
#include <tern/text/byte_pair.hpp>
#endif

#include "../machine_of.hpp"
#include "../options.hpp"
#include "../placing.hpp"
#include "../predicting.hpp"
#include "airllm.hpp"
#include "atsinfer.hpp"
#include "ktransformers.hpp"
#include "llama_cpp.hpp"
#include "pipelined_sharding.hpp"

namespace {

constexpr const char* help = R"(systems: known systems on one model, one engine and one budget, side by side.

usage: systems [options]

  --model FILE           a model as examples/generate takes it (default: examples/data/tiny-moe.gguf)
  --prompt TEXT          what to continue (default: two verses, more than 32 tokens)
  --tokens N             how many to generate at most (default 24)
memory
  --vram SIZE            of the emulated accelerator (default: half of the weights, beside what activations need and
                         room for the largest layer on its way)
  --ram SIZE             limit for copies of weights, activations and the cache (default: none). Where the weights do
                         not fit, the host reads them where they are mapped
  --disk mapped|direct   how files are read: through the page cache (default), or past it, which
                         AirLLM is about: its weights come from there for each use
  --link SIZE            bytes a second between RAM and vram (default: as the machine has it)
  --threads N            workers of the CPU (default: physical cores that this process may use)
prices, by which ATSInfer and pipelined sharding plan
  --machine NAME|FILE    by the roofline of this machine (default rtx3060_laptop; examples/generate --help has others)
  --scale X              with its rates divided by this (default 128): a model of 2 MiB is then to it what one of
                         256 MiB is to the real one
  --profile FILE         by what operators take on this machine, and predict by it. Measured and written to the file
                         where there is none, which takes minutes; the host then reads weights where they are mapped
  --help                 this text

Standard output: for each system the bytes that went over each link for a token after the prompt, in the mean, and
whether its tokens are those of a run with all weights in RAM. The standard error: how fast, measured and predicted, and
the bytes that went over for the prompt. What the host reads where it is mapped is not counted.
)";

constexpr const char* verses =
    "In the beginning God created the heaven and the earth. And the earth was without form, and void; and darkness "
    "was upon the face of the deep.";

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct request {
    std::string model, prompt, profile;
    std::size_t tokens, threads;
    tern::bytes vram, ram; // vram of 0: by the model
    bool direct;
    tern::machine priced;
    tern::bytes_per_second link;

    explicit request(const options& args)
        : model(args.text("model", "examples/data/tiny-moe.gguf")), prompt(args.text("prompt", verses)),
          profile(args.text("profile", "")), tokens(args.whole("tokens", 24)), threads(args.whole("threads", 0)),
          vram(args.size("vram", {})), ram(args.size("ram", tern::unlimited)),
          direct(args.text("disk", "mapped") == "direct"), priced(machine_of(args.text("machine", "rtx3060_laptop"))) {
        if (!args.plain().empty()) throw tern::config_error("\"" + args.plain()[0] + "\" is no option: see --help");
        if (tokens < 3 || tokens > 100'000) throw tern::config_error("--tokens is 3 to 100000");
        if (!direct && args.text("disk", "mapped") != "mapped")
            throw tern::config_error("--disk is mapped or direct, not \"" + args.text("disk", "") + "\"");
        if (direct && !profile.empty())
            throw tern::config_error("--profile has no times of direct reads: leave --disk direct out");
        const double scale = args.real("scale", args.has("machine") ? 1 : 128);
        if (!(scale > 0)) throw tern::config_error("--scale takes a number above 0");
        for (tern::memory_space& m : priced.memories)
            if (m.bandwidth) m.bandwidth->count /= scale;
        for (tern::processor& p : priced.processors)
            for (std::optional<double>* rate : {&p.rates.f32, &p.rates.f16, &p.rates.int8})
                if (*rate) **rate /= scale;
        for (tern::link& l : priced.links)
            if (l.bandwidth) l.bandwidth->count /= scale;
        const tern::link* const to_vram = priced.link_between({tern::tier_of<tern::pageable>, 0, 0}, systems::vram);
        if (to_vram == nullptr)
            throw tern::config_error("the machine has no accelerator, and every system here has one");
        if (args.has("link")) link = tern::bytes_per_second{double(args.size("link", {}).count)};
        if (!args.has("link") && to_vram->bandwidth) link = *to_vram->bandwidth;
    }

    /// The prices of the machine that was named, with the budgets of the runtime.
    tern::machine with_budgets(const tern::machine& real) const {
        tern::machine m = priced;
        for (tern::memory_space& s : m.memories) {
            const tern::memory_space* const here = real.memory_at(s.where);
            s.budget = here != nullptr ? here->budget : tern::bytes{};
            s.reserved = here != nullptr ? here->reserved : tern::bytes{};
        }
        return m;
    }
};

struct result {
    std::vector<std::int32_t> tokens{};
    moved_bytes prompt{}; ///< for it, after loading
    moved_bytes each{};   ///< for a token after it, in the mean
    double prefill = 0;   ///< tokens a second
    double decode = 0;
    std::optional<tern::tiered_speed> predicted{};
};

/// A run of a decoder. Between its parts transfers end, so that what is counted does not depend on timing.
template <class Decoder>
void generate(tern::runtime& run, const Decoder& decoder, const tern::disk_reader& reader, tern::paged_cache& cache,
              std::vector<std::int32_t> prompt, std::size_t tokens, result& out) {
    tern::sampler choose({.temperature = 0});
    const auto part = [&](std::vector<std::int32_t> history, std::size_t count) {
        const double begin = now();
        run.loop().run(tern::generate(run.ctx(), decoder, cache, history, choose,
                                      {.tokens = count, .prefill_batch = std::max<std::size_t>(prompt.size(), 1)},
                                      [&](std::int32_t token) { return out.tokens.push_back(token), true; }));
        const double end = now();
        run.loop().run(run.store().drain());
        return end - begin;
    };
    moved_bytes before = moved_bytes::so_far(run, reader);
    out.prefill = double(prompt.size()) / part(prompt, 1);
    out.prompt = moved_bytes::so_far(run, reader) - before;
    part({out.tokens.back()}, 1); // which may change plans
    before = moved_bytes::so_far(run, reader);
    out.decode = double(tokens - 2) / part({out.tokens.back()}, tokens - 2);
    out.each = (moved_bytes::so_far(run, reader) - before) / (tokens - 2);
}

/// What all runs share.
struct stage {
    const request& wanted;
    const tern::checkpoint& file;
    std::vector<std::int32_t> prompt;
    tern::bytes vram{};

    std::size_t longest() const { return prompt.size() + wanted.tokens; }
    tern::runtime_options memory(tern::disk_reader* reader, bool accelerator) const {
        return {.threads = wanted.threads,
                .ram = accelerator ? wanted.ram : tern::unlimited,
                .vram = accelerator ? vram : tern::bytes{},
                .bandwidth = accelerator ? wanted.link : tern::bytes_per_second{},
                .disk = reader};
    }
};

/// Everything in RAM, computed on the host: the tokens that all others are held against. It finds out what vram half of
/// the weights need, too.
result run_in_ram(stage& on) {
    const auto reader = tern::open_reader({.direct = on.wanted.direct});
    tern::runtime run(on.memory(reader.get(), false));
    const auto model = tern::open_decoder(on.file, run.store());
    const tern::graph graph = tern::record(*model, run.loop(), run.cpu(), on.prompt.size());
    on.vram = on.wanted.vram;
    if (on.vram == tern::bytes{})
        on.vram = tern::bytes{graph.weight_bytes().count / 2} + graph.activation_room() +
                  tern::layer_upload::window_for(graph, systems::vram);
    tern::paged_cache cache(run.ram(), model->config().cache_for(on.longest()));
    run.load(tern::all_cpu{tern::tier_of<tern::pageable>}.place(graph, run.machine()), graph);
    result out;
    generate(run, *model, *reader, cache, on.prompt, on.wanted.tokens, out);
    return out;
}

template <class System> result run_system(const System& system, const stage& on) {
    const auto reader = tern::open_reader({.direct = on.wanted.direct}); // outlives the runtime
    tern::runtime run(on.memory(reader.get(), true));
    const auto model = tern::open_decoder(on.file, run.store());
    const tern::graph graph = tern::record(*model, run.loop(), run.cpu(), on.prompt.size());
    tern::paged_cache cache(run.ram(), model->config().cache_for(on.longest()));
    run.reserve(cache.bytes_for(cache.shape()) + tern::staging_room(graph));
    std::optional<predictor> times;
    if (!on.wanted.profile.empty())
        times.emplace(
            predictor::open(on.wanted.profile, run, *model, graph, tern::tier_of<tern::mapped>, on.prompt.size()));
    const tern::machine machine = times ? times->now() : on.wanted.with_budgets(run.machine());
    const systems::prices cost = times ? systems::prices(times->cost()) : systems::prices(tern::roofline(machine));
    // A profile has what comes from mapped weights.
    const bool fits =
        !times && tern::weight_room(graph, run.machine(), {tern::tier_of<tern::pageable>}) >= graph.weight_bytes();
    const systems::setting given{.graph = graph,
                                 .machine = machine,
                                 .cost = cost,
                                 .rest = fits ? tern::tier_of<tern::pageable> : tern::tier_of<tern::mapped>,
                                 .disk = on.wanted.direct ? tern::tier_of<tern::direct> : tern::tier_of<tern::mapped>,
                                 .prompt = on.prompt.size(),
                                 .context = on.prompt.size() + on.wanted.tokens / 2};
    const tern::tiered_placement plans = system.place(given);
    result out;
    if (times)
        out.predicted = tern::speed_of(graph, plans, machine, cost, given.run_of(1),
                                       {on.prompt.size(), on.prompt.size(), on.wanted.tokens});
    run.load(plans.plan_for(on.prompt.size()), graph);
    run.loop().run(run.store().drain());
    if constexpr (requires { typename System::template decoder<tern::runtime>; }) {
        const typename System::template decoder<tern::runtime> own{*model, run, plans, graph};
        generate(run, own, *reader, cache, on.prompt, on.wanted.tokens, out);
    } else {
        const tern::tiered_decoder tiered(*model, run, plans, graph);
        generate(run, tiered, *reader, cache, on.prompt, on.wanted.tokens, out);
    }
    return out;
}

std::string over_links(const moved_bytes& m) {
    return "disk -> ram " + to_string(tern::bytes{m.disk}) + ", ram -> vram " + to_string(tern::bytes{m.to_device}) +
           ", vram -> ram " + to_string(tern::bytes{m.to_host});
}

void print_speed(std::string_view name, const result& r) {
    std::fprintf(stderr, "%-20.*s prompt %8.1f, then %8.1f tokens/s measured", int(name.size()), name.data(), r.prefill,
                 r.decode);
    if (r.predicted) std::fprintf(stderr, "; predicted %8.1f, then %8.1f", r.predicted->prefill, r.predicted->decode);
    std::fprintf(stderr, "; for the prompt %s\n", over_links(r.prompt).c_str());
}

/// False where it does not run, or its tokens are others.
template <class System> bool show(const System& system, const stage& on, const result& in_ram) {
    std::printf("%s: %s\n", System::name.data(), System::does.data());
    result r;
    try {
        r = run_system(system, on);
    } catch (const tern::budget_error& e) {
        std::printf("  does not run: %s\n", e.what());
        return false;
    }
    const bool same = r.tokens == in_ram.tokens;
    std::printf("  each token: %s\n", over_links(r.each).c_str());
    std::printf("  tokens: %s\n", same ? "as with everything in RAM" : "OTHERS than with everything in RAM");
    std::fflush(stdout);
    print_speed(System::name, r);
    return same;
}

int run_program(const options& args) {
    const request wanted(args);
    const tern::checkpoint file = tern::open_checkpoint(wanted.model);
    const tern::tokenizer words = tern::make_tokenizer(tern::read_vocabulary(file));
    stage on{wanted, file, words.encode(wanted.prompt)};
    const result in_ram = run_in_ram(on);
    std::printf("%zu tokens of prompt, then %zu; vram %s\n", on.prompt.size(), wanted.tokens,
                to_string(on.vram).c_str());
    std::fflush(stdout);
    print_speed("everything in RAM", in_ram);
    bool same = show(systems::llama_cpp{}, on, in_ram);
    same = show(systems::airllm{}, on, in_ram) && same;
    same = show(systems::ktransformers{}, on, in_ram) && same;
    same = show(systems::atsinfer{}, on, in_ram) && same;
    same = show(systems::pipelined_sharding{}, on, in_ram) && same;
    return same ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
    try {
        const options args(
            argc, argv,
            {"model", "prompt", "tokens", "vram", "ram", "disk", "link", "threads", "machine", "scale", "profile"},
            {"help"});
        if (args.on("help")) {
            std::cout << help;
            return 0;
        }
        return run_program(args);
    } catch (const std::exception& e) {
        std::cerr << "systems: " << e.what() << "\n";
        return 1;
    }
}
