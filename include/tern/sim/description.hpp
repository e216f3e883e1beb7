// A model known by its sizes alone: read from JSON, for planning without weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/base/checked.hpp>
#include <tern/base/json.hpp>
#include <tern/base/json_fields.hpp>
#include <tern/format/formats.hpp>
#include <tern/memory/text_file.hpp>

namespace tern {

enum class attention_kind : unsigned char {
    softmax, ///< keys and values of every token
    latent,  ///< of DeepSeek-V2: keys and values compressed to one vector a token; priced only
    linear,  ///< gated delta net: a state of a fixed size; priced only
};

/// The attention of a layer. Sizes that a kind does not have are 0.
struct described_attention {
    attention_kind kind = attention_kind::softmax;
    std::size_t heads = 0, kv_heads = 0, head_dim = 0, window = 0;
    bool norm = false, gate = false;
    std::size_t q_rank = 0, kv_rank = 0, rope_dim = 0, nope_dim = 0, value_dim = 0; ///< latent
    std::size_t key_heads = 0, value_heads = 0, key_dim = 0, conv = 0;              ///< linear

    /// Numbers that the cache keeps of each token, and of each sequence.
    std::size_t cached_per_token() const noexcept {
        if (kind == attention_kind::softmax) return 2 * kv_heads * head_dim;
        return kind == attention_kind::latent ? kv_rank + rope_dim : 0;
    }
    std::size_t state() const noexcept {
        return kind == attention_kind::linear ? value_heads * key_dim * value_dim : 0;
    }
};

/// The feed-forward part of a layer; `experts` is 0 for a dense one.
struct described_ffn {
    std::size_t hidden = 0; ///< of the layer, or of one expert
    std::size_t experts = 0, used = 0, shared_hidden = 0;
};

/// The formats of a model's tensors, by part.
struct described_formats {
    std::string embedding, output, attention, dense, experts, shared, router, norm;
};

struct described_layer {
    std::size_t attention = 0; ///< index into model_description::attentions
    std::size_t ffn = 0;       ///< index into model_description::ffns
};

/// What a planner must know of a model. See docs/models.md.
struct model_description {
    std::string path{}; ///< of the file that it was read from
    std::string name{};
    std::string architecture{};
    std::vector<std::string> sources{};
    std::vector<std::string> estimated{}; ///< what is not published, and what was taken in its place
    std::size_t vocabulary = 0, width = 0, context = 0;
    bool tied_output = false;
    std::vector<described_attention> attentions{};
    std::vector<described_ffn> ffns{};
    std::vector<described_layer> layers{};
    described_formats formats{};
    double parameters = 0; ///< as published

