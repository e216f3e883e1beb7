// synthetic: writes a model file of a given size with random weights, to see what happens where memory is short.
//
//     bench_synthetic big.gguf --kind experts --size 3GiB        generate runs it; what it writes means nothing
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/base/json_writer.hpp>
#include <tern/file/gguf_writer.hpp>
#include <tern/format/formats.hpp>
#include <tern/tensor/visit.hpp>

#include "../examples/options.hpp"

namespace {

constexpr const char* help = R"(synthetic: writes a GGUF model of a given size with random weights.

usage: bench_synthetic OUT.gguf [options]

  --kind dense|experts   llama, or qwen3moe with a mixture of experts in each layer (default dense)
  --size SIZE            of the file, e.g. 64MiB (default 3GiB); it comes within 2%
  --format NAME          of the matrices, e.g. q4_k (default q8_0); norms and routers are f32
  --width N              of the residual stream, a multiple of 256 (default: chosen to fit)
  --layers N             (default: chosen to fit)
  --experts N, --used N  in each layer, and how many of them a token uses (default 64 and 4)
  --alignment N          of tensors in the file (default 32)
  --seed N               of the weights (default 0): the same options write the same file
  --help                 this text

Prints a JSON object: parameters, bytes, layers, bytes per layer, and the bytes that one token must read at least: all
tensors but the embedding, and used / experts of the experts. The file is on the disk, and not in the page cache, when
the program ends.
)";

constexpr std::uint64_t vocabulary_size = 320;
constexpr std::uint64_t head_dim = 64;
constexpr std::uint64_t heads_per_key_head = 4;
constexpr std::uint64_t width_step = heads_per_key_head * head_dim; // and a multiple of every block size

/// Numbers that are the same on every machine. Source: Steele and others, "Fast splittable pseudorandom number
/// generators", 2014 (SplitMix64).
struct random_numbers {
    std::uint64_t state;

    std::uint64_t next() noexcept {
        std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    /// From 0 to n - 1.
    std::uint64_t below(std::uint64_t n) noexcept { return ((next() >> 32) * n) >> 32; }
    /// Nearly normal, of variance 1: twelve uniform numbers.
    float normal() noexcept {
        std::uint64_t sum = 0;
        for (int i = 0; i < 3; ++i)
            for (std::uint64_t bits = next(), j = 0; j < 4; ++j, bits >>= 16) sum += bits & 0xffff;
        return static_cast<float>(sum) / 65536.0f - 6.0f;
    }
};

/// How large a model is.
struct model_size {
    std::string format;
    std::uint64_t experts = 0; ///< 0: dense
    std::uint64_t used = 0;
    std::uint64_t width = 0;
    std::uint64_t layers = 0;
    std::uint64_t hidden = 0; ///< of an expert, where there are some
    std::uint64_t alignment = 32;

    bool dense() const { return experts == 0; }
    std::uint64_t key_width() const { return width / heads_per_key_head; }
};

enum class tensor_role { dense, embedding, expert };

/// A tensor to write: numbers of a mean and a deviation.
struct planned {
    std::string name;
    std::vector<std::uint64_t> shape;
    std::string format;
    float mean = 0;
    float deviation = 0;
    tensor_role role = tensor_role::dense;

