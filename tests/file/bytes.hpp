// Builds files byte by byte, and sources that behave badly.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/file/gguf_value.hpp>
#include <tern/memory/file_handle.hpp>

namespace tern::test {

/// Appends numbers and strings as GGUF and safetensors store them.
struct byte_builder {
    std::string out{};

    template <class T> byte_builder& number(T value) {
        out.append(reinterpret_cast<const char*>(&value), sizeof value);
        return *this;
    }
    byte_builder& raw(std::string_view bytes) {
        out += bytes;
        return *this;
    }
    byte_builder& string(std::string_view text) { return number<std::uint64_t>(text.size()).raw(text); }
    byte_builder& type(gguf_value_type t) { return number(static_cast<std::uint32_t>(t)); }
    byte_builder& key(std::string_view name, gguf_value_type t) { return string(name).type(t); }
    byte_builder& header(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
        return raw("GGUF").number(version).number(tensors).number(keys);
    }
    byte_builder& tensor(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type_id,
                         std::uint64_t offset) {
        string(name).number(static_cast<std::uint32_t>(dims.size()));
        for (const std::uint64_t dim : dims) number(dim);
        return number(type_id).number(offset);
    }
    byte_builder& pad(std::size_t alignment = 32) {
        out.resize((out.size() + alignment - 1) / alignment * alignment);
        return *this;
    }
    byte_builder& zeros(std::size_t count) {
        out.append(count, '\0');
        return *this;
    }
};

inline std::span<const std::byte> as_bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// A safetensors file from its JSON header and its data.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
    return byte_builder{}.string(header).raw(data).out;
}

/// Owns its bytes, and gives at most `most` of them a call. Counts reads and the bytes they gave.
class short_source final : public byte_source {
public:
    explicit short_source(std::string bytes, std::size_t most = ~std::size_t{0}, std::string name = "short")
        : bytes_(std::move(bytes)), most_(most), name_(std::move(name)) {}

    std::uint64_t size() const override { return claimed ? claimed : bytes_.size(); }
    const std::string& path() const noexcept override { return name_; }
    std::size_t read_some(std::uint64_t offset, std::span<std::byte> into) override {
        ++reads;
        if (offset >= bytes_.size()) return 0;
        const std::size_t count = std::min({into.size(), most_, bytes_.size() - static_cast<std::size_t>(offset)});
        std::copy_n(as_bytes_of(bytes_).begin() + static_cast<std::ptrdiff_t>(offset), count, into.begin());
        furthest = std::max(furthest, offset + count);
        return count;
    }

    std::uint64_t claimed = 0; ///< a size that is not true, where not 0
    std::uint64_t furthest = 0;
    int reads = 0;

private:
    std::string bytes_;
    std::size_t most_;
    std::string name_;
};

/// Opens from a list of named byte strings; an unknown path is a missing file.
struct open_memory {
    std::vector<std::pair<std::string, std::string>> files{};

    std::unique_ptr<byte_source> operator()(const std::string& path) const {
        for (const auto& [name, bytes] : files)
            if (name == path) return std::make_unique<short_source>(bytes, 4097, name);
        throw io_error("cannot open: no such file", {path, {}, {}, {}});
    }
};

/// A folder of its own below the system's place for temporary files, removed with what is in it.
class temporary_folder {
public:
    temporary_folder() {
        const char* place = std::getenv("TMPDIR");
        path_ = std::string(place && *place ? place : "/tmp") + "/tern-test-XXXXXX";
        if (!::mkdtemp(path_.data())) throw io_error("cannot make a folder", {path_, {}, {}, {}});
    }
    temporary_folder(const temporary_folder&) = delete;
    temporary_folder& operator=(const temporary_folder&) = delete;
    ~temporary_folder() {
        for (const std::string& file : files_) std::remove(file.c_str());
        ::rmdir(path_.c_str());
    }
    /// A path in the folder, to be removed at the end.
    std::string operator/(const std::string& name) {
        files_.push_back(path_ + "/" + name);
        return files_.back();
    }
    /// A file with these bytes.
    std::string write(const std::string& name, std::string_view bytes) {
        const std::string path = *this / name;
        std::FILE* file = std::fopen(path.c_str(), "wb");
        if (!file || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() || std::fclose(file) != 0)
            throw io_error("cannot write", {path, {}, {}, {}});
        return path;
    }
    const std::string& path() const noexcept { return path_; }

private:
    std::string path_;
    std::vector<std::string> files_{};
};

/// Runs `f`, which must throw an E and nothing else, and gives what it says.
template <class E, class F> std::string message_of(F&& f) {
    try {
        f();
    } catch (const E& e) { return e.what(); }
    return "no error";
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

} // namespace tern::test
