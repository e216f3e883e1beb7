// A lease: a pinned view of a slice's bytes with a release hook. While it is held the bytes neither move nor go away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <tern/async/task.hpp>
#include <tern/base/error.hpp>
#include <tern/device/device.hpp>
#include <tern/transfer/request.hpp>

namespace tern {

/// Names a slice (a tensor, or one expert of a packed tensor) within its lender.
using slice_id = std::uint32_t;

class lender;

/// Bytes of one slice that the device it was lent to may read. Gives itself back. The lender must outlive it.
class lease {
public:
    lease() = default;
    /// Bytes that need no release, because they live as long as their tensor.
    explicit lease(const std::byte* data) noexcept : data_(data) {}
    lease(lender& owner, slice_id slice, std::uint32_t copy, const std::byte* data) noexcept
        : owner_(&owner), data_(data), slice_(slice), copy_(copy) {}
    lease(lease&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), data_(std::exchange(other.data_, nullptr)),
          slice_(other.slice_), copy_(other.copy_) {}
    lease& operator=(lease&& other) noexcept {
        lease moved(std::move(other));
        std::swap(owner_, moved.owner_);
        std::swap(data_, moved.data_);
        std::swap(slice_, moved.slice_);
        std::swap(copy_, moved.copy_);
        return *this;
    }
    ~lease();

    const std::byte* data() const noexcept { return data_; }
    explicit operator bool() const noexcept { return data_ != nullptr; }

private:
    lender* owner_ = nullptr;
    const std::byte* data_ = nullptr;
    slice_id slice_ = 0;
    std::uint32_t copy_ = 0;
};

/// Who keeps slices and lends them; the residency store is one.
class lender {
public:
    lender(const lender&) = delete;
    lender& operator=(const lender&) = delete;
    virtual ~lender() = default;

    /// A new slice of `size` bytes over a backing. Throws unsupported_error where this lender takes none.
    virtual slice_id add(std::string name, backing from, bytes size) {
        static_cast<void>(from), static_cast<void>(size);
        throw unsupported_error("this lender takes no slices", {.tensor = std::move(name)});
    }
    /// A lease at once where a copy lies that `on` reads in place; an empty one otherwise.
    virtual lease try_borrow(slice_id slice, device& on) = 0;
    /// A lease on `on`, after bringing a copy there by `move` where there is none. Throws what the transfer throws.
    virtual task<lease> borrow(slice_id slice, device& on, move_function move) = 0;
    /// Begins to bring slices to `on` that are known to be borrowed there next, neighbours together. Never fails:
    /// whoever borrows is told of errors.
    virtual void expect(std::span<const slice_id> slices, device& on, move_function move) noexcept {
        static_cast<void>(slices), static_cast<void>(on), static_cast<void>(move);
    }
    /// Whether a lease on `on` would be given at once.
    virtual bool readable(slice_id slice, device& on) { return static_cast<bool>(try_borrow(slice, on)); }
    /// The slice's bytes in a mapping, for reading a few of them; null where there is none.
    virtual const std::byte* mapped_bytes(slice_id slice) const {
        static_cast<void>(slice);
        return nullptr;
    }
    /// The bandwidth at which copies came to `on` so far; infinite where none was measured.
    virtual bytes_per_second bandwidth_to(device& on) const {
        static_cast<void>(on);
        return {};
    }
    /// The device on which the placement wants this slice computed; null before it is placed.
    virtual device* home_of(slice_id slice) const = 0;

protected:
    lender() = default;

private:
    friend class lease;
    virtual void give_back(slice_id slice, std::uint32_t copy) noexcept = 0;
};

inline lease::~lease() {
    if (owner_ != nullptr) owner_->give_back(slice_, copy_);
}

} // namespace tern
