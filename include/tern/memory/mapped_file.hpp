// A whole file mapped read-only into memory.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/memory/file_handle.hpp>

namespace tern {

/// How a mapping will be read; a hint to the operating system.
enum class access_pattern { normal, random, sequential, will_need };

namespace detail {

inline void advise_pages(std::span<const std::byte> part, int advice) noexcept {
    if (part.empty()) return;
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<std::uintptr_t>(part.data());
    const std::uintptr_t first = begin - begin % page;
    ::posix_madvise(reinterpret_cast<void*>(first), begin + part.size() - first, advice);
}

} // namespace detail

/// Tells the system that mapped bytes will be read soon, so that it begins to bring them. A hint.
inline void will_need(std::span<const std::byte> part) noexcept { detail::advise_pages(part, POSIX_MADV_WILLNEED); }

/// Owns a read-only private mapping of a whole file. An empty file gives an empty span. Pages are read when touched.
/// Requires that nobody shortens the file while it is mapped: touching a page past the new end raises SIGBUS, and no
/// library can turn that into an error. Where that may happen, read through a byte_source instead. Move-only.
///
///     tern::mapped_file map(tern::file_source("model.gguf"));
class mapped_file {
public:
    /// Maps the source's file; the source may be closed afterwards. Throws io_error, and unsupported_error where the
    /// source is no file.
    explicit mapped_file(const byte_source& source) {
        if (source.descriptor() < 0)
            throw unsupported_error("cannot be mapped, it is no file; read it instead", {source.path(), {}, {}, {}});
        const std::uint64_t size = source.size();
        if (size == 0) return;
        if (size > std::numeric_limits<std::size_t>::max())
            throw io_error("is too large to map", {source.path(), {}, size, std::numeric_limits<std::size_t>::max()});
        struct stat status {};
        if (::fstat(source.descriptor(), &status) != 0 || static_cast<std::uint64_t>(status.st_size) < size)
            throw io_error("was shortened since it was opened",
                           {source.path(), {}, size, static_cast<std::uint64_t>(status.st_size)});
        void* at = ::mmap(nullptr, static_cast<std::size_t>(size), PROT_READ, MAP_PRIVATE, source.descriptor(), 0);
        if (at == MAP_FAILED)
            throw io_error(std::string("cannot map: ") + std::strerror(errno), {source.path(), {}, size, {}});
        bytes_ = {static_cast<const std::byte*>(at), static_cast<std::size_t>(size)};
    }
    mapped_file(mapped_file&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
    mapped_file& operator=(mapped_file&& other) noexcept {
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~mapped_file() {
        if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    }

    /// The file's bytes, valid as long as this object (a move keeps them).
    std::span<const std::byte> bytes() const noexcept { return bytes_; }

    /// Says how the bytes will be read. A hint: what the system does not support is ignored.
    void advise(access_pattern pattern) const noexcept { advise(pattern, 0, bytes_.size()); }
    /// The same for a part of the file, which is clipped to it.
    void advise(access_pattern pattern, std::size_t offset, std::size_t length) const noexcept {
        if (offset >= bytes_.size() || length == 0) return;
        if (length > bytes_.size() - offset) length = bytes_.size() - offset;
        const int advice = pattern == access_pattern::random       ? POSIX_MADV_RANDOM
                           : pattern == access_pattern::sequential ? POSIX_MADV_SEQUENTIAL
                           : pattern == access_pattern::will_need  ? POSIX_MADV_WILLNEED
                                                                   : POSIX_MADV_NORMAL;
        detail::advise_pages(bytes_.subspan(offset, length), advice);
    }

private:
    std::span<const std::byte> bytes_{};
};

} // namespace tern
