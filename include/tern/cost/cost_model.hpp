// What a cost model is: a type that says how long a move of bytes and a run of an operator take.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <tern/base/units.hpp>
#include <tern/cost/machine.hpp>
#include <tern/memory/tier.hpp>

namespace tern {

/// The two ends of a transfer.
struct route {
    location from{};
    location to{};
};

/// What a move carries, and so what belongs to its price.
enum class cargo : unsigned char {
    weights,     ///< brought beside the computation: latency and bytes
    activations, ///< the next operator waits for them: the wait for their producer (sync) belongs to it too
};

/// Bytes that go over one link.
struct move {
    location from{};
    location to{};
    bytes size{};
    cargo what = cargo::weights;
    std::span<const route> beside{}; ///< transfers that are under way at the same time; those of one bus share it
};

/// One operator, `calls` times in a row on the same processor: one for a matrix, one for each expert that is used.
struct run {
    std::string_view op{};        ///< as graph_node::op
    std::string_view format{};    ///< of its largest weight; empty where it has none
    std::string_view processor{}; ///< processor::name
    location reads{};             ///< the memory that its weights lie in
    double tokens = 1;            ///< of one call; a mean where experts share tokens
    double calls = 1;
    double launches = 1;   ///< of one call: less than one where a kernel serves several calls
    bytes weights{};       ///< read in all calls
    bytes other{};         ///< read and written in all calls: activations, cached keys and values
    double operations = 0; ///< in all calls; a multiplication and an addition are two
};

/// Of the transfers beside a move, those that share its link or its link's bus.
template <class = void> std::size_t sharers(const machine& m, const link& l, std::span<const route> beside) noexcept {
    std::size_t others = 0;
    for (const route& r : beside) {
        const link* const other = m.link_between(r.from, r.to);
        if (other == &l || (other != nullptr && !l.bus.empty() && other->bus == l.bus)) ++others;
    }
    return others;
}

/// Prices a move.
template <class C>
concept prices_moves = requires(const C& cost, const move& m) {
    { cost.price(m) } -> std::same_as<seconds>;
};

/// Prices a run.
template <class C>
concept prices_runs = requires(const C& cost, const run& r) {
    { cost.price(r) } -> std::same_as<seconds>;
};

/// A cost model: constant, and a pure function of what it is asked. A user's own is a struct with two members. It
/// throws config_error for what it cannot price.
///
///     struct flat {
///         tern::seconds price(const tern::move& m) const { return m.size / tern::bytes_per_second{12e9}; }
///         tern::seconds price(const tern::run& r) const { return r.weights / tern::bytes_per_second{40e9}; }
///     };
///     static_assert(tern::cost_model<flat>);
template <class C>
concept cost_model = prices_moves<C> && prices_runs<C>;

} // namespace tern
