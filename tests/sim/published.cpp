// Estimates of other engines' policies beside the figures that were published of them.
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <support/data.hpp>

#include "../../benchmarks/published.hpp"

namespace bench = tern::bench;

TEST_CASE("sim/published: constants fitted without a model predict llama.cpp's figures of it, and who is faster") {
    const std::vector<bench::predicted_model> models = bench::all_models(tern::test::source_file("examples/models"));
    REQUIRE(models.size() == 4);
    for (std::size_t i = 0; i < models.size(); ++i) {
        const bench::published_model& is = models[i].row();
        CAPTURE(is.name);
        const tern::efficiency e = bench::fit_without(models, i);
        const bench::figures split = models[i].llama_cpp(e), tensors = models[i].atsinfer(e);
        CHECK(std::abs(split.decode / is.llama_cpp.decode - 1) < 0.25);
        for (std::size_t n = 0; n < bench::prompts.size(); ++n) {
            CAPTURE(bench::prompts[n]);
            CHECK(std::abs(split.prefill[n] / is.llama_cpp.prefill[n] - 1) < 0.35);
            CHECK((tensors.prefill[n] > split.prefill[n]) == (is.atsinfer.prefill[n] > is.llama_cpp.prefill[n]));
        }
        CHECK((tensors.decode > split.decode) == (is.atsinfer.decode > is.llama_cpp.decode));
        if (is.ktransformers.decode == 0) continue;
        const bench::figures experts = models[i].ktransformers(e);
        CHECK((experts.decode > split.decode) == (is.ktransformers.decode > is.llama_cpp.decode));
        CHECK((experts.decode < tensors.decode) == (is.ktransformers.decode < is.atsinfer.decode));
    }
}

TEST_CASE("sim/published: the defaults of efficiency are the fit of all models") {
    const std::vector<bench::predicted_model> models = bench::all_models(tern::test::source_file("examples/models"));
    const tern::efficiency fit = bench::fit_without(models, models.size()), defaults{};
    for (std::size_t i = 0; i < bench::fitted.size(); ++i) {
        CAPTURE(bench::fitted_names[i]);
        CHECK(fit.*bench::fitted[i] == doctest::Approx(defaults.*bench::fitted[i]).epsilon(0.02));
    }
}

TEST_CASE("sim/published: a fit without figures is what it began with") {
    const tern::efficiency e = bench::fit({});
    for (const auto part : bench::fitted) CHECK(e.*part == doctest::Approx(bench::prior.*part));
}
