// The kernels against values from PyTorch and transformers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "../support/data.hpp"
#include "support.hpp"
#include <tern/base/json.hpp>
#include <tern/format/plain.hpp>
#include <tern/kernel/attention.hpp>
#include <tern/kernel/elementwise.hpp>
#include <tern/kernel/rms_norm.hpp>
#include <tern/kernel/rope.hpp>
#include <tern/kernel/rope_scaling.hpp>
#include <tern/kernel/router.hpp>
#include <tern/kernel/sample.hpp>

using namespace tern;
using namespace tern::test;

namespace {

const json_value& goldens() {
    static const json_value root = [] {
        const auto raw = read_all(source_file("tests/data/ops.json"));
        return parse_json(std::string_view(raw.data(), raw.size()), "ops.json");
    }();
    return root;
}

template <class T = float> std::vector<T> values(const json_value& of, const char* key) {
    std::vector<T> out;
    for (const json_value& v : of.at(key).array()) out.push_back(static_cast<T>(v.as_double()));
    return out;
}

std::size_t count(const json_value& of, const char* key) { return of.at(key).as_uint64(); }

float number(const json_value& of, const char* key, double otherwise = 0) {
    const json_value* value = of.find(key);
    return static_cast<float>(value ? value->as_double() : otherwise);
}

void compare(const std::vector<float>& y, const std::vector<float>& expected, double error) {
    REQUIRE(y.size() == expected.size());
    for (std::size_t i = 0; i < y.size(); ++i)
        REQUIRE(std::abs(double(y[i]) - double(expected[i])) <= error * (1 + std::abs(double(expected[i]))));
}

/// Runs the reference and what the table holds, which is a fast kernel where those are linked.
template <class Op, class Format = kernel::no_format>
void check(typename Op::args args, float* Op::args::*out, const std::vector<float>& expected, double error) {
    std::vector<float> y(expected.size());
    args.*out = y.data();
    run<Op, Format>(args);
    compare(y, expected, error);
    kernel::slot<Op, Format>.get().run(args, 0, Op::items(args));
    compare(y, expected, error);
}

kernel::rope_frequencies frequencies(const json_value& s, std::size_t dims) {
    const std::string& type = s.at("rope_type").as_string();
    const double base = s.at("rope_theta").as_double();
    if (type == "linear")
        return kernel::rope_frequencies_of(dims, base, kernel::linear_rope{s.at("factor").as_double()});
    if (type == "llama3")
        return kernel::rope_frequencies_of(dims, base,
                                           kernel::llama3_rope{s.at("factor").as_double(),
                                                               s.at("low_freq_factor").as_double(),
                                                               s.at("high_freq_factor").as_double(),
                                                               s.at("original_max_position_embeddings").as_double()});
    if (type == "yarn")
        return kernel::rope_frequencies_of(
            dims, base,
            kernel::yarn_rope{s.at("factor").as_double(), s.at("original_max_position_embeddings").as_double(),
                              double(number(s, "beta_fast", 32)), double(number(s, "beta_slow", 1))});
    REQUIRE(type == "default");
    return kernel::rope_frequencies_of(dims, base);
}

} // namespace

