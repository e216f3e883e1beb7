// generate: opens a model file, says where its weights go, and writes text.
//
//     generate MODEL.gguf --prompt "Once upon a time" --vram 8MiB --tokens 100
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
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
#include <tern/plan/explain_time.hpp>
#include <tern/text/stream.hpp>
#if __has_include(<pcre2.h>)
#include <tern/text/byte_pair.hpp>
#endif

#include "notes.hpp"
#include "options.hpp"
#include "placing.hpp"
#include "predicting.hpp"

namespace {

constexpr const char* help = R"(generate: writes text with a language model.

usage: generate [MODEL.gguf] [PROMPT] [options]

  MODEL.gguf             llama (dense or with experts), qwen2, qwen3, qwen3moe, gemma3 or gpt-oss; one file or the first
                         of a split set; or a llama2.c file (.bin). Default: examples/data/tiny.gguf
  --tokenizer FILE       the tokenizer of a llama2.c model (tok512.bin)
  --prompt TEXT          what to continue (also as second argument)
  --tokens N             how many tokens to write at most (default 64)
  --context N            the longest text in tokens, prompt included (default: prompt + tokens)
memory
  --policy P             first_fit (default)  what fits into vram computes there, the rest on the CPU
                         all_cpu              everything on the CPU
                         layer_split=N        the last N layers in vram, the rest on the CPU
                         layer_stream         weights stream through vram, or through RAM where there is no vram
                         expert_offload       experts are cached by use, all else stays in fast memory
                         by_tensor            each tensor where a run is predicted to be fastest (with --profile)
                         automatic            what is predicted to be fastest for single tokens, by the prices of
                                              --machine; missing experts as --on-miss says (then default: split)
  --machine NAME|FILE    for automatic: a machine like this one, rtx3060_laptop, rtx4090_64g, rtx6000_ada_nvme, h100,
                         h200, cpu2, or in JSON; memories are those of --vram and --ram
  --on-miss WAY          what is done about experts that are wanted in vram and not there: fetch (default), compute (on
                         the CPU), or split between both by their measured bandwidths; with --disk direct all are
                         fetched. compute and split fill the cache of expert_offload at the start
  --disk mapped|direct   how weights that are not in RAM are read: from the mapped file through the page cache
                         (default), or past it by direct reads into memory that --ram counts; what first_fit, all_cpu
                         and layer_split leave to the CPU is then read at the start, as with --load
  --load, --pinned       copy the weights that are not in vram to RAM at the start; --pinned locks it there
  --eviction P           which cached experts leave first: frequency (default) or lru
  --guess SIZE           bytes of experts that may be brought a layer on a guess (default 0); it stops where it does
                         not pay
  --strict               direct reads and locked memory that the system refuses are errors, not done in a lesser way
  --vram SIZE            an emulated accelerator with this much memory, e.g. 8MiB (of the host's, beside --ram)
  --link SIZE            its link in bytes per second, e.g. 12GiB (default: no limit)
  --latency-us N         of each copy over that link, in microseconds (default 0)
  --gops X               its operations, in 10^9 a second (default: as fast as one core of the host)
  --vram-bandwidth SIZE  at which it reads its memory, in bytes per second (default likewise)
  --launch-us N          to begin one operator on it, in microseconds (default 0)
  --ram SIZE             limit for activations, cache and copies (default: none)
  --threads N            workers of the CPU (default: physical cores that this process may use)
  --activations f32|q8   how activations enter products: as they are (default), or rounded to 8 bits, which is faster
choosing tokens
  --temperature X        0 (default) takes the most probable token
  --top-k N, --top-p X, --min-p X, --repetition-penalty X
  --seed N               of the random choice (default 0)
output
  --json                 one JSON object in place of text and figures
  --explain              say where each weight goes, and why, before loading; the last line is the short of it
  --profile FILE         predict the speed from what operators take on this machine alone: with --explain each weight's
                         time before loading, and at the end predicted beside measured. Measured for this model and
                         written to the file where there is none, which takes a minute or two
  --explain-json FILE    the explanation, and the prediction with --profile, as JSON in a file, before loading
  --dry                  stop before loading
  --warm                 feed the prompt once before it is measured: pages, pools and caches are then as later
  --special              take special tokens such as <s> in the prompt as tokens
  --help                 this text
figures, on the standard error at the end: for loading, for the prompt, and for each token after the first
  weights                bytes by where they lie between uses: mapped (in the file, read in place through the page
                         cache), direct (in the file, read past that cache for each use), pageable (in RAM), pinned (in
                         RAM that is locked), vram:0 (on the emulated accelerator)
  disk -> ram            bytes read from files; without --disk direct the page cache may have had them. What the CPU
                         reads in place, where it is mapped, is not counted, here and below
  ram -> vram -> ram     bytes over the link: weights and activations
  hits, misses           weights (of experts: matrices) that were there when they were used, or came ahead of it; and
                         those that were brought because they were missing. At the start all that is loaded is missing
  experts chosen         bytes of the experts that tokens were sent to: what must be read at least
docs/generate.md has an example, and the figures of --json.
)";

/// Turns the first SIGINT into a request to stop; a second one ends the program as usual. A handler may do next to
/// nothing, so it writes a byte into a pipe, and a thread that reads it asks to stop.
class interrupts {
public:
    interrupts() {
        if (::pipe(ends) != 0) throw tern::error("cannot watch for SIGINT: too many files are open");
        try {
            watcher_ = std::thread([this] {
                for (char byte = 0; byte != 'q';) {
                    const ssize_t got = ::read(ends[0], &byte, 1);
                    if (got == 1 && byte == 'i') stop_.request_stop();
                    if (got != 1 && errno != EINTR) return;
                }
            });
        } catch (const std::system_error&) { throw tern::error("cannot watch for SIGINT: no thread is left"); }
        struct sigaction action {};
        action.sa_handler = [](int) {
            const int before = errno;
            if (::write(ends[1], "i", 1) != 1) ::_exit(130);
            errno = before;
        };
        action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
        ::sigaction(SIGINT, &action, nullptr);
    }
    interrupts(const interrupts&) = delete;
    interrupts& operator=(const interrupts&) = delete;
    ~interrupts() {
        std::signal(SIGINT, SIG_DFL);
        while (::write(ends[1], "q", 1) != 1 && errno == EINTR) {}
        watcher_.join();
        ::close(ends[0]);
        ::close(ends[1]);
    }

