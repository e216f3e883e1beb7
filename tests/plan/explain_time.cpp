#include <tern/plan/explain_time.hpp>

#include <string>

#include <doctest/doctest.h>

#include <tern/base/json.hpp>
#include <tern/plan/first_fit.hpp>

#include "support.hpp"

namespace test = tern::test;

namespace {

tern::speed predicted(const tern::graph& g) {
    tern::speed s{.prefill = 200, .decode = 12.5};
    s.token = {.total = {0.08}, .waited = {0.02}, .switching = {0.0001}, .switches = 4, .bound = "pcie"};
    s.token.resources = {{"pcie", {0.05}, {1000}}};
    s.chunk = {.total = {2.5}, .bound = "cpu"};
    for (std::size_t t = 0; t < g.tensors.size(); ++t) {
        s.token.tensors.push_back({0.000012 * double(t + 1)});
        s.chunk.tensors.push_back({0.0015});
    }
    return s;
}

} // namespace

TEST_CASE("plan/explain_time: each tensor has its times, and two lines say how fast and what bounds it") {
    const tern::graph g = test::layers();
    const tern::machine m = test::with({3000});
    const tern::placement p = tern::first_fit{}.place(g, m);
    const std::string text = tern::explain(p, g, m, predicted(g));
    CAPTURE(text);
    CHECK(text.find("place               prefill, decode       reason\n") != text.npos);
    CHECK(text.find("1.5 ms, 12 us ") != text.npos);
    CHECK(text.find("1.5 ms, 24 us ") != text.npos);
    CHECK(text.find("predicted prefill: 200 tokens/s, bound by cpu; of 2.5 s a pass 0 us waiting for weights, 0 us "
                    "switching devices 0 times\n") != text.npos);
    CHECK(text.ends_with("predicted decode: 12.5 tokens/s, bound by pcie; of 80 ms a pass 20 ms waiting for weights, "
                         "100 us switching devices 4 times\n"));
    CHECK(tern::explain(p, g, m).find("prefill") == std::string::npos);
}

TEST_CASE("plan/explain_time: as JSON, with and without a prediction") {
    const tern::graph g = test::layers();
    const tern::machine m = test::with({3000});
    const tern::placement p = tern::first_fit{}.place(g, m);
    const tern::speed s = predicted(g);
    const std::string text = tern::explain_json(p, g, m, &s);
    CAPTURE(text);
    CHECK_NOTHROW(static_cast<void>(tern::parse_json(text, "explain", 16)));
    const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
    CHECK(has("\"policy\":\"first_fit\""));
    CHECK(has("\"name\":\"" + g.tensors[1].name + "\""));
    CHECK(has("\"prefill_seconds\":0.0015,\"decode_seconds\":"));
    CHECK(has("\"where\":\"vram:0\",\"weights\":2128,"));
    CHECK(has("\"budget\":3000"));
    CHECK(has("\"decode_tokens_per_second\":12.5"));
    CHECK(has("\"bound\":\"pcie\""));
    const std::string plain = tern::explain_json(p, g, m);
    CHECK(plain.find("predicted") == plain.npos);
    CHECK(plain.find("decode_seconds") == plain.npos);
    CHECK_NOTHROW(static_cast<void>(tern::parse_json(plain, "explain", 16)));
}