TEST_CASE("kernel/goldens: rotary embedding, with every scaling") {
    for (const json_value& g : goldens().at("rope").array()) {
        CAPTURE(g.at("name").as_string());
        const std::size_t dims = count(g, "rot"), heads = count(g, "heads"), dim = count(g, "dim");
        const auto f = frequencies(g.at("scaling"), dims);
        const auto inv_freq = values<double>(g, "inv_freq");
        REQUIRE(f.inv_freq.size() == inv_freq.size());
        for (std::size_t i = 0; i < inv_freq.size(); ++i)
            CHECK(f.inv_freq[i] == doctest::Approx(inv_freq[i]).epsilon(1e-6));
        CHECK(f.magnitude == doctest::Approx(g.at("scale").as_double()));
        if (const json_value* factors = g.find("factors")) {
            const auto listed = values(g, "factors");
            CHECK(factors->array().size() == dims / 2);
            const auto same = kernel::rope_frequencies_of(dims, g.at("scaling").at("rope_theta").as_double(),
                                                          kernel::listed_rope{listed});
            for (std::size_t i = 0; i < inv_freq.size(); ++i)
                CHECK(same.inv_freq[i] == doctest::Approx(inv_freq[i]).epsilon(1e-6));
        }
        const auto positions = values<std::int32_t>(g, "positions");
        const auto x = values(g, "x");
        const std::size_t tokens = positions.size();
        std::vector<float> c(tokens * dims / 2), s(c);
        run<kernel::rope_angles>({positions.data(), tokens, f.inv_freq.data(), dims / 2,
                                  static_cast<float>(f.magnitude), c.data(), s.data()});
        const auto pairing =
            g.at("layout").as_string() == "half" ? kernel::rope_pairing::half_split : kernel::rope_pairing::adjacent;
        // The golden angles were computed in f32: at position 1000 they are off by up to 3e-5.
        check<kernel::rope>(
            {x.data(), heads * dim, tokens, heads, dim, dims, pairing, c.data(), s.data(), nullptr, heads * dim},
            &kernel::rope::args::y, values(g, "y"), 1e-4);
    }
}

TEST_CASE("kernel/goldens: attention") {
    for (const json_value& g : goldens().at("attention").array()) {
        CAPTURE(g.at("name").as_string());
        const std::size_t heads = count(g, "heads"), kv_heads = count(g, "kv_heads"), dim = count(g, "dim");
        const std::size_t tokens = count(g, "q_tokens"), keys = count(g, "kv_tokens");
        const auto q = values(g, "q"), k = values(g, "k"), v = values(g, "v");
        const auto sinks = g.find("sinks") ? values(g, "sinks") : std::vector<float>{};
        const kernel::kv_page page{k.data(), v.data(), keys};
        const kernel::sequence_pages sequence{&page, 1};
        std::vector<std::int32_t> positions, sequence_of(tokens);
        for (std::size_t t = 0; t < tokens; ++t) positions.push_back(static_cast<std::int32_t>(keys - tokens + t));
        check<kernel::attention>({q.data(), heads * dim, tokens, heads, kv_heads, dim, number(g, "scale"),
                                  number(g, "softcap"), count(g, "window"), sinks.empty() ? nullptr : sinks.data(),
                                  &sequence, sequence_of.data(), positions.data(), nullptr, heads * dim},
                                 &kernel::attention::args::out, values(g, "y"), 1e-5);
    }
}

TEST_CASE("kernel/goldens: the router") {
    for (const json_value& g : goldens().at("router").array()) {
        CAPTURE(g.at("name").as_string());
        const std::size_t tokens = count(g, "tokens"), experts = count(g, "experts"), k = count(g, "used");
        const std::string& kind = g.at("kind").as_string();
        const auto logits = values(g, "logits");
        std::vector<std::int32_t> ids(tokens * k);
        std::vector<float> weights(tokens * k);
        const auto softmax =
            kind == "topk_softmax" ? kernel::router_softmax::after_top_k : kernel::router_softmax::before_top_k;
        run<kernel::route>({logits.data(), experts, tokens, experts, k, softmax, kind == "softmax_topk_renormalised", 1,
                            ids.data(), weights.data()});
        CHECK(ids == values<std::int32_t>(g, "ids"));
        compare(weights, values(g, "weights"), 1e-6);
    }
}

