// From a model file to tensors: finds stored tensors by name, checks their shapes, and gives their slices to the
// residency store. No weight is read, but for what `numbers` gives.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tern/format/formats.hpp>
#include <tern/model/config.hpp>
#include <tern/model/read_floats.hpp>
#include <tern/tensor/tensor.hpp>
#include <tern/transfer/prefetched.hpp>

namespace tern {

class checkpoint; // file/checkpoint.hpp: only those who open files include it

/// The weight of the ready-made decoders: any format that tern brings, in any memory, moved in chunks of a mebibyte,
/// and brought up to sixteen tensors before its use where it streams.
using any_weight = tensor<all_formats, tiers<vram, pinned, pageable, mapped, direct>, prefetched<16>>;

/// Makes the tensors of one model. A transfer that repacks a stored format makes the tensor one of the other format.
/// The file and the store must outlive them.
///
///     tern::weights<tern::any_weight> from(file, store);
///     auto q = from.matrix("blk.0.attn_q.weight", heads * head_dim, width);
template <weight_tensor Weight, class File = checkpoint> class weights {
public:
    weights(const File& file, lender& store) : file_(file), store_(store) {}

    const File& file() const noexcept { return file_; }
    bool has(std::string_view name) const noexcept { return file_.find(name) != nullptr; }

    /// A stored tensor of shape [rows, cols]. Throws parse_error with file and tensor where it is missing or of another
    /// shape, unsupported_error where the weight's type does not list its format.
    Weight matrix(const std::string& name, std::size_t rows, std::size_t cols) { return make(name, {rows, cols, 1}); }

    /// A stored tensor of `size` numbers, as one row.
    Weight vector(const std::string& name, std::size_t size) { return make(name, {1, size, 1}); }

    /// The same, or an empty tensor where the file has none of this name.
    Weight optional_vector(const std::string& name, std::size_t size) {
        return has(name) ? vector(name, size) : Weight{};
    }

    /// A packed tensor of shape [experts, rows, cols]; each expert is a slice.
    Weight experts(const std::string& name, std::size_t experts, std::size_t rows, std::size_t cols) {
        return make(name, {rows, cols, experts});
    }

    /// A stored tensor of shape [experts, size], a row for each expert; each is a slice.
    Weight expert_vectors(const std::string& name, std::size_t experts, std::size_t size) {
        return make(name, {1, size, experts});
    }

    /// The numbers of a small stored tensor, read now, for what operators take as plain numbers. Throws parse_error
    /// with file and tensor where it is missing, of another size, or holds what is no finite number.
    std::vector<float> numbers(const std::string& name, std::size_t size) {
        std::vector<float> values = detail::read_floats(file_, file_.at(name), size);
        used_.push_back(name);
        return values;
    }

    /// Throws unsupported_error for a stored tensor that nobody asked for: a decoder that leaves one out would compute
    /// something else than the model. `except` names one that was read by other means.
    void check_all_used(std::string_view except = {}) const {
        for (const auto& stored : file_.tensors()) {
            bool known = stored.name == except;
            for (const std::string& name : used_) known = known || name == stored.name;
            if (!known)
                throw unsupported_error(
                    "is not used by the decoder for this architecture, whose results would be wrong",
                    {.path = file_.path(), .tensor = stored.name});
        }
    }

private:
    Weight make(const std::string& name, const tensor_shape& shape) {
        const auto& stored = file_.at(name);
        const error_context where{.path = file_.path(), .tensor = name};
        if (!fits(stored, shape))
            throw parse_error("has shape " + shape_of(stored) + ", expected " + to_string(shape), where);
        using transfer = typename Weight::transfer_type;
        const std::string_view arriving = arrives_as<transfer>(stored.format);
        const std::size_t format = Weight::formats_type::index_of_name(arriving);
        if (format == Weight::formats_type::size)
            throw unsupported_error(
                "is stored as " + std::string(stored.format) + ", which this decoder's weights do not list", where);
        used_.push_back(name);
        const bool repacked = arriving != std::string_view(stored.format);
        const std::byte* memory = nullptr;
        if constexpr (Weight::tiers_type::template contains<mapped>)
            if (!repacked) memory = file_.mapped(stored).data();
        const bytes size{stored.bytes / shape.experts};
        slice_id first = 0;
        for (std::size_t e = 0; e < shape.experts; ++e) {
            const std::uint64_t begin = e * size.count;
            backing from{.file = &file_.source(stored.shard),
                         .offset = stored.offset + begin,
                         .memory = memory != nullptr ? memory + begin : nullptr};
            if (repacked) {
                from.stored = size;
                from.format = stored.format;
            }
            const slice_id id = store_.add(shape.experts == 1 ? name : name + "[" + std::to_string(e) + "]", from,
                                           arrival_size<transfer>(stored.format, size));
            if (e == 0) first = id;
        }
        return Weight(store_, first, format, shape, name);
    }

    /// Leading dimensions of 1 do not count: a vector may be stored with or without one; nor do rows of 1 for each
    /// expert.
    static bool fits(const auto& stored, const tensor_shape& shape) {
        const std::uint64_t wanted[3] = {shape.experts, shape.rows, shape.cols};
        std::uint64_t found[3] = {1, 1, 1};
        if (stored.shape.size() > 3) return false;
        for (std::size_t i = 0; i < stored.shape.size(); ++i) found[3 - stored.shape.size() + i] = stored.shape[i];
        if (shape.rows == 1 && shape.experts != 1 && found[0] == 1) std::swap(found[0], found[1]);
        return found[0] == wanted[0] && found[1] == wanted[1] && found[2] == wanted[2] && stored.bytes != 0;
    }

    static std::string shape_of(const auto& stored) {
        std::string text;
        for (const std::uint64_t n : stored.shape) text += (text.empty() ? "[" : ", ") + std::to_string(n);
        return text.empty() ? "[]" : text + "]";
    }

    const File& file_;
    lender& store_;
    std::vector<std::string> used_;
};

} // namespace tern
