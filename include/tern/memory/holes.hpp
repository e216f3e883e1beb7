// What is free of a range of addresses, in pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tern::detail {

/// The free pieces of a range of addresses, by offset; neighbours are one. To free never allocates, after `expect`.
class hole_list {
public:
    struct hole {
        std::uint64_t begin;
        std::uint64_t end;

        std::uint64_t size() const noexcept { return end - begin; }
    };

    explicit hole_list(std::uint64_t size = 0) {
        if (size != 0) holes_.push_back({0, size});
    }

    std::size_t count() const noexcept { return holes_.size(); }
    const hole& operator[](std::size_t i) const noexcept { return holes_[i]; }
    auto begin() const noexcept { return holes_.begin(); }
    auto end() const noexcept { return holes_.end(); }

    /// Room for what freeing makes: there are at most as many holes as pieces in use, and one.
    void expect(std::size_t in_use) {
        if (holes_.capacity() < in_use + 1) holes_.reserve(2 * (in_use + 1));
    }

    std::uint64_t largest() const noexcept {
        std::uint64_t size = 0;
        for (const hole& h : holes_) size = std::max(size, h.size());
        return size;
    }

    /// Takes a piece out of a hole that holds it.
    void take(std::size_t from, std::uint64_t offset, std::uint64_t size) {
        const auto at = holes_.begin() + static_cast<std::ptrdiff_t>(from);
        const hole head{at->begin, offset};
        const hole tail{offset + size, at->end};
        if (head.size() != 0 && tail.size() != 0) {
            *at = head;
            holes_.insert(at + 1, tail);
        } else if (head.size() != 0 || tail.size() != 0) {
            *at = head.size() != 0 ? head : tail;
        } else {
            holes_.erase(at);
        }
    }
    void give_back(std::uint64_t offset, std::uint64_t size) noexcept {
        const auto next = std::find_if(holes_.begin(), holes_.end(), [&](const hole& h) { return h.begin >= offset; });
        const bool joins_next = next != holes_.end() && next->begin == offset + size;
        const bool joins_last = next != holes_.begin() && (next - 1)->end == offset;
        if (joins_last && joins_next) {
            (next - 1)->end = next->end;
            holes_.erase(next);
        } else if (joins_last) {
            (next - 1)->end += size;
        } else if (joins_next) {
            next->begin = offset;
        } else {
            holes_.insert(next, {offset, offset + size});
        }
    }
    void clear() noexcept { holes_.clear(); }

private:
    std::vector<hole> holes_;
};

} // namespace tern::detail
