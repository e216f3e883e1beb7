// What would a model do on a machine? Runs it in virtual time under every policy, without its weights.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/base/json_writer.hpp>
#include <tern/cost/roofline.hpp>
#include <tern/file/open_checkpoint.hpp>
#include <tern/model/open_decoder.hpp>
#include <tern/plan/all_cpu.hpp>
#include <tern/plan/automatic.hpp>
#include <tern/plan/bound.hpp>
#include <tern/plan/by_tensor.hpp>
#include <tern/plan/expert_offload.hpp>
#include <tern/plan/explain.hpp>
#include <tern/plan/first_fit.hpp>
#include <tern/plan/layer_split.hpp>
#include <tern/plan/layer_stream.hpp>
#include <tern/plan/layer_upload.hpp>
#include <tern/plan/token_tiers.hpp>
#include <tern/sim/described_decoder.hpp>
#include <tern/sim/described_file.hpp>
#include <tern/sim/simulation.hpp>
#include <tern/sim/trace.hpp>

#include "machine_of.hpp"
#include "options.hpp"

namespace {

constexpr const char* help = R"(plan MODEL.gguf|model.json [options]
  Predicts what a model would do on a machine, under every policy, without loading it.
  --machine NAME|FILE    rtx3060_laptop, rtx4090_64g, rtx6000_ada_nvme, h100, h200, cpu2, or a machine in JSON
                         (default rtx4090_64g)
  --policy NAME          all (default), all_cpu, first_fit, layer_split, layer_upload, layer_stream, expert_offload (or
                         =computed, =uniform, =first_layers, =last_layers), by_tensor or automatic
  --prompt N             tokens of the prompt, in chunks of 512 (default 512)
  --context N            tokens that are there when decoding is measured, and that the cache has room for (default 2048)
  --vram SIZE --ram SIZE other budgets than the machine's
  --skew S               routing of experts: 0 is uniform (default), the expert of rank r weighs 1 / r^S
  --on-miss HOW          fetch (default; split for automatic), compute or split, of experts that are not where they are
                         computed
  --engine HOW           overlapped (default) or operators: what estimates take an engine to do, see docs/cost.md
  --explain              every tensor's place and the reason, for one policy
  --trace FILE           a timeline of one decoded token, for one policy, to be opened in a browser's trace viewer
  --json                 the table as JSON
  Figures are those of a run in virtual time, and what estimates predict: for a chunk of the prompt and for one token,
  the latter also where experts are as popular as 1 / rank. automatic has a plan for the prompt and one for single
  tokens. Lines of their own have the change between them, ratios to layer split (the better of layer_split and
  layer_upload, whose uploads and computations are predicted to take turns) and to the better of that and
  expert_offload, and the least time that bytes allow, and with arithmetic.
)";

struct question {
    std::string model{};
    tern::machine machine{};
    std::size_t prompt = 512;
    std::size_t context = 2048;
    double skew = 0;
    tern::on_miss misses = tern::on_miss::fetch;
    bool misses_given = false;
    tern::engine_habits engine = tern::overlapped_engine;
};

struct answer {
    std::string policy{};
    std::string refused{}; ///< why there is none
    double load = 0, prefill = 0, decode = 0;
    std::string prefill_bound{}, decode_bound{};
    double moved = 0;                                                      ///< bytes over all links for a decoded token
    double foreseen_prefill = 0, foreseen_decode = 0, foreseen_skewed = 0; ///< tokens a second, by estimate
    double prefill_least = 0, decode_least = 0;                            ///< tokens a second at most, by bytes
    double prefill_worked = 0, decode_worked = 0;                          ///< and by arithmetic
    double change = 0;                                                     ///< seconds between two plans
    std::string ways{};                                                    ///< of the plans that automatic took
};

/// A model with its file, in one simulation.
struct opened {
    tern::model_description described{};
    std::unique_ptr<tern::checkpoint> file{};
    std::unique_ptr<tern::decoder> model{};

    opened(const std::string& path, tern::simulation& sim) {
        if (path.size() > 5 && path.substr(path.size() - 5) == ".json") {
            described = tern::read_description(path);
            file = std::make_unique<tern::checkpoint>(tern::described_file(described));
            model = tern::open_described(described, *file, sim.store());
        } else {
            file = std::make_unique<tern::checkpoint>(tern::open_checkpoint(path));
            model = tern::open_decoder(*file, sim.store());
        }
        sim.maps(*file);
    }
};

tern::chain_options options_of(std::size_t tokens, std::size_t context, const question& q) {
    tern::chain_options how; // the simulation has set the room of the cache aside
    how.how.shape = {.tokens = tokens, .context = context, .habits = q.engine};
    return how;
}