    std::stop_token token() const { return stop_.get_token(); }
    bool happened() const { return stop_.stop_requested(); }

private:
    static inline int ends[2] = {-1, -1};
    std::stop_source stop_{};
    std::thread watcher_{};
};

/// What the options ask for, checked before anything is loaded.
struct request {
    std::string path;
    std::string prompt;
    std::size_t tokens;
    std::optional<std::size_t> context;
    tern::sampler choose;
    tern::runtime_options memory;
    placing where;
    tern::on_miss on_miss;
    bool json, explain, special, dry, warm;
    std::string profile, explain_json; // files; empty: none

    explicit request(const options& args)
        : path(args.plain().empty() ? "examples/data/tiny.gguf" : args.plain()[0]),
          prompt(args.text("prompt", args.plain().size() > 1 ? args.plain()[1] : "In the beginning God created")),
          tokens(args.whole("tokens", 64)), choose(sampling_of(args)), where(placing::of(args)),
          on_miss(tern::parse_on_miss(args.text("on-miss", "fetch"))), json(args.on("json")),
          explain(args.on("explain")), special(args.on("special")), dry(args.on("dry")), warm(args.on("warm")),
          profile(args.text("profile", "")), explain_json(args.text("explain-json", "")) {
        if (where.policy == "by_tensor" && profile.empty())
            throw tern::config_error("--policy by_tensor needs prices: give --profile");
        std::error_code none;
        if (!explain_json.empty() && std::filesystem::equivalent(explain_json, path, none))
            throw tern::config_error("--explain-json would replace the model " + path + ": name another file");
        if (args.plain().size() > 2)
            throw tern::config_error("\"" + args.plain()[2] + "\" is one argument too many: put the prompt in quotes");
        refuse_contradictions(args, where, has_vram(args));
        if (args.has("context")) context = args.whole("context", 0);
        memory = {.threads = args.whole("threads", 0),
                  .ram = args.size("ram", tern::unlimited),
                  .pinned = args.on("pinned") ? tern::unlimited : tern::bytes{},
                  .vram = args.size("vram", {}),
                  .bandwidth = rate(args, "link"),
                  .latency = {double(args.whole("latency-us", 0)) * 1e-6},
                  .launch = {double(args.whole("launch-us", 0)) * 1e-6},
                  .vram_bandwidth = rate(args, "vram-bandwidth"),
                  .operations =
                      args.has("gops") ? double(args.real("gops", 0)) * 1e9 : std::numeric_limits<double>::infinity(),
                  .guess = args.size("guess", {}),
                  .activations = tern::activation_policy_named(args.text("activations", "f32")),
                  .strict = args.on("strict")};
    }

