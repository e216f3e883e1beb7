// Tiers: the memories in which a tensor may live. A tier is an empty tag; a location is a tier on one device and node.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include <tern/base/config.hpp>
#include <tern/base/diagnose.hpp>

namespace tern {

/// Which part of a machine a tier belongs to, and so who may read it in place.
enum class reach {
    host,   ///< any host device reads it where it lies
    device, ///< only the device that owns the memory reads it
};

/// A memory in which bytes may live. A user's own tier is a tag with these two members, an arena that hands out its
/// memory, and an entry in the placement.
///
///     struct remote { static constexpr std::string_view name = "remote"; static constexpr auto reached_by =
///     tern::reach::host; }; static_assert(tern::tier<remote>);
template <class T>
concept tier = requires {
    { T::name } -> std::convertible_to<std::string_view>;
    { T::reached_by } -> std::convertible_to<reach>;
    // Both are constants.
    typename std::bool_constant<(std::string_view(T::name).size() > 0)>;
    typename std::bool_constant<(T::reached_by == reach::host)>;
};

/// The accelerator's own memory: real with CUDA, an arena with a hard capacity on the emulated accelerator.
struct vram {
    static constexpr std::string_view name = "vram";
    static constexpr reach reached_by = reach::device;
};

/// Plain RAM.
struct pageable {
    static constexpr std::string_view name = "pageable";
    static constexpr reach reached_by = reach::host;
};

/// Page-locked RAM: it never leaves for the swap, and a device copies from it without a stop on the way.
struct pinned {
    static constexpr std::string_view name = "pinned";
    static constexpr reach reached_by = reach::host;
};

/// A file mapped into the address space. The kernel brings pages in as they are read and drops them under pressure.
struct mapped {
    static constexpr std::string_view name = "mapped";
    static constexpr reach reached_by = reach::host;
};

/// Bytes on a disk, read by direct I/O (past the kernel's page cache) for each use. Nothing computes on them in place.
struct direct {
    static constexpr std::string_view name = "direct";
    static constexpr reach reached_by = reach::host;
};

/// The run-time twin of a tier. Two are the same tier when their names are equal.
struct tier_info {
    std::string_view name;
    reach reached_by;

    friend constexpr bool operator==(const tier_info& a, const tier_info& b) noexcept { return a.name == b.name; }
};

template <tier T> inline constexpr tier_info tier_of{T::name, T::reached_by};

/// A list of tiers, for a tensor's type: the order is the order of preference.
template <class... Ts> struct tiers {
    static_assert(sizeof...(Ts) > 0, "tern: a tensor must be allowed to live in at least one tier");
    static_assert((tier<Ts> && ...), "tern: every entry of tiers<...> needs a `name` and a `reached_by`");

    static constexpr std::size_t size = sizeof...(Ts);
    static constexpr tier_info list[] = {tier_of<Ts>...};

    template <class T> static constexpr bool contains = (std::same_as<T, Ts> || ...);

    static constexpr bool allows(const tier_info& t) noexcept { return ((t == tier_of<Ts>) || ...); }

    static std::string names() {
        std::string text;
        for (const tier_info& t : list) text += (text.empty() ? "" : ", ") + std::string(t.name);
        return text;
    }
};

/// Where bytes live: a tier, on a device, near a node of memory. Device 0 of the host tiers is the host itself.
struct location {
    tier_info tier = tier_of<pageable>;
    int device = 0;
    int node = 0;

    friend bool operator==(const location&, const location&) noexcept = default;
};

inline std::string to_string(const location& l) {
    std::string text{l.tier.name};
    if (l.tier.reached_by == reach::device) text += ":" + std::to_string(l.device);
    return text;
}

} // namespace tern
