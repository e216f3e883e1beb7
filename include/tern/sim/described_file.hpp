// The tensors of a description as a model file without bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include <tern/base/checked.hpp>
#include <tern/file/checkpoint.hpp>
#include <tern/format/formats.hpp>
#include <tern/sim/description.hpp>

namespace tern {

namespace detail {

/// A file of a size that has no bytes: addresses that cannot be read. To read it is an error.
class absent_bytes final : public byte_source {
public:
    absent_bytes(std::string path, std::uint64_t size) : path_(std::move(path)), size_(size) {
        if (size == 0) return;
        void* const at = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) throw budget_error("the system has no addresses for this model", {path_, {}, size, {}});
        begin_ = static_cast<std::byte*>(at);
    }
    ~absent_bytes() override {
        if (begin_ != nullptr) ::munmap(begin_, size_);
    }

    std::uint64_t size() const override { return size_; }
    const std::string& path() const noexcept override { return path_; }
    std::span<const std::byte> resident() const noexcept override { return {begin_, static_cast<std::size_t>(size_)}; }
    std::size_t read_some(std::uint64_t, std::span<std::byte>) override {
        throw io_error("is a description: there are no weights to read", {.path = path_});
    }

private:
    std::string path_;
    std::uint64_t size_;
    std::byte* begin_ = nullptr;
};

/// Collects tensors one behind the other.
class tensor_list {
public:
    explicit tensor_list(const model_description& m) : model_(m) {}

    void add(std::string name, std::string_view format, std::uint64_t rows, std::uint64_t cols,
             std::uint64_t experts = 1) {
        const format_info& info = all_formats::infos[all_formats::index_of_name(format)];
        if (cols % info.block_size != 0)
            throw parse_error("has rows of " + std::to_string(cols) + ", no multiple of the " +
                                  std::to_string(info.block_size) + " numbers of a block of " + std::string(format),
                              {.path = model_.path, .tensor = std::move(name)});
        const std::uint64_t numbers = checked_mul(checked_mul(rows, cols), experts, "the size of a tensor");
        const std::uint64_t size = checked_mul<std::uint64_t>(numbers / info.block_size, info.block_bytes);
        std::vector<std::uint64_t> shape{rows, cols};
        if (experts > 1) shape.insert(shape.begin(), experts);
        tensors_.push_back({std::move(name), std::move(shape), info.name, 0, end_, size});
        end_ = checked_add(end_, size, "the size of a model");
    }

