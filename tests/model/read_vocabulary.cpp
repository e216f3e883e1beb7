#include <tern/model/read_vocabulary.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/file/open_checkpoint.hpp>

#include "files.hpp"

namespace test = tern::test;

namespace {

using strings = std::vector<std::string>;

test::model_file with_tokens() {
    test::model_file f;
    f.set("tokenizer.ggml.model", std::string("llama"));
    f.keys["tokenizer.ggml.tokens"] = tern::gguf_value(tern::make_gguf_array(strings{"<unk>", "<s>", "a"}));
    f.tensors["x"] = {{4}};
    return f;
}

tern::vocabulary read(const test::model_file& f) {
    test::temporary_folder folder;
    return tern::read_vocabulary(tern::open_gguf(f.write(folder.file("m.gguf"))));
}

} // namespace

TEST_CASE("model/read_vocabulary: what the file lacks stays absent") {
    const tern::vocabulary v = read(with_tokens());
    CHECK(v.model == "llama");
    CHECK(v.tokens == strings{"<unk>", "<s>", "a"});
    CHECK(v.pre.empty());
    CHECK(v.scores.empty());
    CHECK(!v.add_bos);
    CHECK(!v.add_eos);
    CHECK(!v.add_space_prefix);
    CHECK(!v.special.bos);
    CHECK(!v.special.separator);
}

TEST_CASE("model/read_vocabulary: flags, ids and arrays, and the two spellings of the separator") {
    test::model_file f = with_tokens();
    f.set("tokenizer.ggml.add_bos_token", false).set("tokenizer.ggml.add_eos_token", true);
    f.set("tokenizer.ggml.bos_token_id", std::uint32_t{1}).set("tokenizer.ggml.eot_token_id", std::uint32_t{2});
    f.set("tokenizer.ggml.seperator_token_id", std::uint32_t{2});
    f.set("tokenizer.ggml.pre", std::string("qwen2")).set("tokenizer.chat_template", std::string("{}"));
    f.keys["tokenizer.ggml.scores"] = tern::gguf_value(tern::make_gguf_array(std::vector<float>{0, -1, -2}));
    f.keys["tokenizer.ggml.token_type"] = tern::gguf_value(tern::make_gguf_array(std::vector<std::int32_t>{2, 3, 1}));
    tern::vocabulary v = read(f);
    CHECK(v.add_bos == false);
    CHECK(v.add_eos == true);
    CHECK(v.special.bos == 1);
    CHECK(v.special.end_of_turn == 2);
    CHECK(v.special.separator == 2);
    CHECK(v.scores == std::vector<float>{0, -1, -2});
    CHECK(v.types == std::vector<std::int32_t>{2, 3, 1});
    CHECK(v.pre == "qwen2");
    CHECK(v.chat_template == "{}");
    f.keys.erase("tokenizer.ggml.seperator_token_id");
    f.set("tokenizer.ggml.separator_token_id", std::uint32_t{0});
    CHECK(read(f).special.separator == 0);
    f.set("tokenizer.ggml.eos_token_id", std::uint32_t{0xffffffff});
    v = read(f);
    REQUIRE(v.special.eos); // an id that no vocabulary has, not a missing one
    CHECK_THROWS_AS(tern::validate(v), tern::parse_error);
}

TEST_CASE("model/read_vocabulary: missing arrays and wrong types name the key and the file") {
    for (const char* key : {"tokenizer.ggml.model", "tokenizer.ggml.tokens"}) {
        test::model_file f = with_tokens();
        for (const bool wrong : {false, true}) {
            if (wrong)
                f.set(key, std::uint32_t{7});
            else
                f.keys.erase(key);
            std::string text;
            try {
                read(f);
            } catch (const tern::parse_error& e) { text = e.what(); }
            CAPTURE(text);
            CHECK(text.find(key) != std::string::npos);
            CHECK(text.find("m.gguf") != std::string::npos);
        }
    }
}
