// How byte-pair tokenizers cut a text before they merge: a list of steps for each name that model files use.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <tern/base/error.hpp>

namespace tern {

/// How a step cuts at a match of its pattern.
enum class cut_rule : std::uint8_t {
    whole,  ///< the match is one piece
    thirds, ///< the match is cut into groups of three characters, counted from its end, as digits are grouped
};

/// One step: what its pattern matches are pieces, and so is what lies between; the next step cuts each piece further.
struct split_step {
    std::string_view pattern{};
    cut_rule cut = cut_rule::whole;
};

/// What a pre-tokenizer is made of, and the habits that go with its name.
struct pre_tokenizer {
    std::string_view names{};          ///< separated by spaces
    std::array<split_step, 6> steps{}; ///< up to the first empty pattern
    bool whole_first = false;          ///< a piece that is a token is that token, whatever the merges say
    bool add_bos = false;              ///< the rule where a file has no flag
    bool plain = false;                ///< tokens hold text as it is and U+2581 for a space, not one character a byte
};

namespace detail {

// Sources: the "pre_tokenizer" entries of the models' published tokenizer.json files.
inline constexpr std::string_view gpt2_words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view llama3_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view qwen2_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view qwen35_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view gpt4o_words =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view tekken_words =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view youtu_words =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// The script Han, spelt out since versions of PCRE2 differ on \p{Han}; and the classes of upper and lower letters,
// which share marks and letters without case, without Han: PCRE2 cannot subtract, so they are written as what they
// leave out.
#define TERN_HAN                                                                                                       \
    R"(\x{2e80}-\x{2e99}\x{2e9b}-\x{2ef3}\x{2f00}-\x{2fd5}\x{3005}\x{3007}\x{3021}-\x{3029})"                          \
    R"(\x{3038}-\x{303b}\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{fa6d}\x{fa70}-\x{fad9})"                         \
    R"(\x{16fe2}\x{16fe3}\x{16ff0}\x{16ff1}\x{20000}-\x{2a6df}\x{2a700}-\x{2ebe0})"                                    \
    R"(\x{2f800}-\x{2fa1d}\x{30000}-\x{323af})"
#define TERN_UPPER R"([^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C})" TERN_HAN "]"
#define TERN_LOWER R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C})" TERN_HAN "]"
inline constexpr std::string_view kimi_words =
    "[" TERN_HAN "]+|"
    R"([^\r\n\p{L}\p{N}]?)" TERN_UPPER "*" TERN_LOWER R"(+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?)" TERN_UPPER "+" TERN_LOWER R"(*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
#undef TERN_LOWER
#undef TERN_UPPER
#undef TERN_HAN
inline constexpr std::string_view deepseek3_words =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view spark_words =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)";
inline constexpr std::string_view jais2_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
    R"(\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|)"
    R"(\s{1,2}(?!\S)|\s{1})";
inline constexpr std::string_view bailing_words =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
inline constexpr std::string_view seed_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view ufakzeka_words =
    R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view minicpm_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
// Words joined by single spaces; the loop is possessive, so that a long line costs no memory.
inline constexpr std::string_view exaone_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}(?:\p{M}| ?\p{L})*+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|)"
    R"(\s*[\r\n]|\s+(?!\S)|\s+)";
inline constexpr std::string_view bloom_words =
    R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{ff0c}\x{3001}\x{964}\x{6d4}\x{60c})]+)";
inline constexpr std::string_view digit = R"(\p{N})";
inline constexpr std::string_view digits_up_to_3 = R"(\p{N}{1,3})";
inline constexpr std::string_view lines = R"([^\n]+|\n+)";
inline constexpr std::string_view cjk = R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)";
inline constexpr std::string_view han_and_kana = R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)";
inline constexpr std::string_view asian_scripts =
    R"([\x{4e00}-\x{9fff}\x{3400}-\x{4dbf}\x{f900}-\x{faff}\x{3040}-\x{309f}\x{30a0}-\x{30ff}\x{ff65}-\x{ff9f})"
    R"(\x{2f00}-\x{2fdf}\x{e40}-\x{e7f}\x{e80}-\x{eff}\x{1780}-\x{17ff}\x{1000}-\x{109f}\x{aa60}-\x{aa7f})"
    R"(\x{a9e0}-\x{a9ff}\x{ac00}-\x{d7af}\x{1100}-\x{11ff}]+)";
inline constexpr std::string_view youtu_scripts =
    R"([\x{ac00}-\x{d7a3}\x{3131}-\x{318e}]+|)"
    R"([\x{ff01}\x{2026}\x{201c}\x{201d}\x{2018}\x{2019}\x{2014}\x{ff1a}\x{ff1b}\x{ff0c}\x{3001}-\x{303f})"
    R"(\x{fe30}-\x{fe4f}]+|[\x{3105}-\x{312f}]+|[\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)";
