// A key-value cache in pages of a fixed number of tokens; sequences share pages until one of them writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <tern/base/checked.hpp>
#include <tern/memory/arena.hpp>
#include <tern/op/kv_cache.hpp>

namespace tern {

/// Pages of `page_tokens` tokens, each holding the keys and values of all layers. A page is taken from the arena when a
/// sequence first needs it, and kept for reuse afterwards. `copy` shares pages; a shared page is copied when one of its
/// owners writes into it. `shape.context` is the longest sequence; memory grows with use, inside the arena's budget.
///
///     tern::paged_cache cache{ram, {.layers = 5, .width = 32, .context = 4096, .sequences = 8}, 16};
template <class = void> class basic_paged_cache {
public:
    basic_paged_cache(arena& memory, const kv_shape& shape, std::size_t page_tokens = 32)
        : memory_(memory), shape_(shape), page_tokens_(page_tokens), tables_(shape.sequences) {
        if (page_tokens == 0) throw config_error("a page of the cache holds at least one token");
        for (table& t : tables_) t.views.resize(shape.layers);
    }

    static bytes bytes_of_page(const kv_shape& s, std::size_t page_tokens) {
        std::uint64_t n = 2 * sizeof(float);
        for (const std::uint64_t f : {s.layers, page_tokens, s.width})
            n = checked_mul<std::uint64_t>(n, f, "the size of a page of the cache");
        return {n};
    }

    /// Bytes that a cache takes at most, when every sequence is as long as it may be.
    static bytes bytes_for(const kv_shape& s, std::size_t page_tokens = 32) {
        const std::uint64_t pages = s.context / page_tokens + (s.context % page_tokens != 0);
        return {
            checked_mul<std::uint64_t>(bytes_of_page(s, page_tokens).count,
                                       checked_mul<std::uint64_t>(pages, s.sequences, "the pages of a key-value cache"),
                                       "the size of a key-value cache")};
    }

    const kv_shape& shape() const noexcept { return shape_; }
    std::size_t page_tokens() const noexcept { return page_tokens_; }
    /// Pages taken from the arena so far, in use or free.
    std::size_t pages_taken() const noexcept { return pages_.size(); }
    std::size_t pages_free() const noexcept { return free_.size(); }
    std::size_t length(std::size_t sequence) const {
        detail::check_sequence(shape_, sequence);
        return tables_[sequence].length;
    }

    /// Throws budget_error where the arena has no room for the pages that a batch needs; sequences are then as before.
    void reserve(const batch& b) {
        planned_.clear();
        for (const table& t : tables_) planned_.push_back(t.length);
        detail::continue_sequences(
            shape_, b, [this](std::size_t s) { return planned_[s]; }, [this](std::size_t s) { ++planned_[s]; });
        try {
            for (std::size_t s = 0; s < tables_.size(); ++s)
                if (planned_[s] != tables_[s].length) make_room(tables_[s], planned_[s]);
        } catch (...) {
            // Also where room was found: pages without tokens must not be shared by a later copy.
            for (table& t : tables_) {
                drop_pages(t, pages_for(t.length));
                set_length(t, t.length);
            }
            throw;
        }
        for (std::size_t s = 0; s < tables_.size(); ++s)
            if (planned_[s] != tables_[s].length) set_length(tables_[s], planned_[s]);
    }

    void append(std::size_t layer, const batch& b, const float* k, const float* v) {
        for (std::size_t i = 0; i < b.size(); ++i) {
            const table& t = tables_[static_cast<std::size_t>(b.sequences[i])];
            const auto position = static_cast<std::size_t>(b.positions[i]);
            const std::uint32_t page = t.pages[position / page_tokens_];
            const std::size_t at = position % page_tokens_ * shape_.width;
            std::memcpy(keys(page, layer) + at, k + i * shape_.width, shape_.width * sizeof(float));
            std::memcpy(values(page, layer) + at, v + i * shape_.width, shape_.width * sizeof(float));
        }
    }

    kernel::sequence_pages pages(std::size_t layer, std::size_t sequence) const {
        const std::vector<kernel::kv_page>& views = tables_[sequence].views[layer];
        return {views.data(), views.size()};
    }

    /// Forgets the tokens from `length` on and frees the pages that are empty then.
    void truncate(std::size_t sequence, std::size_t length) {
        detail::check_sequence(shape_, sequence);
        table& t = tables_[sequence];
        if (length >= t.length) return;
        set_length(t, length);
        drop_pages(t, pages_for(length));
    }

    void copy(std::size_t from, std::size_t to) {
        detail::check_sequence(shape_, from);
        detail::check_sequence(shape_, to);
        if (from == to) return;
        table& target = tables_[to];
        const table& source = tables_[from];
        target.pages.reserve(source.pages.size());
        set_length(target, 0);
        drop_pages(target, 0);
        for (const std::uint32_t page : source.pages) {
            ++pages_[page].owners;
            target.pages.push_back(page);
        }
        set_length(target, source.length);
    }

private:
    struct stored_page {
        allocation data{};
        std::uint32_t owners = 0;
    };
    struct table {
        std::vector<std::uint32_t> pages{};
        std::vector<std::vector<kernel::kv_page>> views{}; // [layer][page]
        std::size_t length = 0;
    };

    std::size_t pages_for(std::size_t tokens) const noexcept { return (tokens + page_tokens_ - 1) / page_tokens_; }
    std::size_t layer_floats() const noexcept { return 2 * page_tokens_ * shape_.width; }
    float* keys(std::uint32_t page, std::size_t layer) const noexcept {
        return reinterpret_cast<float*>(pages_[page].data.data()) + layer * layer_floats();
    }
    float* values(std::uint32_t page, std::size_t layer) const noexcept {
        return keys(page, layer) + page_tokens_ * shape_.width;
    }

    /// Pages for `length` tokens, of which those that will be written belong to this sequence alone.
    void make_room(table& t, std::size_t length) {
        if (t.length % page_tokens_ != 0) {
            std::uint32_t& last = t.pages[t.length / page_tokens_];
            if (pages_[last].owners > 1) {
                const std::uint32_t own = take_page();
                std::memcpy(pages_[own].data.data(), pages_[last].data.data(), pages_[own].data.size().count);
                --pages_[last].owners;
                last = own;
            }
        }
        t.pages.reserve(pages_for(length));
        while (t.pages.size() < pages_for(length)) t.pages.push_back(take_page());
    }

    std::uint32_t take_page() {
        if (free_.empty()) {
            free_.reserve(pages_.size() + 1);
            pages_.push_back(
                {memory_.allocate(bytes_of_page(shape_, page_tokens_), "a page of the key-value cache"), 0});
            free_.push_back(static_cast<std::uint32_t>(pages_.size() - 1));
        }
        const std::uint32_t taken = free_.back();
        free_.pop_back();
        pages_[taken].owners = 1;
        return taken;
    }

    void drop_pages(table& t, std::size_t keep) {
        while (t.pages.size() > keep) {
            const std::uint32_t last = t.pages.back();
            t.pages.pop_back();
            if (--pages_[last].owners == 0) free_.push_back(last);
        }
    }

    void set_length(table& t, std::size_t length) {
        // Pages before the one in which the shorter length ends are full before and after.
        const std::size_t first = (length < t.length ? length : t.length) / page_tokens_;
        t.length = length;
        const std::size_t count = pages_for(length);
        for (std::size_t layer = 0; layer < shape_.layers; ++layer) {
            std::vector<kernel::kv_page>& views = t.views[layer];
            views.resize(count);
            for (std::size_t p = first; p < count; ++p) {
                const std::size_t left = length - p * page_tokens_;
                views[p] = {keys(t.pages[p], layer), values(t.pages[p], layer),
                            left < page_tokens_ ? left : page_tokens_};
            }
        }
    }

    arena& memory_;
    kv_shape shape_;
    std::size_t page_tokens_;
    std::vector<table> tables_;
    std::vector<stored_page> pages_;
    std::vector<std::uint32_t> free_;
    std::vector<std::size_t> planned_;
};

/// The cache. (A template underneath, so that a program compiles it only where it is used.)
using paged_cache = basic_paged_cache<>;

static_assert(kv_cache<paged_cache>);

} // namespace tern
