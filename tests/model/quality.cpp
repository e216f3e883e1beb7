// What models know, as numbers: likelihood of text in every format, and text that is known from elsewhere.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tern/base/json.hpp>
#include <tern/kernel/integer_form.hpp>
#include <tern/model/read_vocabulary.hpp>
#include <tern/plan/all_cpu.hpp>

#include <support/data.hpp>
#include <support/model.hpp>

#include "files.hpp"

namespace test = tern::test;

namespace {

using ints = std::vector<std::int32_t>;

std::string text_of(const std::string& path) {
    const std::vector<char> raw = test::read_all(path);
    return {raw.begin(), raw.end()};
}

tern::tokenizer tokenizer_of(const tern::checkpoint& file) { return tern::make_tokenizer(tern::read_vocabulary(file)); }

ints encoded(const tern::tokenizer& t, std::string_view text) { return t.encode(text, {.add_special = false}); }

/// Nats of a text's tokens in windows that do not overlap: the beginning-of-text token, then up to `window` - 1 tokens.
double nats(test::model& m, std::int32_t bos, const ints& tokens, std::size_t window) {
    double sum = 0;
    for (std::size_t at = 0; at < tokens.size(); at += window - 1) {
        ints run{bos};
        for (std::size_t i = at; i < tokens.size() && i < at + window - 1; ++i) run.push_back(tokens[i]);
        sum += m.negative_log_likelihood(run);
    }
    return sum;
}

/// The values of a stored tensor in one of tern's formats.
std::vector<float> decoded(const tern::checkpoint& file, const tern::stored_tensor& t) {
    std::vector<std::byte> raw(t.bytes);
    file.read(t, raw);
    std::vector<float> values;
    tern::visit_format<tern::all_formats>(file.format_index<tern::all_formats>(t), [&]<tern::format F>() {
        values.resize(raw.size() / sizeof(typename F::block) * F::block_size);
        for (std::size_t i = 0; i < values.size() / F::block_size; ++i) {
            typename F::block block;
            std::memcpy(&block, raw.data() + i * sizeof block, sizeof block);
            F::decode(block, values.data() + i * F::block_size);
        }
    });
    return values;
}

/// Writes the model with every matrix whose rows are whole blocks in format F, the rest in f32; gives how many those
/// are.
template <tern::format F> std::size_t write_as(const tern::checkpoint& file, const std::string& path) {
    tern::file_sink sink(path);
    tern::gguf_writer writer(sink);
    for (const tern::metadata_entry& entry : file.metadata().entries())
        if (entry.key != "general.alignment") writer.set(entry.key, entry.value);
    const auto fits = [](const tern::stored_tensor& t) {
        return t.shape.size() == 2 && t.shape.back() % F::block_size == 0;
    };
    std::size_t matrices = 0;
    for (const tern::stored_tensor& t : file.tensors()) {
        matrices += fits(t);
        writer.add(t.name, t.shape, fits(t) ? F::name : tern::f32::name);
    }
    for (const tern::stored_tensor& t : file.tensors()) {
        const std::vector<float> values = decoded(file, t);
        if (!fits(t)) {
            writer.write(t.name, std::as_bytes(std::span(values)));
            continue;
        }
        std::vector<typename F::block> blocks(values.size() / F::block_size);
        for (std::size_t i = 0; i < blocks.size(); ++i) F::encode(values.data() + i * F::block_size, blocks[i]);
        writer.write(t.name, std::as_bytes(std::span(blocks)));
    }
    writer.finish();
    sink.commit();
    return matrices;
}

} // namespace

TEST_CASE("model/quality: the tiny models give the held-out text the likelihood that training measured") {
    const std::string table = text_of(test::source_file("tests/data/tiny.json"));
    const tern::json_value root = tern::parse_json(table);
    const std::string text = text_of(test::source_file("tests/data/held_out.txt"));
    const std::size_t context = root.at("window").at("context").as_uint64();
    for (const tern::json_member& model : root.at("models").object()) {
        CAPTURE(model.key);
        test::model m(test::source_file(model.value.at("file").as_string()));
        const tern::tokenizer t = tokenizer_of(m.file());
        const tern::json_value& wanted = model.value.at("texts").at("held_out.txt");
        const ints tokens = encoded(t, text);
        REQUIRE(tokens.size() == wanted.at("tokens").as_uint64());
        const double sum = nats(m, *t.vocab().special.bos, tokens, context);
        const double bits = sum / std::log(2.0) / static_cast<double>(text.size());
        std::printf("%s: %.6f bits per byte, stored %.6f\n", model.key.c_str(), bits,
                    wanted.at("bits_per_byte").as_double());
        CHECK(std::fabs(bits / wanted.at("bits_per_byte").as_double() - 1) < 1e-4);
        for (const tern::json_value& greedy : model.value.at("greedy").array()) {
            ints prompt, expected;
            for (const tern::json_value& id : greedy.at("prompt_ids").array())
                prompt.push_back(static_cast<std::int32_t>(id.as_int64()));
            for (const tern::json_value& id : greedy.at("token_ids").array())
                expected.push_back(static_cast<std::int32_t>(id.as_int64()));
            CHECK(m.greedy(prompt, expected.size()) == expected);
        }
    }
}