    std::uint64_t numbers() const {
        std::uint64_t n = 1;
        for (const std::uint64_t d : shape) n = tern::checked_mul(n, d, "a tensor's size");
        return n;
    }
    std::uint64_t bytes() const {
        const tern::format_info& f = tern::all_formats::infos[tern::all_formats::index_of_name(format)];
        return tern::checked_mul<std::uint64_t>(numbers() / f.block_size, f.block_bytes, "a tensor's size");
    }
};

/// A deviation of 1 / sqrt(columns) keeps activations of the size that the norms give them.
planned matrix(const model_size& m, std::string name, std::vector<std::uint64_t> shape) {
    const float deviation = 1 / std::sqrt(static_cast<float>(shape.back()));
    const tensor_role role = shape.size() == 3 ? tensor_role::expert : tensor_role::dense;
    return {std::move(name), std::move(shape), m.format, 0, deviation, role};
}
planned norm(std::string name, std::uint64_t size) { return {std::move(name), {size}, "f32", 1, 0.1f}; }

std::vector<planned> plan_layer(const model_size& m, std::uint64_t layer) {
    const std::string blk = "blk." + std::to_string(layer) + ".";
    std::vector<planned> t{norm(blk + "attn_norm.weight", m.width),
                           matrix(m, blk + "attn_q.weight", {m.width, m.width}),
                           matrix(m, blk + "attn_k.weight", {m.key_width(), m.width}),
                           matrix(m, blk + "attn_v.weight", {m.key_width(), m.width}),
                           matrix(m, blk + "attn_output.weight", {m.width, m.width}),
                           norm(blk + "ffn_norm.weight", m.width)};
    if (m.dense()) {
        t.push_back(matrix(m, blk + "ffn_gate.weight", {m.hidden, m.width}));
        t.push_back(matrix(m, blk + "ffn_up.weight", {m.hidden, m.width}));
        t.push_back(matrix(m, blk + "ffn_down.weight", {m.width, m.hidden}));
        return t;
    }
    t.push_back(norm(blk + "attn_q_norm.weight", head_dim));
    t.push_back(norm(blk + "attn_k_norm.weight", head_dim));
    t.push_back(matrix(m, blk + "ffn_gate_inp.weight", {m.experts, m.width}));
    t.back().format = "f32";
    t.push_back(matrix(m, blk + "ffn_gate_exps.weight", {m.experts, m.hidden, m.width}));
    t.push_back(matrix(m, blk + "ffn_up_exps.weight", {m.experts, m.hidden, m.width}));
    t.push_back(matrix(m, blk + "ffn_down_exps.weight", {m.experts, m.width, m.hidden}));
    return t;
}

std::vector<planned> plan_ends(const model_size& m) {
    planned embedding = matrix(m, "token_embd.weight", {vocabulary_size, m.width});
    embedding.deviation = 1; // a token is to matter beside what the first layers add
    embedding.role = tensor_role::embedding;
    return {std::move(embedding), norm("output_norm.weight", m.width),
            matrix(m, "output.weight", {vocabulary_size, m.width})};
}

std::vector<planned> plan_model(const model_size& m) {
    std::vector<planned> all = plan_ends(m);
    for (std::uint64_t i = 0; i < m.layers; ++i)
        for (planned& t : plan_layer(m, i)) all.push_back(std::move(t));
    return all;
}

struct totals {
    std::uint64_t numbers = 0, bytes = 0;
    double active = 0; ///< bytes that a token must read

    totals(const std::vector<planned>& tensors, const model_size& m) {
        for (const planned& t : tensors) {
            numbers += t.numbers();
            bytes += t.bytes();
            if (t.role == tensor_role::dense) active += static_cast<double>(t.bytes());
            if (t.role == tensor_role::expert)
                active += static_cast<double>(t.bytes()) * static_cast<double>(m.used) / static_cast<double>(m.experts);
        }
    }
};

/// Gives `m` the hidden size that brings it nearest to `size` bytes; the distance, relative, is returned.
double fit_hidden(model_size& m, std::uint64_t size) {
    const std::size_t format = tern::all_formats::index_of_name(m.format);
    const std::uint64_t step = std::max<std::uint64_t>(32, tern::all_formats::infos[format].block_size);
    const auto bytes = [&](std::uint64_t hidden) {
        m.hidden = hidden;
        return static_cast<double>(totals(plan_ends(m), m).bytes) +
               static_cast<double>(m.layers) * static_cast<double>(totals(plan_layer(m, 0), m).bytes);
    };
    const double least = bytes(step), each = bytes(2 * step) - least;
    const double more = std::round((static_cast<double>(size) - least) / each);
    const double most = static_cast<double>((std::uint64_t{1} << 20) / step);
    const double reached = bytes(step + step * static_cast<std::uint64_t>(std::clamp(more, 0.0, most)));
    return std::abs(reached / static_cast<double>(size) - 1);
}

/// The usual proportions: a layer for each 64 of the width, a hidden size of three widths (an expert: three eighths).
double strangeness(const model_size& m) {
    const auto width = static_cast<double>(m.width);
    return std::abs(std::log(static_cast<double>(m.layers) * 64 / width)) +
           std::abs(std::log(static_cast<double>(m.hidden) / (width * (m.dense() ? 3.0 : 0.375))));
}

/// Chooses what is 0 in `m`, the least strange among what comes near to `size`; throws config_error where nothing does.
model_size fit(const model_size& m, std::uint64_t size) {
    model_size best{};
    double lowest = HUGE_VAL;
    const std::uint64_t widest = m.width != 0 ? m.width : 8192, deepest = m.layers != 0 ? m.layers : 128;
    for (std::uint64_t width = m.width != 0 ? m.width : width_step; width <= widest; width += width_step)
        for (std::uint64_t layers = m.layers != 0 ? m.layers : 1; layers <= deepest; ++layers) {
            model_size candidate = m;
            candidate.width = width;
            candidate.layers = layers;
            const double distance = fit_hidden(candidate, size); // the file's header and padding come on top
            const double cost = strangeness(candidate) + 100 * std::max(0.0, distance - 0.002);
            if (distance > 0.01 || cost >= lowest) continue;
            lowest = cost;
            best = candidate;
        }
    if (best.layers == 0)
        throw tern::config_error("no such model comes near to " + tern::to_string(tern::bytes{size}) +
                                 ": choose another --size, fewer --experts, or leave --width and --layers out");
    return best;
}

/// Blocks of a format that were encoded once, to be drawn from.
class block_pool {
public:
    block_pool(std::size_t format, float mean, float deviation, random_numbers random) {
        tern::visit_format<tern::all_formats>(format, [&]<tern::format F>() {
            if constexpr (tern::format_encodable<F>)
                fill<F>(mean, deviation, random);
            else
                throw tern::unsupported_error("the format " + std::string(F::name) + " cannot be encoded");
        });
    }

