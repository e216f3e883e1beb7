// Predictions beside published figures of other engines: constants fitted to all models but one predict that one.
//
//   bench_published [FOLDER]     FOLDER has the descriptions of models (default examples/models)
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "published.hpp"

namespace {

namespace bench = tern::bench;

double worst_prefill = 0, worst_decode = 0;

void print(const char* engine, const char* model, const bench::figures& said, const bench::figures& is) {
    std::printf("| %s | %s |", model, engine);
    for (std::size_t i = 0; i < bench::prompts.size(); ++i)
        if (is.prefill[i] > 0)
            std::printf(" %.0f / %.0f = %.2f |", said.prefill[i], is.prefill[i], said.prefill[i] / is.prefill[i]);
        else
            std::printf(" |");
    std::printf(" %.1f / %.1f = %.2f |\n", said.decode, is.decode, said.decode / is.decode);
}

void note_worst(const bench::figures& said, const bench::figures& is) {
    for (std::size_t i = 0; i < bench::prompts.size(); ++i)
        worst_prefill = std::max(worst_prefill, std::abs(said.prefill[i] / is.prefill[i] - 1));
    worst_decode = std::max(worst_decode, std::abs(said.decode / is.decode - 1));
}

void print(const char* of, const tern::efficiency& e) {
    std::printf("| %s |", of);
    for (const auto part : bench::fitted) std::printf(" %.2f |", e.*part);
    std::printf("\n");
}

const char* is_right(bool right) { return right ? "right" : "WRONG"; }

/// Which of two engines is faster, by prediction and in print.
void rank(const char* model, const bench::figures& a, const bench::figures& b, const bench::figures& said_a,
          const bench::figures& said_b, const char* name) {
    std::printf("| %s | %s |", model, name);
    for (std::size_t i = 0; i < bench::prompts.size(); ++i)
        std::printf(" %.2f, published %.2f: %s |", said_a.prefill[i] / said_b.prefill[i], a.prefill[i] / b.prefill[i],
                    is_right((said_a.prefill[i] > said_b.prefill[i]) == (a.prefill[i] > b.prefill[i])));
    std::printf(" %.2f, published %.2f: %s |\n", said_a.decode / said_b.decode, a.decode / b.decode,
                is_right((said_a.decode > said_b.decode) == (a.decode > b.decode)));
}

void run(const std::string& folder) {
    const std::vector<bench::predicted_model> models = bench::all_models(folder);
    std::vector<tern::efficiency> constants;
    std::printf("Efficiencies\n\n| fitted without |");
    for (const char* name : bench::fitted_names) std::printf(" %s |", name);
    std::printf("\n");
    for (std::size_t i = 0; i < models.size(); ++i) {
        constants.push_back(bench::fit_without(models, i));
        print(models[i].row().name, constants.back());
    }
    print("none", bench::fit_without(models, models.size()));
    print("tern's defaults", tern::efficiency{});

    std::printf("\nTokens a second, predicted / published = ratio; constants fitted without the row's model\n\n"
                "| model | engine | prompt 512 | 1024 | 2048 | 4096 | decode |\n");
    for (std::size_t i = 0; i < models.size(); ++i) {
        const bench::published_model& m = models[i].row();
        const bench::figures said = models[i].llama_cpp(constants[i]);
        note_worst(said, m.llama_cpp);
        print("llama.cpp", m.name, said, m.llama_cpp);
        print("ATSInfer", m.name, models[i].atsinfer(constants[i]), m.atsinfer);
        if (m.ktransformers.decode > 0)
            print("KTransformers", m.name, models[i].ktransformers(constants[i]), m.ktransformers);
        if (m.vllm.decode > 0) print("vLLM", m.name, models[i].vllm(constants[i]), m.vllm);
    }
    std::printf("\nlayer split against llama.cpp at worst: decode %.0f%%, prefill %.0f%%\n", 100 * worst_decode,
                100 * worst_prefill);

    std::printf("\nHow many times as fast\n\n| model | engines | prompt 512 | 1024 | 2048 | 4096 | decode |\n");
    for (std::size_t i = 0; i < models.size(); ++i) {
        const bench::published_model& m = models[i].row();
        const bench::figures split = models[i].llama_cpp(constants[i]), tensors = models[i].atsinfer(constants[i]);
        rank(m.name, m.atsinfer, m.llama_cpp, tensors, split, "ATSInfer, llama.cpp");
        if (m.ktransformers.decode == 0) continue;
        const bench::figures experts = models[i].ktransformers(constants[i]);
        rank(m.name, m.ktransformers, m.llama_cpp, experts, split, "KTransformers, llama.cpp");
        rank(m.name, m.atsinfer, m.ktransformers, tensors, experts, "ATSInfer, KTransformers");
    }
}

} // namespace

int main(int argc, char** argv) {
    try {
        run(argc > 1 ? argv[1] : "examples/models");
    } catch (const std::exception& e) {
        std::fprintf(stderr, "bench_published: %s\n", e.what());
        return 1;
    }
}
