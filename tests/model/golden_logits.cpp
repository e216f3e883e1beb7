// The decoders against PyTorch's logits, for small random models of every architecture.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <tern/base/json.hpp>
#include <tern/plan/all_cpu.hpp>

#include <support/data.hpp>
#include <support/model.hpp>

namespace {

namespace test = tern::test;

std::string text_of(const std::string& path) {
    const std::vector<char> raw = test::read_all(path);
    return {raw.begin(), raw.end()};
}

struct golden {
    std::string name{};
    std::string model{}; // its file, which another prompt may share
    std::vector<std::int32_t> tokens{};
    std::size_t prompt = 0;
    std::size_t vocabulary = 0;
    std::vector<float> rows{}; // [tokens, vocabulary]

    std::string file() const { return test::source_file("tests/data/logits/" + model + ".gguf"); }
    std::span<const float> row(std::size_t i) const { return std::span(rows).subspan(i * vocabulary, vocabulary); }
};

std::vector<golden> all_goldens() {
    const std::string index = text_of(test::source_file("tests/data/logits/index.json"));
    const tern::json_value root = tern::parse_json(index);
    std::vector<golden> all;
    for (const tern::json_member& m : root.at("models").object()) {
        golden g;
        g.name = g.model = m.key;
        if (const tern::json_value* file = m.value.find("file")) g.model = file->as_string();
        for (const tern::json_value& id : m.value.at("tokens").array())
            g.tokens.push_back(static_cast<std::int32_t>(id.as_int64()));
        g.prompt = m.value.at("prompt").as_uint64();
        g.vocabulary = m.value.at("vocab").as_uint64();
        g.rows = test::read_values<float>(test::source_file("tests/data/logits/" + g.name + ".f32"));
        all.push_back(std::move(g));
    }
    return all;
}

std::vector<float> joined(std::vector<float> a, const std::vector<float>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

} // namespace

TEST_CASE("model/golden_logits: prefill and decode equal PyTorch's logits") {
    const std::vector<golden> all = all_goldens();
    REQUIRE(all.size() == 15);
    for (const golden& g : all) {
        CAPTURE(g.name);
        REQUIRE(g.rows.size() == g.tokens.size() * g.vocabulary);
        test::model m(g.file());
        m.place(tern::all_cpu{});
        REQUIRE(m.config().vocabulary == g.vocabulary);
        tern::contiguous_cache kv = m.cache(g.tokens.size());
        const std::span<const std::int32_t> tokens(g.tokens);
        std::vector<float> got = m.logits(tokens.first(g.prompt), kv);
        for (std::size_t i = g.prompt; i < tokens.size(); ++i) got = joined(got, m.logits(tokens.subspan(i, 1), kv));
        // Relative to the largest magnitude of a row: single logits may be near 0.
        double worst = 0;
        for (std::size_t i = 0; i < tokens.size(); ++i)
            worst = std::max(worst, test::relative_error(
                                        std::span<const float>(got).subspan(i * g.vocabulary, g.vocabulary), g.row(i)));
        std::printf("%-20s relative error %.2e\n", g.name.c_str(), worst);
        CHECK(worst <= 1e-4);
    }
}

TEST_CASE("model/golden_logits: neither the pieces of a prompt nor prefill against decode change a bit") {
    for (const golden& g : all_goldens()) {
        CAPTURE(g.name);
        test::model m(g.file());
        const std::span<const std::int32_t> prompt = std::span<const std::int32_t>(g.tokens).first(g.prompt);
        tern::contiguous_cache whole_cache = m.cache(g.prompt);
        const std::vector<float> whole = m.logits(prompt, whole_cache);

        tern::contiguous_cache pieces_cache = m.cache(g.prompt);
        const std::vector<float> first = m.logits(prompt.first(7), pieces_cache);
        CHECK(test::same_bits(joined(first, m.logits(prompt.subspan(7), pieces_cache)), whole));

        tern::contiguous_cache single_cache = m.cache(g.prompt);
        std::vector<float> single;
        for (std::size_t i = 0; i < prompt.size(); ++i)
            single = joined(single, m.logits(prompt.subspan(i, 1), single_cache));
        CHECK(test::same_bits(single, whole));
    }
}
