// Writes GGUF version 3: declare metadata and tensors, then write the data of each tensor in that order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/base/checked.hpp>
#include <tern/base/error.hpp>
#include <tern/file/byte_sink.hpp>
#include <tern/file/gguf_value.hpp>
#include <tern/file/metadata.hpp>
#include <tern/format/gguf_types.hpp>

namespace tern {

namespace detail {

/// Appends numbers and strings as GGUF stores them.
struct gguf_encoder {
    std::vector<std::byte> out{};

    void raw(std::span<const std::byte> bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }
    template <class T> void number(T value) { raw(std::as_bytes(std::span(&value, 1))); }
    void string(std::string_view text) {
        number<std::uint64_t>(text.size());
        raw(std::as_bytes(std::span(text)));
    }
    void array(const gguf_array& value) {
        number(static_cast<std::uint32_t>(value.element));
        number<std::uint64_t>(value.size());
        raw(value.packed);
        for (const std::string& text : value.strings) string(text);
        for (const gguf_array& inner : value.arrays) array(inner);
    }
    void value(const gguf_value& v) {
        number(static_cast<std::uint32_t>(v.type()));
        if (v.type() == gguf_value_type::string)
            string(v.as<std::string_view>());
        else if (v.type() == gguf_value_type::array)
            array(v.array());
        else
            raw(v.packed());
    }
};

} // namespace detail

/// Streams a GGUF file into a sink. Holds metadata and tensor infos, never tensor data. The sink must outlive it.
///
///     tern::file_sink sink("tiny.gguf");
///     tern::gguf_writer writer(sink);
///     writer.set("general.architecture", "llama");
///     writer.add("token_embd.weight", {512, 64}, "f32");
///     writer.write("token_embd.weight", std::as_bytes(std::span(values)));
///     writer.finish();
///     sink.commit();
class gguf_writer {
public:
    /// `alignment` of tensor data: a power of two from 8 to 2 MiB; throws config_error.
    explicit gguf_writer(byte_sink& sink, std::uint32_t alignment = 32) : sink_(sink), alignment_(alignment) {
        if (alignment < 8 || alignment > (1u << 21) || (alignment & (alignment - 1)) != 0)
            throw config_error("an alignment of " + std::to_string(alignment) +
                               " is not a power of two from 8 to 2097152");
        if (alignment != 32) entries_.push_back({"general.alignment", gguf_value(alignment)});
    }

    /// Declares a metadata value: a number (stored with its own type: write std::uint32_t{5} for a uint32), a bool, a
    /// string, a range of these, a gguf_value. Throws config_error for a key that is empty, too long, or there already.
    template <class T> void set(std::string key, const T& value) {
        if constexpr (std::is_same_v<T, gguf_value> || std::is_same_v<T, gguf_array> || std::is_arithmetic_v<T>)
            declare(std::move(key), gguf_value(value));
        else if constexpr (std::is_convertible_v<const T&, std::string_view>)
            declare(std::move(key), gguf_value(std::string(std::string_view(value))));
        else
            declare(std::move(key), gguf_value(make_gguf_array(value)));
    }

    /// Declares a tensor, shape outermost first as in stored_tensor (at most 4 dimensions), format by name. Throws
    /// shape_error and config_error.
    void add(std::string name, std::vector<std::uint64_t> shape, std::string_view format) {
        require_open(name);
        const gguf_type_info* found = std::find_if(std::begin(gguf_types), std::end(gguf_types),
                                                   [&](const gguf_type_info& type) { return type.name == format; });
        if (found == std::end(gguf_types))
            throw config_error("the format \"" + std::string(format) + "\" is none of GGUF", {{}, name, {}, {}});
        if (name.empty() || find(name) != infos_.size())
            throw config_error(name.empty() ? "a tensor needs a name" : "is declared twice", {{}, name, {}, {}});
        if (shape.size() > 4) throw shape_error("has more than 4 dimensions", {{}, name, {}, {}});
        std::reverse(shape.begin(), shape.end());
        const std::uint64_t row = shape.empty() ? 1 : shape[0];
        if (row % found->block_size != 0)
            throw shape_error("its row length " + std::to_string(row) + " is not a multiple of " +
                                  std::to_string(found->block_size) + ", the block size of " + std::string(format),
                              {{}, name, {}, {}});
        std::uint64_t size = checked_mul<std::uint64_t>(row / found->block_size, found->block_bytes, "a tensor's size");
        for (std::size_t d = 1; d < shape.size(); ++d) size = checked_mul(size, shape[d], "a tensor's size");
        const std::uint64_t offset = end_;
        end_ = checked_add(end_, size, "the size of the file");
        end_ = checked_add(end_, padding(end_), "the size of the file");
        infos_.push_back({std::move(name), std::move(shape), found->id, offset, size});
    }