TEST_CASE("model/quality: every format that the tiny model's matrices can take, in order of its bits; activations in 8 "
          "bits cost at most 0.1 %") {
    const test::model source(test::source_file("examples/data/tiny.gguf"));
    const tern::tokenizer t = tokenizer_of(source.file());
    const std::string table = text_of(test::source_file("tests/data/tiny.json"));
    const std::size_t size = tern::parse_json(table).at("held_out_sample").at("first_lines_bytes").as_uint64();
    const std::string text = text_of(test::source_file("tests/data/held_out.txt")).substr(0, size);
    const ints tokens = encoded(t, text);
    test::temporary_folder folder;
    std::map<std::string_view, double> bits, rounded;
    tern::all_formats::for_each([&]<class F>(std::type_identity<F>) {
        if constexpr (tern::format_encodable<F>) {
            const std::string path = folder.file(std::string(F::name) + ".gguf");
            const std::size_t matrices = write_as<F>(source.file(), path);
            test::model m(path);
            bits[F::name] = nats(m, *t.vocab().special.bos, tokens, 256) / std::log(2.0) / static_cast<double>(size);
            if constexpr (tern::kernel::has_integer_form<F>) {
                test::model q8(path, {.threads = 2, .activations = tern::activation_policy::q8});
                rounded[F::name] =
                    nats(q8, *t.vocab().special.bos, tokens, 256) / std::log(2.0) / static_cast<double>(size);
                std::printf("with activations in 8 bits %+.3f%%: ", 100 * (rounded[F::name] / bits[F::name] - 1));
            }
            std::printf("%-7s %2zu matrices  %.4f bits per byte  %+.2f%%\n", std::string(F::name).c_str(), matrices,
                        bits[F::name], 100 * (bits[F::name] / bits["f32"] - 1));
        }
    });
    // Measured: f16 and bf16 at most 0.01 %, 8 bits 0.003 %, 5 bits 0.25 %, 4 bits 0.9 %, mxfp4 1.3 %; the k-quants, on
    // a seventh of the matrices, from 0.003 % to 1.1 %.
    const double exact = bits["f32"];
    CHECK(exact == doctest::Approx(1.2751).epsilon(1e-3));
    const std::map<std::string_view, double> most{{"f32", 0},        {"f16", 3e-4},   {"bf16", 1e-3}, {"q8_0", 1e-3},
                                                  {"q5_0", 5e-3},    {"q5_1", 5e-3},  {"q4_0", 0.02}, {"q4_1", 0.015},
                                                  {"iq4_nl", 0.015}, {"mxfp4", 0.03}, {"q6_k", 1e-3}, {"q5_k", 1e-3},
                                                  {"q4_k", 6e-3},    {"q3_k", 0.01},  {"q2_k", 0.025}};
    for (const auto& [name, value] : bits) {
        CAPTURE(name);
        REQUIRE(most.contains(name));
        CHECK(std::fabs(value / exact - 1) <= most.at(name));
    }
    CHECK(rounded.size() == 12); // measured: at most 0.031 %
    for (const auto& [name, value] : rounded) {
        CAPTURE(name);
        CHECK(value != bits.at(name));
        CHECK(std::fabs(value / bits.at(name) - 1) <= 0.001);
    }
    const auto lost = [&](const char* name) { return std::fabs(bits.at(name) - exact); };
    CHECK(lost("q8_0") < lost("q5_0"));
    CHECK(lost("q5_0") < lost("q4_0"));
    CHECK(lost("q5_1") < lost("q4_1"));
    CHECK(lost("q4_0") < lost("mxfp4"));
    CHECK(lost("q5_k") < lost("q4_k"));
    CHECK(lost("q4_k") < lost("q3_k"));
    CHECK(lost("q3_k") < lost("q2_k"));
}

TEST_CASE("model/quality: stories260K tells the story that it is known for, and its likelihood of other stories") {
    const auto path = test::shared_file("gguf/stories260K-f32.gguf");
    const auto sample = test::shared_file("text/tinystories_sample.txt");
    const auto facts = test::shared_file("README.md");
    if (!path || !sample || !facts) return;
    test::model m(*path);
    const tern::tokenizer t = tokenizer_of(m.file());
    const std::int32_t bos = *t.vocab().special.bos;
    // The sample is five stories, each followed by a line <|endoftext|>. Each is read alone: the beginning-of-text
    // token, then the story without the line ends around it. The mean is over the tokens of all.
    const std::string text = text_of(*sample);
    const std::string separator = "<|endoftext|>";
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find(separator, at), text.size());
        std::string story = text.substr(at, end - at);
        at = end + separator.size();
        const std::size_t first = story.find_first_not_of('\n');
        if (first == story.npos) continue;
        story = story.substr(first, story.find_last_not_of('\n') + 1 - first);
        ints run{bos};
        for (const std::int32_t id : encoded(t, story)) run.push_back(id);
        sum += m.negative_log_likelihood(run);
        count += run.size() - 1;
    }
    const double mean = sum / static_cast<double>(count);
    std::printf("stories260K: %.5f nats per token of %zu\n", mean, count);
    CHECK(count == 1804);
    CHECK(std::fabs(mean - 1.266) < 5e-4);

    // Quoted after "> ", a line each; 200 tokens reach a little further.
    const std::string quoting = text_of(*facts);
    std::string quoted;
    for (std::size_t at = quoting.find("> Once upon a time"); at != quoting.npos && quoting.substr(at, 2) == "> ";) {
        const std::size_t end = quoting.find('\n', at);
        quoted += (quoted.empty() ? "" : "\n") + quoting.substr(at + 2, end - at - 2);
        at = end + 1;
    }
    REQUIRE(quoted.size() > 400);
    ints all = t.encode("Once upon a time");
    const ints told = m.greedy(all, 200);
    all.insert(all.end(), told.begin(), told.end());
    CHECK(t.decode(all).substr(0, quoted.size()) == quoted);
}
