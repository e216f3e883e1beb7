// Small model files made for a test: a one-layer llama whose keys and tensors a test changes before it is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/file/gguf_writer.hpp>
#include <tern/format/gguf_types.hpp>

namespace tern::test {

/// A folder that goes away with what is in it, as far as this made it.
class temporary_folder {
public:
    temporary_folder() {
        char name[] = "/tmp/tern-test-XXXXXX";
        if (::mkdtemp(name) == nullptr) throw io_error("cannot create a temporary folder");
        path_ = name;
    }
    temporary_folder(const temporary_folder&) = delete;
    temporary_folder& operator=(const temporary_folder&) = delete;
    ~temporary_folder() {
        for (const std::string& f : files_) ::unlink(f.c_str());
        ::rmdir(path_.c_str());
    }
    std::string file(const std::string& name) {
        files_.push_back(path_ + "/" + name);
        return files_.back();
    }

private:
    std::string path_;
    std::vector<std::string> files_;
};

/// The content of a model file: metadata and tensors by name, all values small and regular.
struct model_file {
    struct tensor {
        std::vector<std::uint64_t> shape;
        std::string format = "f32";
    };
    std::map<std::string, gguf_value> keys{};
    std::map<std::string, tensor> tensors{};

    /// Width 16, 4 heads of 4, 2 key heads, hidden 24, 32 tokens, one layer.
    static model_file llama(const std::string& arch = "llama") {
        model_file f;
        f.keys = {{"general.architecture", gguf_value(arch)}};
        const auto number = [&](const char* name, std::uint32_t n) { f.keys[arch + "." + name] = gguf_value(n); };
        number("block_count", 1);
        number("embedding_length", 16);
        number("feed_forward_length", 24);
        number("attention.head_count", 4);
        number("attention.head_count_kv", 2);
        number("context_length", 64);
        const std::string blk = "blk.0.";
        f.tensors = {{"token_embd.weight", {{32, 16}}},        {"output_norm.weight", {{16}}},
                     {blk + "attn_norm.weight", {{16}}},       {blk + "attn_q.weight", {{16, 16}}},
                     {blk + "attn_k.weight", {{8, 16}}},       {blk + "attn_v.weight", {{8, 16}}},
                     {blk + "attn_output.weight", {{16, 16}}}, {blk + "ffn_norm.weight", {{16}}},
                     {blk + "ffn_gate.weight", {{24, 16}}},    {blk + "ffn_up.weight", {{24, 16}}},
                     {blk + "ffn_down.weight", {{16, 24}}}};
        return f;
    }

    template <class T> model_file& set(const std::string& key, T value) {
        keys[key] = gguf_value(std::move(value));
        return *this;
    }

    std::string write(const std::string& path) const {
        file_sink sink(path);
        gguf_writer writer(sink);
        for (const auto& [key, value] : keys) writer.set(key, value);
        for (const auto& [name, t] : tensors) writer.add(name, t.shape, t.format);
        unsigned seed = 1;
        for (const auto& [name, t] : tensors) {
            std::uint64_t count = 1;
            for (const std::uint64_t n : t.shape) count *= n;
            std::vector<float> values(static_cast<std::size_t>(count));
            for (float& x : values) {
                seed = seed * 1664525u + 1013904223u;
                x = static_cast<float>(seed >> 16) / 65536.0f - 0.5f;
            }
            std::uint64_t size = values.size() * sizeof(float);
            for (const gguf_type_info& type : gguf_types)
                if (type.name == t.format) size = count / type.block_size * type.block_bytes;
            const auto raw = std::as_bytes(std::span(values));
            writer.write(name, raw.first(static_cast<std::size_t>(size)));
        }
        writer.finish();
        sink.commit();
        return path;
    }
};

} // namespace tern::test
