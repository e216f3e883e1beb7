// Any bytes as a vocabulary and a text; the first byte says what the rest means. Odd: a text for a small complete
// vocabulary, which must come back unchanged. Even: lines that describe a vocabulary, and a text behind an empty line;
// making it may throw a tern::error, nothing else.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <tern/text/byte_pair.hpp>
#include <tern/text/stream.hpp>
#include <tern/text/tokenizer.hpp>

namespace {

using namespace tern;

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "broken: %s\n", what);
    std::abort();
}

void add(vocabulary& v, std::string text, token_type type) {
    v.scores.push_back(-static_cast<float>(v.tokens.size()));
    v.tokens.push_back(std::move(text));
    v.types.push_back(static_cast<std::int32_t>(type));
}

vocabulary begin(const char* model) {
    vocabulary v;
    v.model = model;
    add(v, "<unk>", token_type::unknown);
    add(v, "<s>", token_type::control);
    add(v, "</s>", token_type::control);
    add(v, "<box>", token_type::user_defined);
    add(v, "<", token_type::user_defined);
    v.special = {.bos = 1, .eos = 2, .unknown = 0};
    return v;
}

void add_bytes(vocabulary& v) {
    constexpr char hex[] = "0123456789ABCDEF";
    for (int b = 0; b < 256; ++b) add(v, std::string("<0x") + hex[b / 16] + hex[b % 16] + ">", token_type::byte);
}

const std::vector<std::string> pairs = {"\u2581 t",      "h e", "t he", "i n",   "\u2581t he", "a a",          "aa aa",
                                        "\u2581 \u2581", "1 2", "12 3", "\n \n", "' s",        "\u00E9 \u00E9"};

void add_pairs(vocabulary& v) {
    for (const char* text : {"\u2581", "t", "h", "e", "i", "n", "a", "1", "2", "3", "\n", "'", "s", "\u00E9"}) {
        add(v, text, token_type::normal);
    }
    for (const std::string& pair : pairs) {
        const std::size_t space = pair.find(' ', 1);
        add(v, pair.substr(0, space) + pair.substr(space + 1), token_type::normal);
    }
}

std::vector<tokenizer> complete_tokenizers() {
    std::vector<tokenizer> all;
    vocabulary v = begin("llama");
    add_bytes(v);
    add_pairs(v);
    all.push_back(make_tokenizer(v));
    v.add_space_prefix = false;
    all.push_back(make_tokenizer(v));
    v.model = "gemma4";
    v.merges = pairs;
    all.push_back(make_tokenizer(v));
    vocabulary g = begin("gpt2");
    for (int b = 0; b < 256; ++b) {
        std::string character;
        detail::append_byte_character(static_cast<unsigned char>(b), character);
        // Texts are unique, and "<" is user defined above.
        add(g, character == "<" ? "<<" : character, token_type::normal);
    }
    g.merges = {"h e", "\u0120 t", "\u0120t he", "a a", "aa aa", "\u0120 \u0120", "1 2", "12 3", "\u00C3 \u00A9"};
    for (const std::string& merge : g.merges) {
        const std::size_t space = merge.find(' ', 1);
        add(g, merge.substr(0, space) + merge.substr(space + 1), token_type::normal);
    }
    for (const pre_tokenizer& p : known_pre_tokenizers()) {
        g.pre = std::string(p.names.substr(0, p.names.find(' ')));
        if (!p.plain) all.push_back(make_tokenizer(g));
    }
    return all;
}

/// Streaming gives valid UTF-8, and the text itself where that is.
void check_stream(const tokenizer& t, const std::vector<token_id>& ids, const std::string& decoded) {
    text_stream stream(t, text_position::begins);
    std::string joined;
    for (const token_id id : ids) joined += stream.push(id);
    joined += stream.finish();
    bool valid = true;
    for (std::size_t at = 0; at < decoded.size(); at += next_utf8(std::string_view(decoded).substr(at)).size) {
        valid = valid && next_utf8(std::string_view(decoded).substr(at)).kind == utf8_kind::valid;
    }
    if (valid) require(joined == decoded, "a stream is what decode gives");
    for (std::size_t at = 0; at < joined.size(); at += next_utf8(std::string_view(joined).substr(at)).size) {
        require(next_utf8(std::string_view(joined).substr(at)).kind == utf8_kind::valid, "a stream is valid UTF-8");
    }
}

void round_trip(std::uint8_t which, std::string_view text) {
    static const std::vector<tokenizer> all = complete_tokenizers();
    const tokenizer& t = all[which / 2 % all.size()];
    // U+2581 in a text is a space by the rules of these families.
    const bool ambiguous = t.vocab().model != "gpt2" && text.find(detail::space_mark) != text.npos;
    const std::vector<token_id> ids = t.encode(text);
    const std::string decoded = t.decode(ids);
    if (!ambiguous) require(decoded == text, "decode undoes encode");
    check_stream(t, ids, decoded);
    const std::vector<token_id> parsed = t.encode(text, {.add_special = false, .parse_special = true});
    if (!ambiguous) require(t.decode(parsed, {.special = true}) == text, "decode undoes encode with special tokens");
}

void any_vocabulary(std::uint8_t which, std::string_view data) {
    constexpr const char* models[] = {"llama", "gpt2", "gemma4", "bert"};
    vocabulary v;
    v.model = models[which / 2 % 4];
    const auto pres = known_pre_tokenizers();
    v.pre = std::string(pres[which / 8 % pres.size()].names);
    v.pre = v.pre.substr(0, v.pre.find(' '));
    const auto next_line = [&] {
        const std::size_t end = data.find('\n');
        const std::string_view line = data.substr(0, end);
        data = end == data.npos ? std::string_view() : data.substr(end + 1);
        return std::string(line);
    };
    while (!data.empty()) {
        const std::string line = next_line();
        if (line.empty()) break;
        const std::string rest = line.substr(1);
        const auto number = static_cast<std::int32_t>(std::strtol(rest.c_str(), nullptr, 10));
        switch (line[0]) {
        case 't': v.tokens.push_back(rest); break;
        case 'y': v.types.push_back(number); break;
        case 's': v.scores.push_back(std::strtof(rest.c_str(), nullptr)); break;
        case 'm': v.merges.push_back(rest); break;
        case 'b': v.special.bos = number; break;
        case 'e': v.special.eos = number; break;
        case 'u': v.special.unknown = number; break;
        case 'B': v.add_bos = number != 0; break;
        case 'E': v.add_eos = number != 0; break;
        case 'P': v.add_space_prefix = number != 0; break;
        default: add(v, line, static_cast<token_type>(static_cast<unsigned char>(line[0]) % 8)); break;
        }
    }
    const tokenizer t = make_tokenizer(v);
    for (const bool special : {false, true}) {
        const std::vector<token_id> ids = t.encode(data, {.add_special = special, .parse_special = special});
        for (const token_id id : ids) require(id >= 0 && static_cast<std::size_t>(id) < t.size(), "ids are tokens");
        check_stream(t, ids, t.decode(ids));
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
    try {
        if (data[0] % 2 == 1)
            round_trip(data[0], rest);
        else
            any_vocabulary(data[0], rest);
    } catch (const tern::error&) { require(data[0] % 2 == 0, "a complete vocabulary encodes any text"); }
    return 0;
}