    /// Whether any layer has an operator that is priced only.
    bool priced_only() const noexcept {
        for (const described_layer& l : layers)
            if (attentions[l.attention].kind != attention_kind::softmax) return true;
        return false;
    }
};

namespace detail {

/// Sizes of a model that anybody may plan for: more is a mistake, or meant to harm.
inline constexpr std::uint64_t largest_size = 1 << 24;
inline constexpr std::size_t most_layers = 1024;

template <class = void> std::size_t described_size(const json_fields& f, std::string_view key, bool may_be_0 = false) {
    const std::uint64_t n = f.uint64(key);
    if ((n == 0 && !may_be_0) || n > largest_size)
        f.fail(key, "is " + std::to_string(n) + ", expected " + (may_be_0 ? "0" : "1") + " to " +
                        std::to_string(largest_size));
    return static_cast<std::size_t>(n);
}

template <class = void>
described_attention read_attention(const json_value& v, const std::string& file, const std::string& way) {
    const json_value* const named = v.find("kind");
    const std::string kind = named != nullptr && named->is(json_kind::string) ? named->as_string() : "";
    described_attention a;
    if (kind == "softmax") {
        const json_fields f(v, file, way,
                            {"kind", "heads", "kv_heads", "head_dim", "window", "bias", "norm", "sinks", "gate"});
        a = {.heads = described_size(f, "heads"),
             .kv_heads = described_size(f, "kv_heads"),
             .head_dim = described_size(f, "head_dim"),
             .window = described_size(f, "window", true),
             .norm = f.boolean("norm"),
             .gate = f.boolean("gate")};
        if (a.heads % a.kv_heads != 0 || a.head_dim % 2 != 0)
            f.fail("heads", "is no multiple of kv_heads, or heads have an odd number of dimensions");
    } else if (kind == "latent") {
        const json_fields f(v, file, way, {"kind", "heads", "q_rank", "kv_rank", "rope_dim", "nope_dim", "value_dim"});
        a.kind = attention_kind::latent;
        a.heads = described_size(f, "heads");
        a.q_rank = described_size(f, "q_rank", true);
        a.kv_rank = described_size(f, "kv_rank");
        a.rope_dim = described_size(f, "rope_dim");
        a.nope_dim = described_size(f, "nope_dim");
        a.value_dim = described_size(f, "value_dim");
    } else if (kind == "linear") {
        const json_fields f(v, file, way, {"kind", "key_heads", "value_heads", "key_dim", "value_dim", "conv"});
        a.kind = attention_kind::linear;
        a.key_heads = described_size(f, "key_heads");
        a.value_heads = described_size(f, "value_heads");
        a.key_dim = described_size(f, "key_dim");
        a.value_dim = described_size(f, "value_dim");
        a.conv = described_size(f, "conv", true);
    } else {
        throw parse_error(way + ".kind: expected softmax, latent or linear", {.path = file});
    }
    return a;
}

template <class = void> described_ffn read_ffn(const json_value& v, const std::string& file, const std::string& way) {
    const json_value* const named = v.find("kind");
    const std::string kind = named != nullptr && named->is(json_kind::string) ? named->as_string() : "";
    if (kind == "dense") {
        const json_fields f(v, file, way, {"kind", "hidden"});
        return {.hidden = described_size(f, "hidden")};
    }
    if (kind != "experts") throw parse_error(way + ".kind: expected dense or experts", {.path = file});
    const json_fields f(v, file, way, {"kind", "experts", "used", "hidden", "shared_hidden"});
    const described_ffn ffn{.hidden = described_size(f, "hidden"),
                            .experts = described_size(f, "experts"),
                            .used = described_size(f, "used"),
                            .shared_hidden = described_size(f, "shared_hidden", true)};
    if (ffn.used > ffn.experts || ffn.experts > 65536) f.fail("used", "is more than experts, or those over 65536");
    return ffn;
}

/// The members of an object whose keys are names: `read(value, way)` for each, into `into`; the names in order.
template <class T, class Read>
std::map<std::string, std::size_t> read_named(const json_fields& root, std::string_view key, std::vector<T>& into,
                                              Read read) {
    std::map<std::string, std::size_t> names;
    if (!root.at(key).is(json_kind::object)) root.fail(key, "expected an object");
    for (const json_member& m : root.at(key).object()) {
        names.emplace(m.key, into.size());
        into.push_back(read(m.value, root.file(), root.way_to(key) + "." + m.key));
    }
    if (into.empty()) root.fail(key, "names nothing");
    return names;
}

/// Appends the layers that a list gives.
template <class Names>
void read_layers(const std::vector<std::string>& way, const json_value& list, const std::string& file,
                 const Names& attentions, const Names& ffns, std::vector<described_layer>& into) {
    if (!list.is(json_kind::array)) throw parse_error(way.back() + ": expected an array", {.path = file});
    for (std::size_t i = 0; i < list.array().size(); ++i) {
        const json_value& v = list.array()[i];
        const std::string here = way.back() + "[" + std::to_string(i) + "]";
        if (v.find("repeat") != nullptr) {
            const json_fields f(v, file, here, {"repeat", "layers"});
            std::vector<described_layer> once;
            if (way.size() > 4) f.fail("layers", "is nested too deeply");
            std::vector<std::string> deeper = way;
            deeper.push_back(here + ".layers");
            read_layers(deeper, f.at("layers"), file, attentions, ffns, once);
            const std::size_t times = described_size(f, "repeat");
            if (once.size() > most_layers || times > most_layers || into.size() + times * once.size() > most_layers)
                f.fail("repeat", "makes more than " + std::to_string(most_layers) + " layers");
            for (std::size_t t = 0; t < times; ++t) into.insert(into.end(), once.begin(), once.end());
            continue;
        }
        const json_fields f(v, file, here, {"count", "attention", "ffn"});
        const auto attention = attentions.find(f.string("attention"));
        const auto ffn = ffns.find(f.string("ffn"));
        if (attention == attentions.end()) f.fail("attention", "names none of the model's attentions");
        if (ffn == ffns.end()) f.fail("ffn", "names none of the model's ffns");
        const std::size_t count = described_size(f, "count");
        if (count > most_layers - into.size())
            f.fail("count", "makes more than " + std::to_string(most_layers) + " layers");
        into.insert(into.end(), count, described_layer{attention->second, ffn->second});
    }
}

template <class = void> described_formats read_formats(const json_fields& root) {
    const json_fields f(root.at("formats"), root.file(), root.way_to("formats"),
                        {"embedding", "output", "attention", "dense", "experts", "shared", "router", "norm"});
    const auto known = [&](std::string_view key) {
        const std::string& name = f.string(key);
        if (all_formats::index_of_name(name) == all_formats::size) f.fail(key, "\"" + name + "\" is no format of tern");
        return name;
    };
    return {known("embedding"), known("output"), known("attention"), known("dense"),
            known("experts"),   known("shared"), known("router"),    known("norm")};
}

template <class = void> std::vector<std::string> read_strings(const json_fields& root, std::string_view key) {
    std::vector<std::string> all;
    for (const json_value& v : root.array(key)) {
        if (!v.is(json_kind::string)) root.fail(key, "expected strings");
        all.push_back(v.as_string());
    }
    return all;
}

} // namespace detail

/// Reads a description; `file` is named in errors. Throws parse_error that names file and key.
///
///     auto model = tern::parse_description(text, "model.json");
template <class = void> model_description parse_description(std::string_view text, const std::string& file) {
    const json_value root = parse_json(text, file);
    const json_fields f(root, file, "",
                        {"name", "architecture", "sources", "estimated", "vocabulary", "width", "context",
                         "tied_output", "attention", "ffn", "layers", "formats", "parameters", "bytes"});
    model_description m;
    m.path = file;
    m.name = f.string("name");
    m.architecture = f.string("architecture");
    m.sources = detail::read_strings(f, "sources");
    m.estimated = detail::read_strings(f, "estimated");
    m.vocabulary = detail::described_size(f, "vocabulary");
    m.width = detail::described_size(f, "width");
    m.context = detail::described_size(f, "context");
    m.tied_output = f.boolean("tied_output");
    m.parameters = f.positive("parameters");
    m.formats = detail::read_formats(f);
    const auto attentions = detail::read_named(f, "attention", m.attentions, &detail::read_attention<>);
    const auto ffns = detail::read_named(f, "ffn", m.ffns, &detail::read_ffn<>);
    detail::read_layers({"layers"}, f.at("layers"), file, attentions, ffns, m.layers);
    if (m.layers.empty()) f.fail("layers", "is empty");
    return m;
}

/// The same from a file; throws io_error too.
template <class = void> model_description read_description(const std::string& path) {
    return parse_description(read_text_file(path, 1 << 20), path);
}

} // namespace tern