    /// Writes data of a tensor, all at once or in pieces. Tensors must come in the order of their declaration, each
    /// whole before the next; throws shape_error otherwise. The first call writes the header.
    void write(std::string_view name, std::span<const std::byte> data) {
        if (finished_) throw config_error("the file is finished", {sink_.path(), std::string(name), {}, {}});
        begin();
        if (data.empty()) return;
        skip_empty();
        if (next_ == infos_.size() || infos_[next_].name != name)
            throw shape_error(next_ == infos_.size() ? "comes after all declared tensors were written"
                                                     : "comes before \"" + infos_[next_].name + "\" is whole",
                              {sink_.path(), std::string(name), {}, {}});
        const std::uint64_t room = infos_[next_].bytes - filled_;
        if (data.size() > room)
            throw shape_error("gets more data than its shape has",
                              {sink_.path(), std::string(name), data.size(), room});
        sink_.write(data);
        filled_ += data.size();
        if (filled_ == infos_[next_].bytes) close_tensor();
    }

    /// Ends the file; throws shape_error where a tensor lacks data. The sink still wants its commit.
    void finish() {
        begin();
        skip_empty();
        if (next_ != infos_.size())
            throw shape_error("lacks data", {sink_.path(), infos_[next_].name, infos_[next_].bytes, filled_});
        finished_ = true;
    }

private:
    struct info {
        std::string name;
        std::vector<std::uint64_t> dims;
        std::uint32_t type;
        std::uint64_t offset;
        std::uint64_t bytes;
    };

    std::uint64_t padding(std::uint64_t at) const noexcept { return (alignment_ - at % alignment_) % alignment_; }
    std::size_t find(std::string_view name) const noexcept {
        std::size_t i = 0;
        while (i < infos_.size() && infos_[i].name != name) ++i;
        return i;
    }
    void require_open(const std::string& what) const {
        if (begun_)
            throw config_error("\"" + what + "\" is declared after the first data was written",
                               {sink_.path(), {}, {}, {}});
    }
    void declare(std::string key, gguf_value value) {
        require_open(key);
        if (key.empty() || key.size() > 65535) throw config_error("a metadata key has 1 to 65535 bytes");
        const bool there = std::any_of(entries_.begin(), entries_.end(), [&](auto& e) { return e.key == key; });
        if (there || key == "general.alignment")
            throw config_error("the metadata key \"" + key + "\" is there already", {sink_.path(), {}, {}, {}});
        entries_.push_back({std::move(key), std::move(value)});
    }
    void pad(std::uint64_t at) {
        const std::vector<std::byte> zeros(static_cast<std::size_t>(padding(at)));
        sink_.write(zeros);
    }
    void close_tensor() {
        pad(infos_[next_].bytes);
        ++next_;
        filled_ = 0;
    }
    void skip_empty() {
        while (next_ < infos_.size() && infos_[next_].bytes == 0) ++next_;
    }
    void begin() {
        if (begun_) return;
        begun_ = true;
        detail::gguf_encoder header;
        header.raw(std::as_bytes(std::span("GGUF", 4)));
        header.number<std::uint32_t>(3);
        header.number<std::uint64_t>(infos_.size());
        header.number<std::uint64_t>(entries_.size());
        for (const metadata_entry& entry : entries_) {
            header.string(entry.key);
            header.value(entry.value);
        }
        for (const info& tensor : infos_) {
            header.string(tensor.name);
            header.number(static_cast<std::uint32_t>(tensor.dims.size()));
            for (const std::uint64_t dim : tensor.dims) header.number(dim);
            header.number(tensor.type);
            header.number(tensor.offset);
        }
        sink_.write(header.out);
        pad(header.out.size());
    }

    byte_sink& sink_;
    std::uint32_t alignment_;
    std::vector<metadata_entry> entries_{};
    std::vector<info> infos_{};
    std::uint64_t end_ = 0;
    std::size_t next_ = 0;
    std::uint64_t filled_ = 0;
    bool begun_ = false;
    bool finished_ = false;
};

} // namespace tern
