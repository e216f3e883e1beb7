// Files for the tests of readers, and a system that misbehaves where a test asks for it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include <tern/memory/disk_system.hpp>
#include <tern/memory/file_handle.hpp>

#include "file/bytes.hpp"
#include "support/counting_source.hpp"

namespace tern::test {

/// The real system, with faults. Counts descriptors, and the shortest request.
struct faulty_system final : disk_system {
    std::size_t most = ~std::size_t{0};             ///< bytes that a request gives at most
    bool interrupts = false;                        ///< EINTR every other request
    int direct_error = 0;                           ///< what direct reads fail with
    int direct_open_error = 0;                      ///< what opening for them fails with
    std::size_t claims_alignment = ~std::size_t{0}; ///< what is needed for direct reads; ~0: the truth
    std::ptrdiff_t fails_at = -1;                   ///< the request that fails with EIO
    int ring_error = 0;
    std::function<void(std::size_t)> before{}; ///< told the number of a request whose result has come
    std::atomic<int> open_now{0};
    std::atomic<std::size_t> requests{0};
    std::atomic<std::size_t> shortest{~std::size_t{0}};

    int open(int descriptor, bool direct) noexcept override {
        if (direct && direct_open_error != 0) return -direct_open_error;
        const int opened = disk_system::open(descriptor, direct);
        if (opened >= 0) ++open_now;
        return opened;
    }
    void close(int descriptor) noexcept override {
        --open_now;
        disk_system::close(descriptor);
    }
    std::size_t alignment(int descriptor) noexcept override {
        return claims_alignment != ~std::size_t{0} ? claims_alignment : disk_system::alignment(descriptor);
    }
    std::ptrdiff_t completed(const read_request& r, std::ptrdiff_t result) noexcept override {
        const auto n = static_cast<std::ptrdiff_t>(requests.fetch_add(1));
        for (std::size_t seen = shortest; r.size < seen && !shortest.compare_exchange_weak(seen, r.size);) {}
        if (before) before(static_cast<std::size_t>(n));
        if (n == fails_at) return -EIO;
        if (interrupts && n % 2 == 0) return -EINTR;
        if (r.direct && direct_error != 0) return -direct_error;
        if (result > 0 && static_cast<std::size_t>(result) > most) {
            // As if the rest had not been read.
            std::fill(r.into + most, r.into + result, std::byte{0xEE});
            return static_cast<std::ptrdiff_t>(most);
        }
        return result;
    }
    int forbids_ring() noexcept override { return ring_error; }
};

/// A file of the pattern, and its source.
struct pattern_file {
    explicit pattern_file(std::size_t size) : path(write(folder, size)), source(path) {}
    static std::string write(temporary_folder& folder, std::size_t size) {
        const std::vector<std::byte> data = pattern_bytes(size);
        return folder.write("data", {reinterpret_cast<const char*>(data.data()), data.size()});
    }

    temporary_folder folder{};
    std::string path;
    file_source source;
};

/// Whether the file system of the tests' files does direct I/O.
inline bool is_direct(const byte_source& source) {
    const int opened = disk_system::real().open(source.descriptor(), true);
    if (opened < 0) return false;
    const std::size_t unit = disk_system::real().alignment(opened);
    disk_system::real().close(opened);
    return unit > 0 && unit <= 4096;
}

/// Zeroed memory of which the first byte has the alignment of a page.
class page_buffer {
public:
    explicit page_buffer(std::size_t size)
        : size_(size), data_(static_cast<std::byte*>(::operator new(size, std::align_val_t{4096}))) {
        std::fill_n(data_, size, std::byte{0});
    }
    page_buffer(const page_buffer&) = delete;
    page_buffer& operator=(const page_buffer&) = delete;
    ~page_buffer() { ::operator delete(data_, std::align_val_t{4096}); }
    std::byte* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

private:
    std::size_t size_;
    std::byte* data_;
};

} // namespace tern::test