/// The plans of the prompt and of single tokens: one and the same, but for automatic.
struct plans {
    tern::placement prompt{};
    tern::placement token{};
};

plans place(const std::string& policy, const tern::graph& g, const tern::machine& m, const question& q,
            std::size_t chunk) {
    const auto both = [](tern::placement p) { return plans{p, p}; };
    if (policy == "all_cpu") return both(tern::all_cpu{}.place(g, m));
    if (policy == "first_fit") return both(tern::first_fit{}.place(g, m));
    if (policy == "layer_split")
        return both(tern::layer_split{.layers = tern::layer_split::as_many_as_fit}.place(g, m));
    if (policy == "layer_upload") {
        const tern::layer_upload split;
        return {split.place_for(chunk, g, m), split.place_for(1, g, m)};
    }
    if (policy == "layer_stream") return both(tern::layer_stream{.from = tern::tier_of<tern::mapped>}.place(g, m));
    using enum tern::expert_choice;
    if (policy == "expert_offload") return both(tern::expert_offload{}.place(g, m));
    if (policy == "expert_offload=computed") {
        tern::placement p = tern::expert_offload{}.place(g, m);
        p.misses = tern::on_miss::compute;
        p.fill = true;
        return both(std::move(p));
    }
    if (policy == "expert_offload=uniform") return both(tern::expert_offload{.experts = uniform}.place(g, m));
    if (policy == "expert_offload=first_layers") return both(tern::expert_offload{.experts = first_layers}.place(g, m));
    if (policy == "expert_offload=last_layers") return both(tern::expert_offload{.experts = last_layers}.place(g, m));
    const tern::chain_options how = options_of(1, q.context, q);
    if (policy == "by_tensor") return both(tern::by_tensor{tern::roofline(m), how}.place(g, m));
    if (policy == "automatic") {
        tern::token_tiers<> tiers{{{}, how, q.misses_given ? q.misses : tern::on_miss::split}, {{1, 256}}};
        if (chunk > 1) tiers.ranges.push_back({chunk, 8});
        const tern::tiered_placement placed = tiers.place(g, m);
        return {placed.plan_for(chunk), placed.plan_for(1)};
    }
    throw tern::config_error("there is no policy \"" + policy + "\": see --help");
}

/// What estimates say.
void foresee(answer& a, const plans& p, const tern::graph& g, const tern::machine& m, const question& q,
             std::size_t chunk) {
    const tern::roofline cost(m);
    const auto rate = [&](std::size_t tokens, tern::seconds t) { return static_cast<double>(tokens) / t.count; };
    const auto least = [&](const tern::chain_options& how, tern::least_of what) {
        return rate(how.how.shape.tokens, tern::least_time(g, m, cost, how.how, {}, how.into, {how.rest, 0, 0}, what));
    };
    tern::chain_options how = options_of(chunk, q.prompt > chunk ? q.prompt / 2 : 0, q);
    how.how.misses = q.misses;
    how.how.shape.habits.serial_uploads = a.policy == "layer_upload";
    a.foreseen_prefill = rate(chunk, tern::estimate(g, p.prompt, m, cost, how.how).total);
    a.prefill_least = least(how, tern::least_of::bytes);
    a.prefill_worked = least(how, tern::least_of::arithmetic);
    how = options_of(1, q.context, q);
    how.how.misses = q.misses;
    a.foreseen_decode = rate(1, tern::estimate(g, p.token, m, cost, how.how).total);
    a.decode_least = least(how, tern::least_of::bytes);
    a.decode_worked = least(how, tern::least_of::arithmetic);
    std::size_t experts = 0;
    for (const tern::planned_tensor& t : g.tensors) experts = std::max(experts, t.shape.experts);
    for (std::size_t r = 1; r <= experts && experts > 1; ++r) how.how.popularity.push_back(1 / static_cast<double>(r));
    a.foreseen_skewed = 1 / tern::estimate(g, p.token, m, cost, how.how).total.count;
    a.change = tern::switch_price(p.prompt, p.token, g, m, cost).count;
    const auto way = [](std::string_view name) { return std::string(name.substr(name.find(": ") + 2)); };
    if (a.policy == "automatic")
        a.ways = way(p.prompt.policy) + " for the prompt; " + way(p.token.policy) + " for single tokens";
}

