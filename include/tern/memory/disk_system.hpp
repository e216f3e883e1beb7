// The system calls of the readers of files, behind a seam.
#pragma once

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tern/base/config.hpp>

namespace tern {

/// One request to the system: `size` bytes at `offset` of a descriptor. The first `skip` of them nobody asked for.
struct read_request {
    int descriptor = -1;
    bool direct = false;  ///< past the page cache: address, offset and size are aligned
    bool bounced = false; ///< into the reader's own buffer, to be copied from there
    std::byte* into = nullptr;
    std::uint64_t offset = 0;
    std::size_t size = 0;
    std::size_t skip = 0;
};

/// What the readers ask of the operating system. Tests derive from it to stand between; its functions do not throw, and
/// give the negative of an errno where the system fails. Safe from several threads.
class disk_system {
public:
    struct file_state {
        std::uint64_t device = 0;
        std::uint64_t number = 0; ///< the inode
        std::uint64_t size = 0;
    };

    virtual ~disk_system() = default;

    /// Opens the file of a descriptor again, for a file description with flags of its own.
    virtual int open(int descriptor, bool direct) noexcept {
        char path[32] = "/proc/self/fd/";
        std::to_chars(path + std::strlen(path), std::end(path) - 1, descriptor);
        int opened = -1;
        do {
            opened = ::open(path, O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0));
        } while (opened < 0 && errno == EINTR);
        // Without /proc, or without the permission that the descriptor was opened with: the same description again.
        if (opened < 0 && !direct) opened = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
        return opened < 0 ? -errno : opened;
    }
    virtual void close(int descriptor) noexcept { ::close(descriptor); }
    /// What addresses and offsets of direct reads must be multiples of; 0: the file cannot be read directly.
    virtual std::size_t alignment(int descriptor) noexcept {
#ifdef STATX_DIOALIGN
        struct statx known {};
        if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &known) == 0 &&
            (known.stx_mask & STATX_DIOALIGN) != 0)
            return known.stx_dio_offset_align == 0
                       ? 0
                       : std::max<std::size_t>({known.stx_dio_mem_align, known.stx_dio_offset_align, 512});
#endif
        static_cast<void>(descriptor);
        return 4096;
    }
    /// Which file a descriptor is of, and how long that is now; all 0 where the system does not say.
    virtual file_state state(int descriptor) noexcept {
        struct stat now {};
        if (::fstat(descriptor, &now) != 0) return {};
        return {now.st_dev, now.st_ino, static_cast<std::uint64_t>(now.st_size)};
    }
    virtual std::ptrdiff_t pread(const read_request& r) noexcept {
        const ssize_t got = ::pread(r.descriptor, r.into, r.size, static_cast<off_t>(r.offset));
        return got < 0 ? -errno : got;
    }
    /// Sees the result of each request, by pread or by io_uring, and may give another: for tests.
    virtual std::ptrdiff_t completed(const read_request&, std::ptrdiff_t result) noexcept { return result; }
    /// 0, or an errno for which no ring is to be made: for tests.
    virtual int forbids_ring() noexcept { return 0; }

    static disk_system& real() {
        static disk_system system;
        return system;
    }
};

} // namespace tern
