// Arenas hand out memory of one tier inside a budget.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include <tern/base/units.hpp>
#include <tern/memory/budget.hpp>
#include <tern/memory/tier.hpp>

namespace tern {

class arena;

/// Memory on loan from an arena; gives itself back. The arena must outlive it.
class allocation {
public:
    allocation() = default;
    allocation(arena& owner, std::byte* data, bytes size) noexcept : owner_(&owner), data_(data), size_(size) {}
    allocation(allocation&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, {})) {}
    allocation& operator=(allocation&& other) noexcept {
        allocation moved(std::move(other));
        std::swap(owner_, moved.owner_);
        std::swap(data_, moved.data_);
        std::swap(size_, moved.size_);
        return *this;
    }
    ~allocation();

    std::byte* data() const noexcept { return data_; }
    bytes size() const noexcept { return size_; }
    explicit operator bool() const noexcept { return owner_ != nullptr; }

private:
    arena* owner_ = nullptr;
    std::byte* data_ = nullptr;
    bytes size_{};
};

/// Memory of one tier. `allocate` throws budget_error where the capacity does not hold the request.
class arena {
public:
    static constexpr std::size_t alignment = 64; ///< of every allocation

    arena(const arena&) = delete;
    arena& operator=(const arena&) = delete;
    virtual ~arena() = default;

    /// `n` bytes, aligned to 64, for `what` (named in the error).
    allocation allocate(bytes n, std::string_view what) { return {*this, take(n, what), n}; }

    virtual const tern::budget& budget() const noexcept = 0;
    /// Where its memory lies.
    virtual location where() const noexcept = 0;

    /// False where a request of `n` bytes would fail because what is free lies in pieces that are all smaller.
    virtual bool in_one_piece(bytes n) const noexcept { return static_cast<void>(n), true; }
    /// Gives the system what is kept for reuse.
    virtual void trim() noexcept {}
    /// An arena over `n` bytes of addresses of its own in the same memory, which this one must outlive: blocks of all
    /// sizes take each other's place there, without a word to the system and with no others between them. What is in
    /// use there counts against this arena's budget too; what is free there counts nowhere. Null where there is none.
    virtual std::unique_ptr<arena> carve(bytes n) { return static_cast<void>(n), nullptr; }
    /// Ends a carved arena: what is free of its addresses goes back at once, the rest as it is freed.
    virtual void retire() noexcept { trim(); }

protected:
    arena() = default;

private:
    friend class allocation;
    virtual std::byte* take(bytes n, std::string_view what) = 0;
    virtual void give_back(std::byte* data, bytes n) noexcept = 0;
};

inline allocation::~allocation() {
    if (owner_ != nullptr) owner_->give_back(data_, size_);
}

} // namespace tern
