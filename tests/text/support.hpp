// Vocabularies for the tests: read from GGUF files, or small ones made by hand.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <support/data.hpp>
#include <tern/file/gguf.hpp>
#include <tern/text/vocabulary.hpp>

namespace tern::test {

/// The vocabulary in a GGUF file's metadata.
inline vocabulary read_vocabulary(const std::string& path) {
    const gguf_set file = read_gguf(path);
    const model_metadata& m = file.metadata;
    const auto key = [](std::string_view name) { return "tokenizer.ggml." + std::string(name); };
    const auto id = [&](std::string_view name) { return m.try_get<token_id>(key(name)); };
    vocabulary v;
    v.model = m.get<std::string>(key("model"));
    v.pre = m.try_get<std::string>(key("pre")).value_or("");
    v.tokens = m.strings(key("tokens"));
    if (const gguf_value* scores = m.find(key("scores"))) v.scores = scores->array().to_vector<float>();
    if (const gguf_value* types = m.find(key("token_type"))) v.types = types->array().to_vector<std::int32_t>();
    if (m.contains(key("merges"))) v.merges = m.strings(key("merges"));
    v.special = {.bos = id("bos_token_id"),
                 .eos = id("eos_token_id"),
                 .unknown = id("unknown_token_id"),
                 .pad = id("padding_token_id"),
                 .separator = id("seperator_token_id"),
                 .mask = id("mask_token_id"),
                 .end_of_turn = id("eot_token_id"),
                 .end_of_message = id("eom_token_id")};
    v.add_bos = m.try_get<bool>(key("add_bos_token"));
    v.add_eos = m.try_get<bool>(key("add_eos_token"));
    v.add_space_prefix = m.try_get<bool>(key("add_space_prefix"));
    v.chat_template = m.try_get<std::string>("tokenizer.chat_template").value_or("");
    return v;
}

/// A text and the tokens that it must give.
using token_case = std::pair<std::string, std::vector<token_id>>;

/// The cases that lie beside a vocabulary: texts in PATH.inp, separated by a marker line; ids in PATH.out, a line each.
inline std::vector<token_case> read_cases(const std::string& path) {
    const std::vector<char> texts = read_all(path + ".inp");
    const std::vector<char> ids = read_all(path + ".out");
    const std::string_view marker = "\n__ggml_vocab_test__\n";
    std::string_view text(texts.data(), texts.size());
    std::string lines(ids.data(), ids.size());
    std::vector<token_case> cases;
    for (std::size_t at = 0; at < lines.size();) {
        const std::size_t end = lines.find('\n', at);
        token_case c;
        const std::size_t cut = text.find(marker);
        c.first = std::string(text.substr(0, cut));
        text = cut == text.npos ? std::string_view() : text.substr(cut + marker.size());
        const std::string line = lines.substr(at, end - at);
        char* rest = nullptr;
        for (const char* p = line.c_str();; p = rest) {
            const long value = std::strtol(p, &rest, 10);
            if (rest == p) break;
            c.second.push_back(static_cast<token_id>(value));
        }
        cases.push_back(std::move(c));
        if (end == lines.npos) break;
        at = end + 1;
    }
    return cases;
}

/// A small SentencePiece vocabulary: unknown, bos, eos, all bytes, then the given texts; earlier ones score higher.
inline vocabulary small_sentencepiece(const std::vector<std::string>& texts, bool with_bytes = true) {
    vocabulary v;
    v.model = "llama";
    const auto add = [&](std::string text, token_type type, float score) {
        v.tokens.push_back(std::move(text));
        v.types.push_back(static_cast<std::int32_t>(type));
        v.scores.push_back(score);
    };
    add("<unk>", token_type::unknown, 0);
    add("<s>", token_type::control, 0);
    add("</s>", token_type::control, 0);
    constexpr char hex[] = "0123456789ABCDEF";
    for (int b = 0; with_bytes && b < 256; ++b) {
        add(std::string("<0x") + hex[b / 16] + hex[b % 16] + ">", token_type::byte, 0);
    }
    for (std::size_t i = 0; i < texts.size(); ++i) add(texts[i], token_type::normal, -static_cast<float>(i));
    v.special = {.bos = 1, .eos = 2, .unknown = 0};
    return v;
}

/// The place of a text in a vocabulary.
inline token_id id_of(const vocabulary& v, std::string_view text) {
    for (std::size_t i = 0; i < v.tokens.size(); ++i) {
        if (v.tokens[i] == text) return static_cast<token_id>(i);
    }
    throw std::runtime_error("no token " + std::string(text));
}

/// What an error says, or nothing when none is thrown.
template <class Error, class F> std::string message_of(F&& f) {
    try {
        f();
    } catch (const Error& e) { return e.what(); }
    return {};
}

} // namespace tern::test