    /// Fills `out` with pieces drawn at random.
    void draw(std::span<std::byte> out, random_numbers& random) const noexcept {
        const std::uint64_t pieces = bytes_.size() / piece_;
        for (std::size_t at = 0; at < out.size(); at += piece_)
            std::memcpy(out.data() + at, bytes_.data() + random.below(pieces) * piece_,
                        std::min(piece_, out.size() - at));
    }

private:
    template <tern::format F> void fill(float mean, float deviation, random_numbers& random) {
        constexpr std::size_t count = std::max<std::size_t>(1024, (1u << 17) / F::block_size);
        // Small blocks are drawn some together.
        piece_ = sizeof(typename F::block) * std::max<std::size_t>(1, 32 / sizeof(typename F::block));
        std::array<float, F::block_size> values;
        for (std::size_t i = 0; i < count; ++i) {
            for (float& value : values) value = mean + deviation * random.normal();
            typename F::block block;
            F::encode(values.data(), block);
            const auto raw = std::as_bytes(std::span(&block, 1));
            bytes_.insert(bytes_.end(), raw.begin(), raw.end());
        }
    }

    std::vector<std::byte> bytes_{};
    std::size_t piece_ = 0;
};

/// SentencePiece: three special tokens, the bytes, and some pieces. No token ends a text: runs are as long as asked.
void set_tokenizer(tern::gguf_writer& out) {
    std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
    std::vector<std::int32_t> types{2, 3, 3};
    for (int byte = 0; byte < 256; ++byte) {
        char text[8];
        std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(byte));
        tokens.emplace_back(text), types.push_back(6);
    }
    constexpr std::string_view space = "\u2581";
    for (const std::string_view piece : {"", "t", "th", "the", "a", "o", "of", "i", "in"})
        tokens.push_back(std::string(space) + std::string(piece));
    for (char letter = 'a'; letter <= 'z'; ++letter) tokens.emplace_back(1, letter);
    for (char letter = 'A'; tokens.size() < vocabulary_size; ++letter) tokens.emplace_back(1, letter);
    types.resize(tokens.size(), 1);
    std::vector<float> scores(tokens.size());
    for (std::size_t i = 259; i < scores.size(); ++i) scores[i] = -static_cast<float>(i - 259);
    out.set("tokenizer.ggml.model", "llama");
    out.set("tokenizer.ggml.pre", "default");
    out.set("tokenizer.ggml.tokens", tokens);
    out.set("tokenizer.ggml.scores", scores);
    out.set("tokenizer.ggml.token_type", types);
    out.set("tokenizer.ggml.unknown_token_id", std::uint32_t{0});
    out.set("tokenizer.ggml.bos_token_id", std::uint32_t{1});
    out.set("tokenizer.ggml.add_bos_token", true);
}