    static bool has_vram(const options& args) { return args.size("vram", {}) != tern::bytes{}; }

    /// The longest text in tokens.
    std::size_t longest(std::size_t prompt_tokens) const {
        const std::size_t most = std::numeric_limits<std::size_t>::max() - prompt_tokens;
        return context.value_or(prompt_tokens + std::min(tokens, most));
    }

private:
    static tern::bytes_per_second rate(const options& args, const char* name) {
        return args.has(name) ? tern::bytes_per_second{double(args.size(name, {}).count)} : tern::bytes_per_second{};
    }
    static tern::sampling sampling_of(const options& args) {
        constexpr std::uint64_t most = std::numeric_limits<std::int32_t>::max(); // more than any vocabulary holds
        return {.temperature = args.real("temperature", 0),
                .top_k = static_cast<std::int32_t>(std::min(args.whole("top-k", 0), most)),
                .top_p = args.real("top-p", 1),
                .min_p = args.real("min-p", 0),
                .repetition_penalty = args.real("repetition-penalty", 1),
                .seed = args.whole("seed", 0)};
    }
};

/// Shows how much has arrived, on a terminal.
struct progress final : tern::arrival_listener {
    tern::bytes total{};
    tern::bytes seen{};
    bool shown = ::isatty(STDERR_FILENO) != 0;
    bool open_line = false;

    void arrived(tern::bytes n) override {
        seen += n;
        if (shown) std::fprintf(stderr, "\rloading %s of %s", to_string(seen).c_str(), to_string(total).c_str());
        open_line = shown;
    }
    ~progress() {
        if (open_line) std::fprintf(stderr, "\n");
    }
};

struct figures {
    std::size_t prompt_tokens = 0;
    std::size_t new_tokens = 0;
    double prefill_seconds = 0;
    double decode_seconds = 0;
    std::vector<tern::seconds> each{}; ///< after the first

