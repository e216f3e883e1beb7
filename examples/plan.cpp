// What would a model do on a machine? Runs it in virtual time under every policy, without its weights.
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
#include <tern/cost/machine_json.hpp>
#include <tern/cost/presets.hpp>
#include <tern/cost/roofline.hpp>
#include <tern/file/open_checkpoint.hpp>
#include <tern/model/open_decoder.hpp>
#include <tern/plan/all_cpu.hpp>
#include <tern/plan/by_tensor.hpp>
#include <tern/plan/expert_offload.hpp>
#include <tern/plan/explain.hpp>
#include <tern/plan/first_fit.hpp>
#include <tern/plan/layer_split.hpp>
#include <tern/plan/layer_stream.hpp>
#include <tern/sim/described_decoder.hpp>
#include <tern/sim/described_file.hpp>
#include <tern/sim/simulation.hpp>
#include <tern/sim/trace.hpp>

#include "options.hpp"

namespace {

constexpr const char* help = R"(plan MODEL.gguf|model.json [options]
  Predicts what a model would do on a machine, under every policy, without loading it.
  --machine NAME|FILE    rtx3060_laptop, rtx4090_64g, rtx6000_ada_nvme, h100, h200, cpu2, or a machine in JSON
                         (default rtx4090_64g)
  --policy NAME          all (default), all_cpu, first_fit, layer_split, layer_stream, expert_offload or by_tensor
  --prompt N             tokens of the prompt, in chunks of 512 (default 512)
  --context N            tokens that are there when decoding is measured, and that the cache has room for (default 2048)
  --vram SIZE --ram SIZE other budgets than the machine's
  --skew S               routing of experts: 0 is uniform (default), the expert of rank r weighs 1 / r^S
  --on-miss HOW          fetch (default), compute or split, of experts that are not where they are computed
  --explain              every tensor's place and the reason, for one policy
  --trace FILE           a timeline of one decoded token, for one policy, to be opened in a browser's trace viewer
  --json                 the table as JSON
)";

struct question {
    std::string model{};
    tern::machine machine{};
    std::size_t prompt = 512;
    std::size_t context = 2048;
    double skew = 0;
    tern::on_miss misses = tern::on_miss::fetch;
};

struct answer {
    std::string policy{};
    std::string refused{}; ///< why there is none
    double load = 0, prefill = 0, decode = 0;
    std::string prefill_bound{}, decode_bound{};
    double moved = 0; ///< bytes over all links for a decoded token
};

tern::machine machine_of(const std::string& name) {
    using namespace tern::machines;
    if (name == "rtx3060_laptop") return rtx3060_laptop();
    if (name == "rtx4090_64g") return rtx4090_64g();
    if (name == "rtx6000_ada_nvme") return rtx6000_ada_nvme();
    if (name == "h100") return h100();
    if (name == "h200") return h200();
    if (name == "cpu2") return cpu2();
    if (name.find(".json") == name.npos)
        throw tern::config_error("there is no machine \"" + name + "\": see --help, or name a file in JSON");
    return tern::parse_machine(tern::read_text_file(name), name);
}

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

tern::placement place(const std::string& policy, const tern::graph& g, const tern::machine& m, std::size_t context) {
    if (policy == "all_cpu") return tern::all_cpu{}.place(g, m);
    if (policy == "first_fit") return tern::first_fit{}.place(g, m);
    if (policy == "layer_split") return tern::layer_split{.layers = tern::layer_split::as_many_as_fit}.place(g, m);
    if (policy == "layer_stream") return tern::layer_stream{.from = tern::tier_of<tern::mapped>}.place(g, m);
    if (policy == "expert_offload") return tern::expert_offload{}.place(g, m);
    if (policy == "by_tensor") {
        tern::chain_options how;
        how.how.shape = {.tokens = 1, .context = context, .habits = {.cache_on_host = false}};
        return tern::by_tensor{tern::roofline(m), how}.place(g, m);
    }
    throw tern::config_error("there is no policy \"" + policy + "\": see --help");
}

answer ask(const std::string& policy, const question& q, std::vector<tern::sim_event>* events, bool explain) {
    answer a{.policy = policy};
    const tern::cost_by cost{tern::roofline(q.machine)};
    tern::simulation sim(q.machine, cost, {.routing = tern::expert_draw({.skew = q.skew}), .misses = q.misses});
    const opened o(q.model, sim);
    constexpr std::size_t chunk = 512;
    const tern::graph g = tern::record(*o.model, sim.loop(), sim.host(), std::min(chunk, q.prompt));
    sim.reserve_cache(*o.model, g, q.context);
    const tern::placement p = place(policy, g, sim.machine(), q.context);
    if (explain) std::cout << tern::explain(p, g, sim.machine());
    a.load = sim.load(p, g).count;
    tern::seconds prefill{};
    for (std::size_t done = 0; done < q.prompt; done += chunk) {
        const tern::pass_report r = sim.prefill(*o.model, std::min(chunk, q.prompt - done), done);
        prefill += r.took;
        a.prefill_bound = r.bound()->name;
    }
    a.prefill = static_cast<double>(q.prompt) / prefill.count;
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

void print(const std::vector<answer>& answers) {
    std::printf("%-15s %9s %14s %14s %12s  %s\n", "policy", "load s", "prefill tok/s", "decode tok/s", "MB/token",
                "bound by (prefill / decode)");
    for (const answer& a : answers) {
        if (!a.refused.empty())
            std::printf("%-15s %s\n", a.policy.c_str(), a.refused.c_str());
        else
            std::printf("%-15s %9.2f %14.2f %14.2f %12.1f  %s / %s\n", a.policy.c_str(), a.load, a.prefill, a.decode,
                        a.moved / 1e6, a.prefill_bound.c_str(), a.decode_bound.c_str());
    }
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
                       {"machine", "policy", "prompt", "context", "vram", "ram", "skew", "on-miss", "trace"},
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
    if (args.has("vram")) q.machine = q.machine.with_budget<tern::vram>(args.size("vram", {}));
    if (args.has("ram")) q.machine = q.machine.with_budget<tern::pageable>(args.size("ram", {}));

    std::vector<std::string> policies{args.text("policy", "all")};
    const bool all = policies.front() == "all";
    if (all) policies = {"all_cpu", "first_fit", "layer_split", "layer_stream", "expert_offload", "by_tensor"};
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