answer ask(const std::string& policy, const question& q, std::vector<tern::sim_event>* events, bool explain) {
    answer a{.policy = policy};
    const tern::cost_by cost{tern::roofline(q.machine)};
    tern::simulation sim(q.machine, cost, {.routing = tern::expert_draw({.skew = q.skew}), .misses = q.misses});
    const opened o(q.model, sim);
    constexpr std::size_t chunk = 512;
    const tern::graph g = tern::record(*o.model, sim.loop(), sim.host(), std::min(chunk, q.prompt));
    sim.reserve_cache(*o.model, g, q.context);
    const plans p = place(policy, g, sim.machine(), q, std::min(chunk, q.prompt));
    if (explain) std::cout << tern::explain(p.token, g, sim.machine());
    foresee(a, p, g, sim.machine(), q, std::min(chunk, q.prompt));
    a.load = sim.load(p.prompt, g).count;
    tern::seconds prefill{};
    for (std::size_t done = 0; done < q.prompt; done += chunk) {
        const tern::pass_report r = sim.prefill(*o.model, std::min(chunk, q.prompt - done), done);
        prefill += r.took;
        a.prefill_bound = r.bound()->name;
    }
    a.prefill = static_cast<double>(q.prompt) / prefill.count;
    if (!tern::same_plan(p.prompt, p.token)) static_cast<void>(sim.load(p.token, g));
    static_cast<void>(sim.decode(*o.model, q.context, 2)); // streams reach their steady state
    sim.tell(events);
    const std::size_t tokens = events != nullptr ? 1 : 8;
    const tern::pass_report r = sim.decode(*o.model, q.context, tokens);
    a.decode = r.tokens_per_second();
    a.decode_bound = r.bound()->name;
    for (const tern::sim_track& t : r.tracks)
        if (t.is_link) a.moved += t.bytes / static_cast<double>(tokens);
    return a;
}

/// The answer of a policy whose name begins so and that is fastest by a figure; null where there is none.
const answer* best_of(const std::vector<answer>& answers, std::string_view begins, double answer::*figure) {
    const answer* best = nullptr;
    for (const answer& a : answers)
        if (a.policy.rfind(begins, 0) == 0 && a.refused.empty() && (best == nullptr || a.*figure > best->*figure))
            best = &a;
    return best;
}

/// automatic against others, for one figure.
void compare(const std::vector<answer>& answers, const char* what, double answer::*figure) {
    const answer* const mine = best_of(answers, "automatic", figure);
    const answer* const split = best_of(answers, "layer_split", figure);
    const answer* const upload = best_of(answers, "layer_upload", figure);
    const answer* const offload = best_of(answers, "expert_offload", figure);
    if (mine == nullptr || split == nullptr || upload == nullptr || offload == nullptr) return;
    const double split_speed = std::max(split->*figure, upload->*figure);
    const double better = std::max(split_speed, offload->*figure);
    std::printf(
        "automatic, %s: %.2f times layer split (%.2f times without uploads), %.2f times the better of layer split "
        "and expert_offload\n",
        what, mine->*figure / split_speed, mine->*figure / (split->*figure), mine->*figure / better);
}

/// A figure of automatic against the least times.
void hold(const char* what, double foreseen, double by_bytes, double by_arithmetic) {
    std::printf(
        "%s: %.2f a second as predicted, %.2f by bytes over bandwidths (%.2f times), %.2f with arithmetic (%.2f "
        "times)\n",
        what, foreseen, by_bytes, by_bytes / foreseen, by_arithmetic, by_arithmetic / foreseen);
}

void print(const std::vector<answer>& answers) {
    std::printf("%-27s %28s   %s\n", "", "in virtual time", "tokens a second, predicted");
    std::printf("%-27s %8s %9s %9s %9s   %9s %9s %9s  %s\n", "policy", "load s", "prefill", "decode", "MB/token",
                "prefill", "decode", "skewed", "bound by (prefill / decode)");
    for (const answer& a : answers) {
        if (!a.refused.empty())
            std::printf("%-27s %s\n", a.policy.c_str(), a.refused.c_str());
        else
            std::printf("%-27s %8.2f %9.2f %9.2f %9.1f   %9.2f %9.2f %9.2f  %s / %s\n", a.policy.c_str(), a.load,
                        a.prefill, a.decode, a.moved / 1e6, a.foreseen_prefill, a.foreseen_decode, a.foreseen_skewed,
                        a.prefill_bound.c_str(), a.decode_bound.c_str());
    }
    compare(answers, "prefill as predicted", &answer::foreseen_prefill);
    compare(answers, "decode as predicted", &answer::foreseen_decode);
    compare(answers, "skewed decode as predicted", &answer::foreseen_skewed);
    compare(answers, "prefill in virtual time", &answer::prefill);
    compare(answers, "decode in virtual time", &answer::decode);
    const answer* const mine = best_of(answers, "automatic", &answer::foreseen_decode);
    if (mine == nullptr) return;
    std::printf("automatic: %s; %.2f s for a change between them\n", mine->ways.c_str(), mine->change);
    hold("tokens of a prompt", mine->foreseen_prefill, mine->prefill_least, mine->prefill_worked);
    hold("single tokens", mine->foreseen_decode, mine->decode_least, mine->decode_worked);
}