TEST_CASE("kernel/goldens: normalisation and activations") {
    for (const json_value& g : goldens().at("norm").array()) {
        CAPTURE(g.at("name").as_string());
        const std::size_t rows = count(g, "rows"), dim = count(g, "dim");
        const auto x = values(g, "x");
        auto w = values(g, "weight");
        if (g.at("one_plus_weight").as_bool())
            for (float& v : w) v += 1;
        check<kernel::rms_norm, f32>({x.data(), dim, rows, dim, bytes_of(w.data()), number(g, "eps"), nullptr, dim},
                                     &kernel::rms_norm::args::y, values(g, "y"), 1e-6);
    }
    for (const json_value& g : goldens().at("unary").array()) {
        const std::string& name = g.at("name").as_string();
        CAPTURE(name);
        const auto x = values(g, "x");
        const std::size_t n = x.size();
        const std::vector<float> ones(n, 1.0f);
        const auto act = [&](kernel::activation_kind kind) {
            check<kernel::gated>({x.data(), n, ones.data(), n, 1, n, kind, nullptr, n}, &kernel::gated::args::y,
                                 values(g, "y"), 1e-6);
        };
        if (name == "silu") act(kernel::activation_kind::silu);
        if (name == "gelu_tanh") act(kernel::activation_kind::gelu_tanh);
        if (name == "gelu_erf") act(kernel::activation_kind::gelu_erf);
        if (g.find("cap"))
            check<kernel::soft_cap>({x.data(), n, 1, n, number(g, "cap"), nullptr, n}, &kernel::soft_cap::args::y,
                                    values(g, "y"), 1e-6);
    }
    for (const json_value& g : goldens().at("gated").array()) {
        const std::string& name = g.at("name").as_string();
        CAPTURE(name);
        const auto gate = values(g, "gate"), up = values(g, "up");
        const std::size_t n = gate.size();
        const auto kind = name == "swiglu"       ? kernel::activation_kind::silu
                          : name == "geglu_tanh" ? kernel::activation_kind::gelu_tanh
                                                 : kernel::activation_kind::silu_clamped;
        check<kernel::gated>(
            {gate.data(), n, up.data(), n, 1, n, kind, nullptr, n, number(g, "alpha", 1.702), number(g, "limit", 7)},
            &kernel::gated::args::y, values(g, "y"), 1e-6);
    }
}

TEST_CASE("kernel/goldens: sampling draws as often as it should") {
    for (const json_value& g : goldens().at("sampling").array()) {
        const std::string& name = g.at("name").as_string();
        CAPTURE(name);
        kernel::sampling how{.temperature = 1, .seed = 5};
        for (const json_value& step : g.at("steps").array()) {
            const std::string& what = step.at("what").as_string();
            const float value = number(step, "value");
            if (what == "temperature")
                how.temperature = value;
            else if (what == "top_k")
                how.top_k = static_cast<std::int32_t>(value);
            else if (what == "top_p")
                how.top_p = value;
            else if (what == "min_p")
                how.min_p = value;
            else
                how.repetition_penalty = value;
        }
        // There the temperature comes before top-p, here after it: another set is kept.
        if (g.at("steps").array().size() > 1) continue;
        const auto past = values<std::int32_t>(g, "past");
        const auto logits = values(g, "logits"), expected = values(g, "probabilities");
        std::vector<int> hits(logits.size());
        kernel::sampler next{how};
        const int draws = 20000;
        for (int i = 0; i < draws; ++i) {
            auto copy = logits;
            ++hits[static_cast<std::size_t>(next(copy, past))];
        }
        for (std::size_t i = 0; i < logits.size(); ++i) {
            if (expected[i] == 0) CHECK(hits[i] == 0);
            // Five standard deviations of a count.
            const double p = double(expected[i]);
            CHECK(std::abs(hits[i] - draws * p) <= 5 * std::sqrt(draws * p * (1 - p)) + 1);
        }
        if (name == "plain") {
            const auto top = next.top_probabilities(logits, logits.size());
            for (const auto& c : top)
                CHECK(double(c.probability) ==
                      doctest::Approx(double(expected[static_cast<std::size_t>(c.id)])).epsilon(1e-5));
        }
    }
}