    checkpoint finish() && {
        std::vector<std::unique_ptr<byte_source>> shards;
        shards.push_back(std::make_unique<absent_bytes>(model_.path, end_));
        return {"description", std::move(shards), std::move(tensors_), model_metadata({}, model_.path)};
    }

private:
    const model_description& model_;
    std::vector<stored_tensor> tensors_;
    std::uint64_t end_ = 0;
};

template <class = void>
void list_attention(tensor_list& list, const std::string& blk, const model_description& m,
                    const described_attention& a) {
    const std::string& f = m.formats.attention;
    const std::string& norm = m.formats.norm;
    if (a.kind == attention_kind::softmax) {
        list.add(blk + "attn_q.weight", f, a.heads * a.head_dim, m.width);
        if (a.gate) list.add(blk + "attn_gate.weight", f, a.heads * a.head_dim, m.width);
        list.add(blk + "attn_k.weight", f, a.kv_heads * a.head_dim, m.width);
        list.add(blk + "attn_v.weight", f, a.kv_heads * a.head_dim, m.width);
        if (a.norm) list.add(blk + "attn_q_norm.weight", norm, 1, a.head_dim);
        if (a.norm) list.add(blk + "attn_k_norm.weight", norm, 1, a.head_dim);
        list.add(blk + "attn_output.weight", f, m.width, a.heads * a.head_dim);
    } else if (a.kind == attention_kind::latent) {
        const std::size_t queries = a.heads * (a.nope_dim + a.rope_dim);
        if (a.q_rank != 0) {
            list.add(blk + "attn_q_a.weight", f, a.q_rank, m.width);
            list.add(blk + "attn_q_a_norm.weight", norm, 1, a.q_rank);
        }
        list.add(blk + "attn_q_b.weight", f, queries, a.q_rank != 0 ? a.q_rank : m.width);
        list.add(blk + "attn_kv_a.weight", f, a.kv_rank + a.rope_dim, m.width);
        list.add(blk + "attn_kv_a_norm.weight", norm, 1, a.kv_rank);
        list.add(blk + "attn_kv_b.weight", f, a.heads * (a.nope_dim + a.value_dim), a.kv_rank);
        list.add(blk + "attn_output.weight", f, m.width, a.heads * a.value_dim);
    } else {
        const std::size_t keys = a.key_heads * a.key_dim;
        const std::size_t values = a.value_heads * a.value_dim;
        list.add(blk + "attn_qkv.weight", f, 2 * keys + values, m.width);
        list.add(blk + "attn_gate.weight", f, values, m.width);
        list.add(blk + "ssm_ba.weight", f, 2 * a.value_heads, m.width);
        if (a.conv != 0) list.add(blk + "ssm_conv1d.weight", norm, a.conv, 2 * keys + values);
        list.add(blk + "ssm_norm.weight", norm, 1, a.value_dim);
        list.add(blk + "ssm_out.weight", f, m.width, values);
    }
}

template <class = void>
void list_ffn(tensor_list& list, const std::string& blk, const model_description& m, const described_ffn& n) {
    if (n.experts == 0) {
        list.add(blk + "ffn_gate.weight", m.formats.dense, n.hidden, m.width);
        list.add(blk + "ffn_up.weight", m.formats.dense, n.hidden, m.width);
        list.add(blk + "ffn_down.weight", m.formats.dense, m.width, n.hidden);
        return;
    }
    list.add(blk + "ffn_gate_inp.weight", m.formats.router, n.experts, m.width);
    list.add(blk + "ffn_gate_exps.weight", m.formats.experts, n.hidden, m.width, n.experts);
    list.add(blk + "ffn_up_exps.weight", m.formats.experts, n.hidden, m.width, n.experts);
    list.add(blk + "ffn_down_exps.weight", m.formats.experts, m.width, n.hidden, n.experts);
    if (n.shared_hidden == 0) return;
    list.add(blk + "ffn_gate_shexp.weight", m.formats.shared, n.shared_hidden, m.width);
    list.add(blk + "ffn_up_shexp.weight", m.formats.shared, n.shared_hidden, m.width);
    list.add(blk + "ffn_down_shexp.weight", m.formats.shared, m.width, n.shared_hidden);
}

} // namespace detail

/// The tensors of a description, under the names that GGUF files use, as a checkpoint whose bytes cannot be read.
/// Throws parse_error where a shape does not fit its format.
///
///     tern::checkpoint file = tern::described_file(tern::read_description("model.json"));
template <class = void> checkpoint described_file(const model_description& m) {
    detail::tensor_list list(m);
    list.add("token_embd.weight", m.formats.embedding, m.vocabulary, m.width);
    for (std::size_t i = 0; i < m.layers.size(); ++i) {
        const std::string blk = "blk." + std::to_string(i) + ".";
        list.add(blk + "attn_norm.weight", m.formats.norm, 1, m.width);
        detail::list_attention(list, blk, m, m.attentions[m.layers[i].attention]);
        list.add(blk + "ffn_norm.weight", m.formats.norm, 1, m.width);
        detail::list_ffn(list, blk, m, m.ffns[m.layers[i].ffn]);
    }
    list.add("output_norm.weight", m.formats.norm, 1, m.width);
    if (!m.tied_output) list.add("output.weight", m.formats.output, m.vocabulary, m.width);
    return std::move(list).finish();
}

} // namespace tern
