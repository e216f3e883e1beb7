#include <tern/sim/description.hpp>

#include <cstddef>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include <support/data.hpp>

namespace {

namespace test = tern::test;

const std::string path = test::source_file("examples/models/qwen3-30b-a3b-int4.json");

std::string text() { return tern::read_text_file(path); }

/// The text with one piece replaced.
std::string with(std::string from, const std::string& to) {
    std::string all = text();
    const auto at = all.find(from);
    REQUIRE(at != all.npos);
    return all.replace(at, from.size(), to);
}

std::string refusal(const std::string& of) {
    try {
        static_cast<void>(tern::parse_description(of, "m.json"));
    } catch (const tern::parse_error& e) {
        CHECK(e.path() == "m.json");
        return e.what();
    }
    return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

} // namespace

TEST_CASE("sim/description: what the file says") {
    const tern::model_description m = tern::read_description(path);
    CHECK(m.path == path);
    CHECK(m.architecture == "qwen3moe");
    CHECK(m.vocabulary == 151936);
    CHECK(m.width == 2048);
    CHECK(m.layers.size() == 48);
    CHECK_FALSE(m.tied_output);
    CHECK_FALSE(m.priced_only());
    CHECK_FALSE(m.sources.empty());
    const tern::described_attention& a = m.attentions[m.layers[47].attention];
    CHECK(a.kind == tern::attention_kind::softmax);
    CHECK(a.heads == 32);
    CHECK(a.cached_per_token() == 2 * 4 * 128);
    const tern::described_ffn& f = m.ffns[m.layers[0].ffn];
    CHECK(f.experts == 128);
    CHECK(f.used == 8);
    CHECK(f.hidden == 768);
}

TEST_CASE("sim/description: every committed model can be read; two have operators that are priced only") {
    std::size_t models = 0;
    std::size_t priced = 0;
    for (const auto& entry : std::filesystem::directory_iterator(test::source_file("examples/models"))) {
        CAPTURE(entry.path().string());
        const tern::model_description m = tern::read_description(entry.path().string());
        CHECK(m.layers.size() >= 16);
        ++models;
        priced += m.priced_only();
    }
    CHECK(models >= 12);
    CHECK(priced >= 3);
}

TEST_CASE("sim/description: layers repeat in order") {
    const tern::model_description m =
        tern::read_description(test::source_file("examples/models/qwen3-next-80b-a3b-int4.json"));
    REQUIRE(m.layers.size() == 48);
    for (std::size_t i = 0; i < 48; ++i)
        CHECK((m.attentions[m.layers[i].attention].kind == tern::attention_kind::softmax) == (i % 4 == 3));
    CHECK(m.priced_only());
}

TEST_CASE("sim/description: what makes no sense is refused by file and key") {
    CHECK(has(refusal(with("\"vocabulary\"", "\"vocabularies\"")), "vocabularies: is an unknown key"));
    CHECK(has(refusal(with("\"width\": 2048", "\"width\": 0")), "width: is 0"));
    CHECK(has(refusal(with("\"width\": 2048", "\"width\": 99999999999")), "width: is 99999999999"));
    CHECK(has(refusal(with("\"width\": 2048", "\"width\": -1")), "width"));
    CHECK(has(refusal(with("\"kv_heads\": 4", "\"kv_heads\": 5")), "no multiple of kv_heads"));
    CHECK(has(refusal(with("\"used\": 8", "\"used\": 129")), "used: is more than experts"));
    CHECK(has(refusal(with("\"kind\": \"softmax\"", "\"kind\": \"soft\"")), "expected softmax, latent or linear"));
    CHECK(has(refusal(with("\"count\": 48", "\"count\": 2000")), "more than 1024 layers"));
    CHECK(has(refusal(with("\"output\": \"q6_k\"", "\"output\": \"q6_kk\"")), "is no format of tern"));
    CHECK(has(refusal("[]"), "expected an object"));
    CHECK(has(refusal(text() + "x"), "m.json"));
    std::string deep = "{\"count\": 1, \"attention\": \"a\", \"ffn\": \"f\"}";
    for (int i = 0; i < 8; ++i) deep = "{\"repeat\": 1000, \"layers\": [" + deep + "]}";
    const std::string all = text();
    const auto begin = all.find("\"layers\"");
    REQUIRE(begin != all.npos);
    const auto end = all.find("\"formats\"");
    CHECK_FALSE(refusal(all.substr(0, begin) + "\"layers\": [" + deep + "], " + all.substr(end)).empty());
}
