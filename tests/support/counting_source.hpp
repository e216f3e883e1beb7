// Bytes in memory that count how they are read, come in short pieces, and fail where a test asks for it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/memory/file_handle.hpp>

namespace tern::test {

/// Byte i of every test's data: no short period, so that a chunk in the wrong place shows.
inline std::byte pattern(std::uint64_t i) { return static_cast<std::byte>((i * 2654435761u >> 7) ^ i); }

inline std::vector<std::byte> pattern_bytes(std::size_t n) {
    std::vector<std::byte> data(n);
    for (std::size_t i = 0; i < n; ++i) data[i] = pattern(i);
    return data;
}

class counting_source : public byte_source {
public:
    explicit counting_source(std::size_t n, std::size_t longest = std::numeric_limits<std::size_t>::max())
        : data(pattern_bytes(n)), longest_(longest) {}

    std::uint64_t size() const override { return data.size(); }
    const std::string& path() const noexcept override { return name_; }
    std::size_t read_some(std::uint64_t offset, std::span<std::byte> into) override {
        ++reads;
        if (on_read != nullptr) on_read(*this, offset);
        if (offset + into.size() > fails_from) throw io_error("the disk is broken", {.path = name_});
        if (offset >= data.size()) return 0;
        const std::size_t n = std::min({into.size(), longest_, data.size() - static_cast<std::size_t>(offset)});
        std::memcpy(into.data(), data.data() + offset, n);
        bytes_read += n;
        return n;
    }

    std::vector<std::byte> data;
    std::atomic<std::size_t> reads{0};
    std::atomic<std::uint64_t> bytes_read{0};
    std::uint64_t fails_from = std::numeric_limits<std::uint64_t>::max(); ///< a read past this offset throws io_error
    void (*on_read)(counting_source&, std::uint64_t offset) = nullptr;
    void* context = nullptr; ///< for on_read

private:
    std::size_t longest_;
    std::string name_ = "broken.bin";
};

} // namespace tern::test
