// prefetched<depth>: what the plan will need next is on its way while the current operator computes.
#pragma once

#include <cstddef>
#include <string_view>

#include <tern/transfer/staged.hpp>

namespace tern {

/// Moves like `Base`, and asks to be brought before it is needed: while a slice is in use, the scheduler brings the
/// `Depth` streamed slices that follow it in the plan's order, as far as there is room for them.
///
///     using weight = tern::tensor<tern::all_formats, tern::tiers<tern::vram, tern::direct>, tern::prefetched<8>>;
template <std::size_t Depth, transfer_strategy Base = staged<bytes{1 << 20}, 8>> struct prefetched : Base {
    static_assert(Depth > 0, "tern: prefetched<depth> brings at least one slice beforehand");

    static constexpr std::string_view name = "prefetched";
    static constexpr std::size_t ahead = Depth;
};

} // namespace tern
