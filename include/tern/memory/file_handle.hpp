// Where bytes come from: the abstract byte_source, reads that loop over short ones, and a regular file.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tern/base/error.hpp>

namespace tern {

/// Bytes at offsets: a file, memory, or whatever a user derives from it. Readers of files see only this.
/// `read_some` must be safe to call from several threads at once where the source is shared between threads.
class byte_source {
public:
    byte_source() = default;
    byte_source(const byte_source&) = delete;
    byte_source& operator=(const byte_source&) = delete;
    virtual ~byte_source() = default;

    /// Length in bytes.
    virtual std::uint64_t size() const = 0;
    /// Reads at most `into.size()` bytes at `offset`; returns how many, which may be fewer. 0 means the end.
    virtual std::size_t read_some(std::uint64_t offset, std::span<std::byte> into) = 0;
    /// Name for messages; for a file, its path.
    virtual const std::string& path() const noexcept = 0;

    /// A POSIX descriptor of a regular file with exactly these bytes, to be mapped or read by other means; -1: none.
    virtual int descriptor() const noexcept { return -1; }
    /// The bytes where they lie in memory already; empty otherwise.
    virtual std::span<const std::byte> resident() const noexcept { return {}; }

protected:
    byte_source(byte_source&&) = default;
    byte_source& operator=(byte_source&&) = default;
};

/// Fills `into` from `offset`, over as many short reads as it takes. Throws io_error (path, needed, available) when the
/// source ends first.
///
///     std::vector<std::byte> raw(64);
///     tern::read_exact(file, 128, raw);
inline void read_exact(byte_source& source, std::uint64_t offset, std::span<std::byte> into) {
    const std::uint64_t size = source.size();
    const std::uint64_t available = offset < size ? size - offset : 0;
    if (into.size() > available)
        throw io_error("a read at byte " + std::to_string(offset) + " goes past the end of the file",
                       {source.path(), {}, into.size(), available});
    for (std::size_t done = 0; done < into.size();) {
        const std::size_t got = source.read_some(offset + done, into.subspan(done));
        if (got == 0 || got > into.size() - done)
            throw io_error("the file ended while it was read, at byte " + std::to_string(offset + done) +
                               "; was it shortened meanwhile?",
                           {source.path(), {}, into.size(), done});
        done += got;
    }
}

/// Bytes in memory as a source; they must outlive it. For models embedded in a program, and for tests.
class memory_source final : public byte_source {
public:
    explicit memory_source(std::span<const std::byte> bytes, std::string name = "memory")
        : bytes_(bytes), name_(std::move(name)) {}

    std::uint64_t size() const override { return bytes_.size(); }
    const std::string& path() const noexcept override { return name_; }
    std::span<const std::byte> resident() const noexcept override { return bytes_; }
    std::size_t read_some(std::uint64_t offset, std::span<std::byte> into) override {
        if (offset >= bytes_.size() || into.empty()) return 0;
        const auto from = bytes_.subspan(static_cast<std::size_t>(offset));
        const std::size_t count = std::min(from.size(), into.size());
        std::memcpy(into.data(), from.data(), count);
        return count;
    }

private:
    std::span<const std::byte> bytes_;
    std::string name_;
};

/// A regular file, open for reading. Reads carry their offset, so threads may share one. Move-only. It is not named
/// file_handle because the C library has that name.
///
///     tern::file_source file("model.gguf");
class file_source final : public byte_source {
public:
    /// Opens read-only and closed-on-exec. Throws io_error when that fails, or when the path is no regular file:
    /// a directory, a FIFO or a device has no length to check sizes against.
    explicit file_source(std::string path) : path_(std::move(path)) {
        if (path_.find('\0') != path_.npos) throw io_error("cannot open a path that contains a zero byte");
        do {
            // O_NONBLOCK: to open a FIFO must not wait for its writer.
            fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        } while (fd_ < 0 && errno == EINTR);
        if (fd_ < 0) throw io_error(std::string("cannot open: ") + std::strerror(errno), {path_, {}, {}, {}});
        struct stat status {};
        const int failed = ::fstat(fd_, &status) == 0 ? 0 : errno;
        if (failed == 0 && S_ISREG(status.st_mode)) {
            size_ = static_cast<std::uint64_t>(status.st_size);
            return;
        }
        ::close(fd_);
        if (failed != 0) throw io_error(std::string("cannot stat: ") + std::strerror(failed), {path_, {}, {}, {}});
        const char* kind = S_ISDIR(status.st_mode) ? "a directory" : S_ISFIFO(status.st_mode) ? "a FIFO" : "a device";
        throw io_error(std::string("is ") + kind + ", not a regular file", {path_, {}, {}, {}});
    }
    file_source(file_source&& other) noexcept
        : path_(std::move(other.path_)), size_(std::exchange(other.size_, 0)), fd_(std::exchange(other.fd_, -1)) {}
    file_source& operator=(file_source&& other) noexcept {
        std::swap(path_, other.path_);
        std::swap(size_, other.size_);
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~file_source() override {
        if (fd_ >= 0) ::close(fd_);
    }

    /// Length when it was opened.
    std::uint64_t size() const override { return size_; }
    const std::string& path() const noexcept override { return path_; }
    int descriptor() const noexcept override { return fd_; }

    std::size_t read_some(std::uint64_t offset, std::span<std::byte> into) override {
        if (fd_ < 0) throw io_error("this file handle was moved from");
        if (offset > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) return 0;
        // Linux reads at most about 2 GiB a call, other systems refuse more.
        const std::size_t count = std::min<std::size_t>(into.size(), std::size_t{1} << 30);
        ssize_t got;
        do { got = ::pread(fd_, into.data(), count, static_cast<off_t>(offset)); } while (got < 0 && errno == EINTR);
        if (got < 0)
            throw io_error("cannot read at byte " + std::to_string(offset) + ": " + std::strerror(errno),
                           {path_, {}, into.size(), {}});
        return static_cast<std::size_t>(got);
    }

private:
    std::string path_;
    std::uint64_t size_ = 0;
    int fd_ = -1;
};

} // namespace tern