std::string json_of(const std::vector<answer>& answers) {
    tern::json_writer w;
    w.begin_array();
    for (const answer& a : answers) {
        w.begin_object().key("policy").value(a.policy);
        if (!a.refused.empty()) {
            w.key("refused").value(a.refused).end_object();
            continue;
        }
        w.key("load_seconds").value(a.load).key("prefill_tokens_per_second").value(a.prefill);
        w.key("decode_tokens_per_second").value(a.decode).key("bytes_per_token").value(a.moved);
        w.key("predicted_prefill_tokens_per_second").value(a.foreseen_prefill);
        w.key("predicted_decode_tokens_per_second").value(a.foreseen_decode);
        w.key("predicted_skewed_decode_tokens_per_second").value(a.foreseen_skewed);
        w.key("least_seconds_per_token").value(1 / a.decode_least).key("change_seconds").value(a.change);
        w.key("least_seconds_per_token_with_arithmetic").value(1 / a.decode_worked);
        w.key("most_prefill_tokens_per_second").value(a.prefill_least);
        w.key("most_prefill_tokens_per_second_with_arithmetic").value(a.prefill_worked);
        w.key("prefill_bound").value(a.prefill_bound).key("decode_bound").value(a.decode_bound).end_object();
    }
    w.end_array();
    return w.take();
}

void notes(const question& q) {
    if (q.model.size() <= 5 || q.model.substr(q.model.size() - 5) != ".json") return;
    const tern::model_description d = tern::read_description(q.model);
    if (d.priced_only()) std::cout << "priced only: it has operators that are declared and not implemented\n";
    for (const std::string& e : d.estimated) std::cout << "estimated: " << e << "\n";
}

int run(int argc, char** argv) {
    const options args(argc, argv,
                       {"machine", "policy", "prompt", "context", "vram", "ram", "skew", "on-miss", "trace", "engine"},
                       {"help", "json", "explain"});
    if (args.on("help")) throw usage_error{help};
    question q{.model = "examples/models/gpt-oss-20b-mxfp4.json",
               .machine = machine_of(args.text("machine", "rtx4090_64g"))};
    if (args.plain().size() > 1) throw usage_error{help};
    if (!args.plain().empty()) q.model = args.plain().front();
    q.prompt = args.whole("prompt", q.prompt);
    q.context = args.whole("context", q.context);
    if (q.prompt == 0 || q.prompt > 1'000'000 || q.context == 0 || q.context > 10'000'000)
        throw tern::config_error("--prompt is 1 to 1000000 tokens, --context 1 to 10000000");
    q.skew = static_cast<double>(args.real("skew", 0));
    q.misses = tern::parse_on_miss(args.text("on-miss", "fetch"));
    q.misses_given = args.has("on-miss");
    const std::string engine = args.text("engine", "overlapped");
    if (engine == "operators") q.engine = {.cache_on_host = false};
    if (engine != "operators" && engine != "overlapped")
        throw tern::config_error("--engine is overlapped or operators, not \"" + engine + "\"");
    if (args.has("vram")) q.machine = q.machine.with_budget<tern::vram>(args.size("vram", {}));
    if (args.has("ram")) q.machine = q.machine.with_budget<tern::pageable>(args.size("ram", {}));

    std::vector<std::string> policies{args.text("policy", "all")};
    const bool all = policies.front() == "all";
    if (all)
        policies = {"all_cpu",
                    "first_fit",
                    "layer_split",
                    "layer_upload",
                    "layer_stream",
                    "expert_offload",
                    "expert_offload=computed",
                    "expert_offload=uniform",
                    "expert_offload=first_layers",
                    "expert_offload=last_layers",
                    "by_tensor",
                    "automatic"};
    if (all && (args.has("trace") || args.on("explain")))
        throw tern::config_error("--trace and --explain are for one policy: name it with --policy");
    std::vector<tern::sim_event> events;
    std::vector<answer> answers;
    for (const std::string& policy : policies) {
        try {
            answers.push_back(ask(policy, q, args.has("trace") ? &events : nullptr, args.on("explain")));
        } catch (const tern::error& e) {
            if (!all) throw;
            answers.push_back({.policy = policy, .refused = e.what()});
        }
    }
    if (args.on("json")) {
        std::cout << json_of(answers) << "\n";
    } else {
        std::cout << q.model << " on " << q.machine.name << ", a prompt of " << q.prompt << ", decoding at "
                  << q.context << std::endl;
        print(answers);
        notes(q);
    }
    if (args.has("trace")) tern::write_text_file(args.text("trace", ""), tern::chrome_trace(events));
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const usage_error& e) { std::cerr << e.help; } catch (const std::exception& e) {
        std::cerr << "plan: " << e.what() << "\n";
    }
    return 1;
}
