// Reads forward through a byte_source, and believes no length before it is held against the file and a limit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/base/checked.hpp>
#include <tern/base/error.hpp>
#include <tern/file/gguf_value.hpp>
#include <tern/memory/file_handle.hpp>

namespace tern {

/// What the reader accepts. Real files stay far below; a file that asks for more is refused before memory is taken.
struct gguf_limits {
    std::uint64_t key_length = 65535;
    std::uint64_t name_length = 65535;
    std::uint64_t metadata_bytes = std::uint64_t{1} << 30; ///< memory for all metadata and tensor infos of one file
    std::uint32_t array_depth = 8;                         ///< arrays in arrays
    std::uint32_t min_alignment = 8;                       ///< GGUF asks for a multiple of 8; here a power of two too
    std::uint32_t max_alignment = 1u << 21;
};

namespace detail {

/// Reads forward through a small buffer. Each length is held against what is left of the file before it is believed.
class gguf_cursor {
public:
    gguf_cursor(byte_source& source, const gguf_limits& limits)
        : source_(source), limits_(limits), size_(source.size()) {}

    std::uint64_t position() const noexcept { return position_; }
    std::uint64_t remaining() const noexcept { return size_ - position_; }

    [[noreturn]] void fail(std::string_view what, std::string tensor = {}) const {
        throw parse_error(std::string(what) + ", at byte " + std::to_string(position_),
                          {source_.path(), std::move(tensor), {}, {}});
    }
    /// Throws unless `count` items of at least `each` bytes can still follow.
    void expect(std::uint64_t count, std::uint64_t each, std::string_view what) const {
        if (count <= remaining() / each) return;
        const auto total = try_mul(count, each);
        throw parse_error(std::string(what) + " at byte " + std::to_string(position_) +
                              " is longer than the rest of the file: it is cut or damaged, fetch it again",
                          {source_.path(), {}, total, remaining()});
    }
    /// Counts memory about to be taken against the limit.
    void charge(std::uint64_t bytes) {
        charged_ = try_add(charged_, bytes).value_or(~std::uint64_t{0});
        if (charged_ > limits_.metadata_bytes)
            throw parse_error("its metadata is too large", {source_.path(), {}, charged_, limits_.metadata_bytes});
    }
    void read(std::span<std::byte> into, std::string_view what) {
        if (into.empty()) return;
        expect(into.size(), 1, what);
        for (std::size_t done = 0; done < into.size();) {
            if (position_ < start_ || position_ >= start_ + buffer_.size()) refill();
            const auto from = static_cast<std::size_t>(position_ - start_);
            const std::size_t count = std::min(into.size() - done, buffer_.size() - from);
            std::memcpy(into.data() + done, buffer_.data() + from, count);
            done += count;
            position_ += count;
        }
    }
    template <class T> T number(std::string_view what) {
        std::byte raw[sizeof(T)];
        read(raw, what);
        return load<T>(raw);
    }
    std::string string(std::uint64_t limit, std::string_view what) {
        const auto length = number<std::uint64_t>(what);
        expect(length, 1, what);
        if (length > limit) fail(std::string(what) + " has a length of " + std::to_string(length) + " bytes");
        charge(sizeof(std::string) + length);
        std::string text(static_cast<std::size_t>(length), '\0');
        read(std::as_writable_bytes(std::span(text)), what);
        return text;
    }

private:
    void refill() {
        constexpr std::uint64_t window = 1u << 16;
        buffer_.resize(static_cast<std::size_t>(std::min(window, remaining())));
        start_ = position_;
        read_exact(source_, start_, buffer_);
    }

    byte_source& source_;
    const gguf_limits& limits_;
    std::uint64_t size_;
    std::uint64_t position_ = 0;
    std::uint64_t start_ = 0;
    std::uint64_t charged_ = 0;
    std::vector<std::byte> buffer_{};
};

} // namespace detail

} // namespace tern