// The cased letters of the Unicode version that DeepSeek's list was made from.
inline constexpr std::string_view deepseek_letters =
    R"(\s?[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1})"
    R"(\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5})"
    R"(\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a})"
    R"(\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b})"
    R"(\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc})"
    R"(\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107})"
    R"(\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134})"
    R"(\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4})"
    R"(\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787})"
    R"(\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a})"
    R"(\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2})"
    R"(\x{118a0}-\x{118df}\x{1e900}-\x{1e943}]+)";

inline constexpr pre_tokenizer pre_tokenizers[] = {
    {"default", {{{R"([\p{P}$+<=>^~|]+)"}, {gpt2_words}, {R"(\p{N}+)"}, {"[0-9][0-9][0-9]"}}}},
    {"gpt-2 phi-2 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe gigachat a.x-4.0 mellum "
     "modern-bert exaone4 mpt olmo jais trillion granite-docling",
     {{{gpt2_words}}}},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", {{{llama3_words}}}, true, true},
    {"dbrx smaug-bpe glm4 chatglm-bpe", {{{llama3_words}}}},
    {"qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2", {{{qwen2_words}}}},
    {"qwen35", {{{qwen35_words}}}},
    {"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", {{{digit}, {gpt2_words}}}},
    {"falcon", {{{R"([\p{P}$+<=>^~|`]+)"}, {gpt2_words}, {"[0-9][0-9][0-9]"}}}},
    {"deepseek-coder", {{{R"([\r\n])"}, {R"(\s?\p{L}+)"}, {R"(\s?\p{P}+)"}, {cjk}, {digit}}}},
    // The published \s+$ would be tried again at every space of a run that ends elsewhere.
    {"deepseek-llm",
     {{{R"([\r\n])"},
       {deepseek_letters},
       {R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)"},
       {R"((?<!\s)\s++$)"},
       {cjk},
       {R"(\p{N}+)"}}}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", {{{digits_up_to_3}, {han_and_kana}, {deepseek3_words}}}},
    {"spark2_5", {{{digits_up_to_3}, {han_and_kana}, {spark_words}, {digit}}}},
    {"youtu", {{{youtu_scripts}, {youtu_words}}}, true},
    {"afmoe", {{{R"(\p{N}+)", cut_rule::thirds}, {asian_scripts}, {deepseek3_words}}}},
    {"bloom poro-chat gpt3-finnish", {{{bloom_words}}}},
    {"viking", {{{bloom_words}, {digit}}}},
    {"tekken", {{{tekken_words}}}, true, true},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", {{{gpt4o_words}}}},
    {"granite-embed-multi-97m", {{{gpt4o_words}}}, true},
    // Digits are grouped only where the run ends a word.
    {"tiny_aya cohere2moe", {{{R"((?<!\d)\d++(?![\p{L}\p{M}\p{N}\p{Pc}]))", cut_rule::thirds}, {gpt4o_words}}}},
    {"superbpe", {{{R"(\p{N}+)"}, {R"(\d+)", cut_rule::thirds}}}},
    {"kimi-k2", {{{kimi_words}}}},
    {"chameleon",
     {{{"<sentinel:[0-9]+>"},
       {"IMGIMG[A-I]{1,4}Z"},
       {R"([\t\n]|    |  )"},
       {digit},
       {R"([\p{P}!-/:-@\[-`{-~])"},
       {gpt2_words}}},
     false,
     true},
    {"jais-2", {{{jais2_words}}}},
    {"bailingmoe bailingmoe2 llada-moe", {{{bailing_words}}}},
    {"seed-coder", {{{seed_words}}}},
    {"ufakzeka", {{{ufakzeka_words}}}},
    {"laguna", {{{lines}, {qwen2_words}}}},
    {"minicpm5", {{{digits_up_to_3}, {minicpm_words}}}, true},
    {"exaone-moe", {{{exaone_words}}}},
    {"gemma4 granite-embed-multi-311m", {{{lines}}}, false, true, true},
    {"sarvam-moe", {{{lines}}}, false, false, true},
};

/// True when `name` is one of the words of `names`.
constexpr bool has_name(std::string_view names, std::string_view name) noexcept {
    for (std::size_t at = 0; at < names.size();) {
        const std::size_t end = names.find(' ', at);
        if (names.substr(at, end == names.npos ? end : end - at) == name) return true;
        if (end == names.npos) break;
        at = end + 1;
    }
    return false;
}

} // namespace detail

/// All pre-tokenizers.
constexpr std::span<const pre_tokenizer> known_pre_tokenizers() noexcept { return detail::pre_tokenizers; }

/// The pre-tokenizer of a name. Throws unsupported_error that lists the known ones.
///
///     bool bos = tern::find_pre_tokenizer("llama-bpe").add_bos;   // true
inline const pre_tokenizer& find_pre_tokenizer(std::string_view name) {
    std::string all;
    for (const pre_tokenizer& p : detail::pre_tokenizers) {
        if (detail::has_name(p.names, name)) return p;
        (all += all.empty() ? "" : " ") += p.names;
    }
    throw unsupported_error("the pre-tokenizer \"" + std::string(name) + "\" is not known; there are: " + all);
}

} // namespace tern