void set_metadata(tern::gguf_writer& out, const model_size& m) {
    const std::string architecture = m.dense() ? "llama" : "qwen3moe";
    const auto number = [&](const char* key, std::uint64_t value) {
        out.set(architecture + "." + key, static_cast<std::uint32_t>(value));
    };
    out.set("general.architecture", architecture);
    out.set("general.name", "synthetic, random weights");
    number("context_length", 4096);
    number("embedding_length", m.width);
    number("block_count", m.layers);
    number("feed_forward_length", m.hidden);
    number("attention.head_count", m.width / head_dim);
    number("attention.head_count_kv", m.key_width() / head_dim);
    for (const char* key : {"attention.key_length", "attention.value_length", "rope.dimension_count"})
        number(key, head_dim);
    number("vocab_size", vocabulary_size);
    out.set(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
    if (!m.dense()) {
        number("expert_count", m.experts);
        number("expert_used_count", m.used);
        number("expert_feed_forward_length", m.hidden);
    }
    set_tokenizer(out);
}

/// Waits until the file is on the disk, and lets its pages go: who measures next begins without them.
void settle(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    const bool done = fd >= 0 && ::fsync(fd) == 0;
    const std::string reason = std::strerror(errno);
    if (done) ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (fd >= 0) ::close(fd);
    if (!done) throw tern::io_error("cannot wait for the disk: " + reason, {.path = path});
}

void write_model(const std::string& path, const model_size& m, const std::vector<planned>& tensors,
                 std::uint64_t seed) {
    tern::file_sink sink(path);
    tern::gguf_writer out(sink, static_cast<std::uint32_t>(m.alignment));
    set_metadata(out, m);
    for (const planned& t : tensors) out.add(t.name, t.shape, t.format);
    std::map<std::pair<std::string, std::pair<float, float>>, block_pool> pools;
    std::vector<std::byte> buffer;
    random_numbers random{seed};
    for (const planned& t : tensors) {
        const std::size_t format = tern::all_formats::index_of_name(t.format);
        const auto pool = pools.try_emplace({t.format, {t.mean, t.deviation}}, format, t.mean, t.deviation,
                                            random_numbers{random.next()});
        const std::uint64_t whole = 8192 * tern::all_formats::infos[format].block_bytes; // and so whole pieces
        for (std::uint64_t left = t.bytes(); left > 0; left -= buffer.size()) {
            buffer.resize(static_cast<std::size_t>(std::min(left, whole)));
            pool.first->second.draw(buffer, random);
            out.write(t.name, buffer);
        }
    }
    out.finish();
    sink.commit();
    settle(path);
}

model_size wanted_size(const options& args) {
    const std::string kind = args.text("kind", "dense");
    if (kind != "dense" && kind != "experts") throw tern::config_error("--kind is dense or experts, not " + kind);
    model_size m{.format = args.text("format", "q8_0"),
                 .experts = kind == "dense" ? 0 : args.whole("experts", 64),
                 .used = kind == "dense" ? 0 : args.whole("used", 4),
                 .width = args.whole("width", 0),
                 .layers = args.whole("layers", 0),
                 .alignment = args.whole("alignment", 32)};
    if (tern::all_formats::index_of_name(m.format) == tern::all_formats::size) {
        std::string known;
        for (const tern::format_info& f : tern::all_formats::infos) known += " " + std::string(f.name);
        throw tern::config_error("there is no format \"" + m.format + "\": it is one of" + known);
    }
    if (kind == "experts" && (m.experts == 0 || m.experts > 4096 || m.used == 0 || m.used > m.experts))
        throw tern::config_error("--used is from 1 to --experts, which is 4096 at most");
    if (m.width % width_step != 0 || m.width > 65536 || m.layers > 4096 || m.alignment > (1u << 21))
        throw tern::config_error("--width is a multiple of 256 up to 65536, --layers at most 4096");
    return m;
}

void run_program(const options& args) {
    if (args.plain().size() != 1) throw usage_error{help};
    const auto begin = std::chrono::steady_clock::now();
    const model_size m = fit(wanted_size(args), args.size("size", {std::uint64_t{3} << 30}).count);
    const std::vector<planned> tensors = plan_model(m);
    write_model(args.plain()[0], m, tensors, args.whole("seed", 0));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    const totals all(tensors, m);
    tern::json_writer json;
    json.begin_object().member("parameters", all.numbers).member("tensor_bytes", all.bytes).member("format", m.format);
    json.member("layers", m.layers).member("width", m.width).member("hidden", m.hidden);
    json.member("experts", m.experts).member("experts_used", m.used);
    json.member("bytes_per_layer", totals(plan_layer(m, 0), m).bytes);
    json.member("active_bytes_per_token", static_cast<std::uint64_t>(all.active));
    json.member("seconds", taken.count()).end_object();
    std::cout << std::move(json).take() << "\n";
}

} // namespace

int main(int argc, char** argv) {
    try {
        const options args(argc, argv,
                           {"kind", "size", "format", "width", "layers", "experts", "used", "alignment", "seed"},
                           {"help"});
        args.on("help") ? void(std::cout << help) : run_program(args);
    } catch (const usage_error& e) {
        std::cerr << e.help;
        return 1;
    } catch (const std::exception& e) {
        std::cerr << "synthetic: " << e.what() << "\n";
        return 1;
    }
}
