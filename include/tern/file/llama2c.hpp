// Reads the model files of llama2.c (version 0: a header of seven numbers, then f32 weights) and their tokenizers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/base/checked.hpp>
#include <tern/base/error.hpp>
#include <tern/file/checkpoint.hpp>
#include <tern/file/gguf_value.hpp>
#include <tern/file/metadata.hpp>
#include <tern/memory/file_handle.hpp>

namespace tern {

namespace detail {

/// Numbers of a source in order, each checked to be there.
class llama2c_cursor {
public:
    explicit llama2c_cursor(byte_source& from) : from_(from) {}

    template <class T> T next() {
        T value;
        read(std::as_writable_bytes(std::span(&value, 1)));
        return value;
    }
    void read(std::span<std::byte> into) {
        read_exact(from_, offset_, into);
        offset_ += into.size();
    }
    std::uint64_t offset() const noexcept { return offset_; }
    std::uint64_t left() const { return from_.size() - offset_; }
    [[noreturn]] void refuse(const std::string& why) const { throw parse_error(why, {.path = from_.path()}); }

private:
    byte_source& from_;
    std::uint64_t offset_ = 0;
};

/// Sizes of a file, all positive.
struct llama2c_header {
    std::uint64_t width, hidden, layers, heads, kv_heads, vocabulary, context;
    bool tied;
};

inline llama2c_header read_llama2c_header(llama2c_cursor& file) {
    std::int32_t n[7];
    for (std::int32_t& value : n) value = file.next<std::int32_t>();
    const bool tied = n[5] > 0; // a negative vocabulary marks an output matrix of its own
    if (n[5] < 0 && n[5] != INT32_MIN) n[5] = -n[5];
    for (const std::int32_t value : n)
        if (value <= 0) file.refuse("is no llama2.c model: a size in its header is not positive");
    llama2c_header h{};
    std::uint64_t* const fields[] = {&h.width, &h.hidden, &h.layers, &h.heads, &h.kv_heads, &h.vocabulary, &h.context};
    for (std::size_t i = 0; i < 7; ++i) *fields[i] = static_cast<std::uint64_t>(n[i]);
    h.tied = tied;
    if (h.width % h.heads != 0 || h.heads % h.kv_heads != 0 || (h.width / h.heads) % 2 != 0)
        file.refuse("is no llama2.c model: its heads do not divide its width");
    return h;
}

/// The tensors in file order, with a check that the file ends where the last one does.
inline std::vector<stored_tensor> llama2c_tensors(const llama2c_header& h, const llama2c_cursor& file) {
    std::vector<stored_tensor> tensors;
    std::uint64_t offset = file.offset();
    const std::uint64_t end = file.offset() + file.left();
    const auto skip = [&](std::uint64_t rows, std::uint64_t cols) {
        const std::uint64_t size = checked_mul(checked_mul(rows, cols, "a shape"), std::uint64_t{4}, "a shape");
        const std::uint64_t next = checked_add(offset, size, "an offset");
        if (next > end)
            file.refuse("is no llama2.c model, or cut: " + std::to_string(next) + " bytes expected at least, it has " +
                        std::to_string(end));
        return std::exchange(offset, next);
    };
    const auto add = [&](std::string name, std::uint64_t rows, std::uint64_t cols) {
        const std::uint64_t at = skip(rows, cols);
        tensors.push_back(
            {std::move(name), rows == 1 ? std::vector{cols} : std::vector{rows, cols}, "f32", 0, at, rows * cols * 4});
    };
    // Each kind of weight is stored for all layers before the next kind.
    const auto per_layer = [&](std::string_view name, std::uint64_t rows, std::uint64_t cols) {
        for (std::uint64_t i = 0; i < h.layers; ++i)
            add("blk." + std::to_string(i) + "." + std::string(name) + ".weight", rows, cols);
    };
    const std::uint64_t keys = h.width / h.heads * h.kv_heads;
    add("token_embd.weight", h.vocabulary, h.width);
    per_layer("attn_norm", 1, h.width);
    per_layer("attn_q", h.width, h.width);
    per_layer("attn_k", keys, h.width);
    per_layer("attn_v", keys, h.width);
    per_layer("attn_output", h.width, h.width);
    per_layer("ffn_norm", 1, h.width);
    per_layer("ffn_gate", h.hidden, h.width);
    per_layer("ffn_down", h.width, h.hidden);
    per_layer("ffn_up", h.hidden, h.width);
    add("output_norm.weight", 1, h.width);
    for (int table = 0; table < 2; ++table) skip(h.context, h.width / h.heads / 2); // cosines and sines, made anew here
    if (!h.tied) add("output.weight", h.vocabulary, h.width);
    if (offset != end)
        file.refuse("is no llama2.c model: " + std::to_string(end - offset) + " bytes follow its weights");
    return tensors;
}

/// Tokens, scores and types of a tokenizer file, as the keys that a GGUF file has for them.
inline void add_llama2c_tokenizer(std::vector<metadata_entry>& entries, llama2c_cursor& file, std::uint64_t count) {
    if (count > file.left() / 8) file.refuse("is too short for a tokenizer of " + std::to_string(count) + " tokens");
    file.next<std::int32_t>(); // the longest token
    std::vector<std::string> tokens;
    std::vector<float> scores;
    std::vector<std::int32_t> types;
    for (std::uint64_t id = 0; id < count; ++id) {
        scores.push_back(file.next<float>());
        const auto length = file.next<std::int32_t>();
        if (length < 0 || static_cast<std::uint64_t>(length) > file.left())
            file.refuse("token " + std::to_string(id) + " has a length of " + std::to_string(length));
        std::string text(static_cast<std::size_t>(length), '\0');
        file.read(std::as_writable_bytes(std::span(text)));
        const bool byte = text.size() == 6 && text.substr(0, 3) == "<0x" && text[5] == '>';
        types.push_back(id == 0 ? 2 : id <= 2 ? 3 : byte ? 6 : 1); // unknown, control, byte, normal
        std::string piece;
        for (const char c : text) piece += c == ' ' ? std::string("\u2581") : std::string(1, c);
        tokens.push_back(id == 0 ? "<unk>" : id == 1 ? "<s>" : id == 2 ? "</s>" : piece);
    }
    entries.push_back({"tokenizer.ggml.model", std::string("llama")});
    entries.push_back({"tokenizer.ggml.tokens", make_gguf_array(tokens)});
    entries.push_back({"tokenizer.ggml.scores", make_gguf_array(scores)});
    entries.push_back({"tokenizer.ggml.token_type", make_gguf_array(types)});
    entries.push_back({"tokenizer.ggml.unknown_token_id", std::uint32_t{0}});
    entries.push_back({"tokenizer.ggml.bos_token_id", std::uint32_t{1}});
    entries.push_back({"tokenizer.ggml.eos_token_id", std::uint32_t{2}});
    entries.push_back({"tokenizer.ggml.add_bos_token", true});
}

} // namespace detail

/// Opens a model of llama2.c, version 0, as a checkpoint of the architecture "llama", with its tokenizer where
/// `tokenizer` names the file. No weight is read. Throws io_error and parse_error with the file and what does not fit.
///
///     const tern::checkpoint file = tern::open_llama2c("stories260K.bin", "tok512.bin");
inline checkpoint open_llama2c(const std::string& path, const std::string& tokenizer = {}) {
    std::vector<std::unique_ptr<byte_source>> shards;
    shards.push_back(std::make_unique<file_source>(path));
    detail::llama2c_cursor file(*shards.front());
    const detail::llama2c_header h = detail::read_llama2c_header(file);
    std::vector<stored_tensor> tensors = detail::llama2c_tensors(h, file);
    std::vector<metadata_entry> entries;
    const auto number = [&](std::string_view key, std::uint64_t value) {
        entries.push_back({"llama." + std::string(key), static_cast<std::uint32_t>(value)});
    };
    entries.push_back({"general.architecture", std::string("llama")});
    number("block_count", h.layers);
    number("embedding_length", h.width);
    number("feed_forward_length", h.hidden);
    number("attention.head_count", h.heads);
    number("attention.head_count_kv", h.kv_heads);
    number("context_length", h.context);
    number("vocab_size", h.vocabulary);
    entries.push_back({"llama.attention.layer_norm_rms_epsilon", 1e-5f}); // constants of llama2.c
    entries.push_back({"llama.rope.freq_base", 10000.0f});
    if (!tokenizer.empty()) {
        file_source words(tokenizer);
        detail::llama2c_cursor at(words);
        detail::add_llama2c_tokenizer(entries, at, h.vocabulary);
    }
    return {"llama2c", std::move(shards), std::move(tensors), model_metadata(std::move(entries), path)};
}

} // namespace tern
