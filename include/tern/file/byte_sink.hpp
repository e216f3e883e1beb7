// Where bytes go: memory, or a file that appears under its name only when it is whole.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <tern/base/error.hpp>

namespace tern {

/// Takes bytes in order. Throws io_error when they cannot be stored.
class byte_sink {
public:
    byte_sink() = default;
    byte_sink(const byte_sink&) = delete;
    byte_sink& operator=(const byte_sink&) = delete;
    virtual ~byte_sink() = default;

    virtual void write(std::span<const std::byte> bytes) = 0;
    /// Name for messages; for a file, its path.
    virtual const std::string& path() const noexcept = 0;
};

/// Collects bytes in memory.
class memory_sink final : public byte_sink {
public:
    void write(std::span<const std::byte> bytes) override { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
    const std::string& path() const noexcept override { return name_; }
    const std::vector<std::byte>& bytes() const noexcept { return bytes_; }

private:
    std::vector<std::byte> bytes_{};
    std::string name_ = "memory";
};

/// Writes "path.part" and renames it to `path` in `commit()`. Without a commit the part is removed and a file that was
/// at `path` stays as it was.
///
///     tern::file_sink sink("model.gguf");
class file_sink final : public byte_sink {
public:
    explicit file_sink(std::string path) : path_(std::move(path)), part_(path_ + ".part") {
        fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (fd_ < 0) throw io_error(std::string("cannot create: ") + std::strerror(errno), {part_, {}, {}, {}});
    }
    ~file_sink() override {
        if (fd_ < 0) return;
        ::close(fd_);
        ::unlink(part_.c_str());
    }

    const std::string& path() const noexcept override { return path_; }

    void write(std::span<const std::byte> bytes) override {
        if (fd_ < 0) throw io_error("was committed already", {path_, {}, {}, {}});
        while (!bytes.empty()) {
            const ssize_t done = ::write(fd_, bytes.data(), std::min<std::size_t>(bytes.size(), std::size_t{1} << 30));
            if (done < 0 && errno == EINTR) continue;
            if (done < 0)
                throw io_error(std::string("cannot write: ") + std::strerror(errno), {part_, {}, bytes.size(), {}});
            bytes = bytes.subspan(static_cast<std::size_t>(done));
        }
    }

    /// Makes the file appear under its name. Throws io_error.
    void commit() {
        if (fd_ < 0) throw io_error("was committed already", {path_, {}, {}, {}});
        const int fd = std::exchange(fd_, -1);
        // Quota and delayed errors of network file systems show here.
        if (::close(fd) != 0 || std::rename(part_.c_str(), path_.c_str()) != 0) {
            const std::string reason = std::strerror(errno);
            ::unlink(part_.c_str());
            throw io_error("cannot finish: " + reason, {path_, {}, {}, {}});
        }
    }

private:
    std::string path_;
    std::string part_;
    int fd_ = -1;
};

} // namespace tern
