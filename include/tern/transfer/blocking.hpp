// blocking: all bytes at once, one step after the other.
#pragma once

#include <cstdint>
#include <string_view>

#include <tern/transfer/staged.hpp>

namespace tern {

/// Reads the whole slice, then copies it over the link: staged with one chunk that holds anything. The plainest way,
/// and what the others are measured against; it needs as much staging as the slice is large, and a stop takes effect
/// only between its two steps.
struct blocking : staged<bytes{std::uint64_t{1} << 62}, 1> {
    static constexpr std::string_view name = "blocking";
};

} // namespace tern