    double prefill_rate() const { return prefill_seconds > 0 ? double(prompt_tokens) / prefill_seconds : 0; }
    double decode_rate() const {
        return decode_seconds > 0 && new_tokens > 1 ? double(new_tokens - 1) / decode_seconds : 0;
    }
    /// Of the token in the middle: what disturbs a few of them does not count.
    double median_rate() const { return each.empty() ? 0 : 1 / tern::median_of(each).count; }
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct result {
    std::string text;
    std::vector<std::int32_t> tokens;
    figures timing;
    moved_bytes loaded{}; // before the prompt
    moved_bytes prompt{}; // for it
    moved_bytes decoding{};

    /// Passes that `decoding` was moved for: the first token came with the prompt.
    std::size_t passes() const { return timing.new_tokens > 1 ? timing.new_tokens - 1 : 0; }
};

/// Ends the line of text, also where an error cuts it short.
struct line {
    bool open = false;
    ~line() {
        if (open) std::cout << "\n" << std::flush;
    }
};

/// Prefill and decode, with text going out as soon as its characters are whole.
result write_text(tern::runtime& run, const tern::decoder& model, const tern::tokenizer& words,
                  const tern::disk_reader& reader, std::vector<std::int32_t> history, request& wanted) {
    tern::paged_cache cache(run.ram(), model.config().cache_for(wanted.longest(history.size())));
    tern::any_cache any(cache);
    if (wanted.warm && !history.empty()) {
        run.loop().run(tern::prefill(run.ctx(), model, any, std::span<const std::int32_t>(history),
                                     tern::generate_options{}.prefill_batch));
        cache.truncate(0, 0);
    }
    result out;
    out.timing.prompt_tokens = history.size();
    tern::text_stream stream(words);
    out.loaded = moved_bytes::so_far(run, reader);
    moved_bytes at_first = out.loaded;
    const double begin = now();
    double first = begin, last = begin;
    const auto show = [&](std::string_view piece) {
        out.text += piece;
        if (!wanted.json) std::cout << piece << std::flush;
    };
    auto on_token = [&](std::int32_t token) {
        if (out.tokens.empty()) {
            first = now();
            at_first = moved_bytes::so_far(run, reader);
            last = first;
        } else {
            const double then = std::exchange(last, now());
            out.timing.each.push_back({last - then});
        }
        out.tokens.push_back(token);
        if (words.is_end(token)) return false;
        show(stream.push(token));
        return wanted.json || bool(std::cout);
    };
    try {
        if (wanted.tokens > 0)
            run.loop().run(
                tern::generate(run.ctx(), model, any, history, wanted.choose, {.tokens = wanted.tokens}, on_token));
    } catch (const tern::stopped_error&) {} // what there is goes out
    show(stream.finish());
    out.timing.new_tokens = out.tokens.size();
    out.timing.prefill_seconds = first - begin;
    out.timing.decode_seconds = now() - first;
    out.prompt = at_first - out.loaded;
    out.decoding = moved_bytes::so_far(run, reader) - at_first;
    return out;
}

void print_json(const result& r, const tern::placement& plan, const tern::graph& graph, tern::runtime& run,
                const std::optional<tern::speed>& predicted) {
    tern::json_writer json;
    json.begin_object();
    json.member("text", r.text);
    json.key("tokens").begin_array();
    for (const std::int32_t t : r.tokens) json.value(t);
    json.end_array();
    json.member("prompt_tokens", r.timing.prompt_tokens);
    json.member("prefill_tokens_per_second", r.timing.prefill_rate());
    json.member("decode_tokens_per_second", r.timing.decode_rate());
    json.member("decode_median_tokens_per_second", r.timing.median_rate());
    if (predicted) {
        json.key("predicted").begin_object();
        json.member("prefill_tokens_per_second", predicted->prefill);
        json.member("decode_tokens_per_second", predicted->decode);
        json.end_object();
    }
    json.member("threads", run.cpu().workers());
    json.member("activations", std::string(name_of(run.ctx().activations())));
    json.member("kernel_path", std::string(tern::kernel::slot<tern::kernel::linear, tern::f32>.get().path));
    json.key("weight_bytes").begin_object();
    for (const tern::memory_space& m : run.machine().memories)
        json.member(to_string(m.where), plan.bytes_at(graph, m.where).count);
    json.end_object();
    json.member("policy", std::string(plan.policy));
    json.key("moved").begin_object();
    json.key("loading");
    r.loaded.write(json);
    json.key("prompt");
    r.prompt.write(json);
    json.key("decoding");
    r.decoding.write(json);
    json.member("decoding_passes", r.passes());
    json.end_object();
    json.member("ram_peak", run.ram().budget().peak().count);
    json.end_object();
    std::cout << std::move(json).take() << "\n";
}

void print_predicted(const result& r, const tern::speed& predicted) {
    const auto line = [](const char* what, double expected, double found) {
        std::cerr << what << " " << expected << ", measured " << found;
        if (found > 0) std::cerr << " (" << std::showpos << 100 * (expected / found - 1) << std::noshowpos << " %)";
    };
    line("predicted prefill tokens/s", predicted.prefill, r.timing.prefill_rate());
    line("; decode", predicted.decode, r.timing.median_rate());
    std::cerr << ", of the median token";
    std::cerr << "\n";
}

void print_figures(const result& r, const tern::placement& plan, const tern::graph& graph, tern::runtime& run) {
    std::cerr << "prefill " << r.timing.prompt_tokens << " tokens at " << r.timing.prefill_rate()
              << " tokens/s, decode " << r.timing.new_tokens << " at " << r.timing.decode_rate() << " tokens/s, "
              << run.cpu().workers() << " threads, " << tern::kernel::slot<tern::kernel::linear, tern::f32>.get().path
              << " kernels, activations in " << name_of(run.ctx().activations()) << "; weights:";
    for (const tern::memory_space& m : run.machine().memories)
        std::cerr << " " << to_string(m.where) << " " << to_string(plan.bytes_at(graph, m.where));
    std::cerr << "\npolicy " << plan.policy << "; loading moved: " << r.loaded.text() << "\nprompt: " << r.prompt.text()
              << "\n";
    if (r.passes() != 0) std::cerr << "each token: " << (r.decoding / r.passes()).text() << "\n";
}

int run_program(const options& args) {
    request wanted(args);
    const std::string& path = wanted.path;
    if (path.ends_with(".bin") && !args.has("tokenizer"))
        throw tern::config_error("a llama2.c model keeps its tokenizer in a file of its own: give --tokenizer",
                                 {.path = path});
    if (!path.ends_with(".bin") && args.has("tokenizer"))
        throw tern::config_error("has a tokenizer of its own: --tokenizer is for llama2.c models (.bin)",
                                 {.path = path});
    const tern::checkpoint file =
        path.ends_with(".bin") ? tern::open_llama2c(path, args.text("tokenizer", "")) : tern::open_checkpoint(path);
    const tern::tokenizer words = tern::make_tokenizer(tern::read_vocabulary(file));
    std::vector<std::int32_t> history = words.encode(wanted.prompt, {.parse_special = wanted.special});
    if (wanted.context && *wanted.context < history.size())
        throw tern::config_error("the prompt has " + std::to_string(history.size()) + " tokens, more than --context " +
                                 std::to_string(*wanted.context));
    if (wanted.context && *wanted.context - history.size() < wanted.tokens) {
        std::cerr << "note: --context ends the text after " << *wanted.context - history.size() << " of "
                  << wanted.tokens << " tokens\n";
        wanted.tokens = *wanted.context - history.size();
    }

    const std::unique_ptr<tern::disk_reader> reader = wanted.where.open_reader();
    if (wanted.explain) std::cerr << reader->status() << "\n";
    wanted.memory.disk = reader.get();
    tern::runtime run(wanted.memory);
    const std::unique_ptr<tern::decoder> model = tern::open_decoder(file, run.store());
    const tern::graph graph =
        tern::record(*model, run.loop(), run.cpu(), tern::generate_options{}.prefill_batch, run.ctx().activations());
    run.reserve(tern::paged_cache::bytes_for(model->config().cache_for(wanted.longest(history.size()))) +
                (run.accelerator() != nullptr ? tern::staging_room(graph) : tern::bytes{}));
    const std::size_t chunk = tern::generate_options{}.prefill_batch;
    std::optional<predictor> times;
    if (!wanted.profile.empty())
        times.emplace(predictor::open(wanted.profile, run, *model, graph, wanted.where.from, chunk));
    const predicted_run asked{history.size(), wanted.tokens, chunk, wanted.on_miss};
    const tern::placement plan =
        wanted.where.policy == "by_tensor" ? times->by_tensor(graph, asked) : wanted.where.place(graph, run.machine());
    std::optional<tern::speed> predicted;
    if (times && !history.empty()) predicted = times->of(plan, graph, asked);
    if (wanted.explain)
        std::cerr << (predicted ? tern::explain(plan, graph, run.machine(), *predicted)
                                : tern::explain(plan, graph, run.machine()));
    if (!wanted.explain_json.empty())
        tern::write_text_file(wanted.explain_json,
                              tern::explain_json(plan, graph, run.machine(), predicted ? &*predicted : nullptr) + "\n");
    if (wanted.dry) return 0;
    for (const std::string& said : without_effect(args, wanted.where, run.accelerator() != nullptr, {plan, graph}))
        std::cerr << "note: " << said << "\n";

    const interrupts interrupt;
    run.ctx().stop_with(interrupt.token());
    run.ctx().treat_misses(tern::miss_policy(wanted.on_miss), &run.time());
    run.store().stop_with(interrupt.token());
    try {
        progress shown;
        shown.total = tern::bytes_to_load(plan, graph);
        run.load(plan, graph, interrupt.token(), &shown);
    } catch (const tern::stopped_error&) { return 130; }
    if (const tern::pinned_status locked = run.pinned_ram().status(); !locked.all_locked && locked.obtained.count != 0)
        std::cerr << "note: not all of the pinned memory is locked: " << locked.why << "\n";

    result written;
    {
        line text{.open = !wanted.json};
        if (!wanted.json) std::cout << wanted.prompt << std::flush;
        written = write_text(run, *model, words, *reader, std::move(history), wanted);
    }
    if (wanted.json)
        print_json(written, plan, graph, run, predicted);
    else
        print_figures(written, plan, graph, run);
    if (!wanted.json && predicted) print_predicted(written, *predicted);
    if (!std::cout.flush()) throw tern::io_error("cannot write to the standard output");
    return interrupt.happened() ? 130 : 0;
}

} // namespace

int main(int argc, char** argv) {
    try {
        const options args(argc, argv, {"prompt",      "tokenizer",         "tokens",   "context",   "vram",
                                        "link",        "latency-us",        "gops",     "ram",       "threads",
                                        "profile",     "activations",       "policy",   "machine",   "vram-bandwidth",
                                        "disk",        "on-miss",           "guess",    "launch-us", "top-k",
                                        "top-p",       "explain-json",      "eviction", "min-p",     "seed",
                                        "temperature", "repetition-penalty"},
                           {"load", "pinned", "strict", "json", "explain", "special", "dry", "warm", "help"});
        if (args.on("help")) {
            std::cout << help;
            return 0;
        }
        return run_program(args);
    } catch (const std::exception& e) {
        std::cerr << "generate: " << e.what() << "\n";
        const auto* full = dynamic_cast<const tern::budget_error*>(&e);
        if (full != nullptr && full->needed()) // bytes, and not threads
            std::cerr << "generate: raise --ram or --vram, lower --context or, where weights do not stream yet, take "
                         "--policy layer_stream (expert_offload for experts)\n";
        return 1;
    }
}
