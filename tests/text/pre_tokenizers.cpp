#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <tern/text/pre_tokenizers.hpp>
#include <tern/text/regex.hpp>

#include "support.hpp"

namespace {

using namespace tern;
using list = std::vector<std::string>;

void cut(const pre_tokenizer& p, std::size_t step, std::string_view text, list& out) {
    if (step == p.steps.size() || p.steps[step].pattern.empty()) return out.emplace_back(text), void();
    regex(p.steps[step].pattern).split(text, [&](std::string_view part, bool) { cut(p, step + 1, part, out); });
}
list cut(std::string_view name, std::string_view text) {
    list out;
    cut(find_pre_tokenizer(name), 0, text, out);
    return out;
}

TEST_CASE("text/pre_tokenizers: an unknown name is an error that names it and lists the known ones") {
    const std::string what = test::message_of<unsupported_error>([] { find_pre_tokenizer("gpt-5"); });
    CHECK(what.find("\"gpt-5\"") != what.npos);
    for (const char* name : {"default", "llama-bpe", "qwen2", "deepseek-coder", "smollm", "viking", "gemma4"}) {
        CHECK(what.find(name) != what.npos);
        CHECK(detail::has_name(find_pre_tokenizer(name).names, name));
    }
    CHECK_THROWS_AS(find_pre_tokenizer(""), unsupported_error);
    CHECK_THROWS_AS(find_pre_tokenizer("gpt-2 phi-2"), unsupported_error);
}

TEST_CASE("text/pre_tokenizers: no name is there twice, every pattern compiles and loses nothing") {
    const std::string text = "Hello, y'all! '\u6211\u60F3\u57A8 12345  \r\n\t\u0E01 ABCdef\xFF\u0300 <|x|> 9.5\u00BD\n";
    list seen;
    for (const pre_tokenizer& p : known_pre_tokenizers()) {
        std::string joined;
        list parts;
        cut(p, 0, text, parts);
        for (const std::string& part : parts) joined += part;
        CHECK(joined == text);
        for (std::size_t at = 0; at < p.names.size();) {
            const std::size_t end = std::min(p.names.find(' ', at), p.names.size());
            const std::string name(p.names.substr(at, end - at));
            for (const std::string& other : seen) CHECK(name != other);
            seen.push_back(name);
            at = end + 1;
        }
    }
    CHECK(seen.size() > 80);
}

TEST_CASE("text/pre_tokenizers: each kind cuts as its models were trained") {
    const std::string text = "I'VE 12345  ok";
    CHECK(cut("gpt-2", text) == list{"I", "'", "VE", " 12345", " ", " ok"});
    CHECK(cut("llama-bpe", text) == list{"I", "'VE", " ", "123", "45", " ", " ok"});
    CHECK(cut("qwen2", text) == list{"I", "'VE", " ", "1", "2", "3", "4", "5", " ", " ok"});
    CHECK(cut("gpt-4o", text) == list{"I'VE", " ", "123", "45", " ", " ok"});
    CHECK(cut("smollm", text) == list{"I", "'", "VE", " ", "1", "2", "3", "4", "5", " ", " ok"});
    CHECK(cut("falcon", text) == list{"I", "'", "VE", " ", "123", "45", " ", " ok"});
    CHECK(cut("deepseek-coder", text) == list{"I", "'", "VE", " ", "1", "2", "3", "4", "5", " ", " ok"});
    CHECK(cut("bloom", "a, b") == list{"a", ",", " b"});
    CHECK(cut("viking", "a12") == list{"a", "1", "2"});
    CHECK(cut("gemma4", "a b\n\n c") == list{"a b", "\n\n", " c"});
    CHECK(cut("tekken", "iPhone") == list{"i", "Phone"});
    CHECK(cut("kimi-k2", "\u4E2Dabc") == list{"\u4E2D", "abc"});
    CHECK(cut("kimi-k2", "\u3002's") == list{"\u3002'", "s"}); // the full stop is no Han character
    CHECK(cut("deepseek-llm", "ab  1  ") == list{"ab", "  ", "1", "  "});
    CHECK(cut("qwen35", "e\u0301t") == list{"e\u0301t"});
    CHECK(cut("qwen2", "e\u0301t") == list{"e", "\u0301t"});
}

TEST_CASE("text/pre_tokenizers: the words of o200k, which GPT-OSS has, as Python's regex module cuts them") {
    struct row {
        std::string_view text;
        list parts;
    };
    // By the pattern that is published with tiktoken as o200k_base; regex 2026.11.19.
    const row rows[] = {
        {"HTTPServer's iPhone15 can't; you'RE he'd'nt",
         {"HTTPServer's", " i", "Phone", "15", " can't", ";", " you'RE", " he'd", "'nt"}},
        {"user@example.com/a//b\r\n\r\n  x = 1234567.89;\n\n\tif (!ok) { return -1; }  ",
         {"user", "@example", ".com", "/a",  "//", "b", "\r\n\r\n", " ",       " x", " =", " ", "123", "456", "7", ".",
          "89",   ";\n\n",    "\tif", " (!", "ok", ")", " {",       " return", " -", "1",  ";", " }",  "  "}},
        {"na\u00EFve caf\u00E9 e\u0301t\u00C9 \u01C5ungla \u02B0a \u65E5\u672C\u8A9EABC\u306E\u6587\u7AE0 "
         "\u0645\u0631\u062D\u0628\u0627\u064B \u0939\u093F\u0928\u094D\u0926\u0940",
         {"na\u00EFve", " caf\u00E9", " e\u0301t", "\u00C9", " \u01C5ungla", " \u02B0a",
          " \u65E5\u672C\u8A9EABC\u306E\u6587\u7AE0", " \u0645\u0631\u062D\u0628\u0627\u064B",
          " \u0939\u093F\u0928\u094D\u0926\u0940"}},
        {"\u00BD\u00B2\u0663\u0664\u0665\u0666 \u216B 12\u00A034 \U0001F469\u200D\U0001F680!!\u2026\u2014 \u00A0 a",
         {"\u00BD\u00B2\u0663", "\u0664\u0665\u0666", " ", "\u216B", " ", "12", "\u00A0", "34",
          " \U0001F469\u200D\U0001F680!!\u2026\u2014", " \u00A0", " a"}}};
    for (const row& r : rows) CHECK(cut("gpt-4o", r.text) == r.parts);
}

TEST_CASE("text/pre_tokenizers: habits that go with a name") {
    CHECK(find_pre_tokenizer("llama-bpe").whole_first);
    CHECK(find_pre_tokenizer("llama-bpe").add_bos);
    CHECK(!find_pre_tokenizer("qwen2").whole_first);
    CHECK(!find_pre_tokenizer("qwen2").add_bos);
    CHECK(!find_pre_tokenizer("dbrx").whole_first);
    CHECK(find_pre_tokenizer("gemma4").plain);
    CHECK(!find_pre_tokenizer("gpt-2").plain);
}

TEST_CASE("text/pre_tokenizers: long runs stay within the limits of a match") {
    const std::size_t n = 1 << 18;
    for (const pre_tokenizer& p : known_pre_tokenizers()) {
        for (const std::string& text : {std::string(n, ' ') + "1", std::string(n, 'a'), std::string(n, 'A') + "1",
                                        std::string(n, '\n') + "a", std::string(n, '1') + "a", std::string(n, '.')}) {
            std::size_t total = 0;
            for (const split_step& step : p.steps) {
                if (step.pattern.empty()) break;
                regex(step.pattern).split(text, [&](std::string_view part, bool) { total += part.size(); });
            }
            CHECK(total % text.size() == 0);
        }
    }
}

} // namespace
