// A cache that keeps nothing: for recording a decoder, whose attention then only notes its call.
#pragma once

#include <cstddef>

#include <tern/op/kv_cache.hpp>

namespace tern {

/// Satisfies kv_cache and holds no memory.
class null_cache {
public:
    kv_shape shape() const noexcept { return {}; }
    std::size_t length(std::size_t) const noexcept { return 0; }
    void reserve(const batch&) noexcept {}
    void append(std::size_t, const batch&, const float*, const float*) noexcept {}
    kernel::sequence_pages pages(std::size_t, std::size_t) const noexcept { return {nullptr, 0}; }
    void truncate(std::size_t, std::size_t) noexcept {}
    void copy(std::size_t, std::size_t) noexcept {}
};

static_assert(kv_cache<null_cache>);

} // namespace tern
