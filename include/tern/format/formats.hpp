// Lists of formats, and the list of all that tern brings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <tern/format/blocks.hpp>
#include <tern/format/format.hpp>
#include <tern/format/gguf_types.hpp>
#include <tern/format/iq4.hpp>
#include <tern/format/k_quants.hpp>
#include <tern/format/mxfp4.hpp>
#include <tern/format/plain.hpp>

namespace tern {

namespace detail {

template <class F> struct checked_format {
    static_assert(format_layout<F>,
                  "a format needs a constant name and block_size, and a trivially copyable type block "
                  "whose alignment is 1: hold wider members as tern::unaligned<T>");
    static_assert(format_decodable<F>, "a format needs static void decode(const block&, float*) noexcept");
    static constexpr bool value = true;
};

} // namespace detail

/// A list of formats: what a tensor's numbers may be encoded in. Its order is the order of the run-time index.
///
///     using weight_formats = tern::formats<tern::q4_k, tern::q6_k, tern::f32>;
template <class... Fs> struct formats {
    static_assert(sizeof...(Fs) > 0, "a list of formats needs at least one format");
    static_assert((detail::checked_format<Fs>::value && ...));

    static constexpr std::size_t size = sizeof...(Fs);

    /// How often the list names F.
    template <class F> static constexpr std::size_t count = (std::size_t{std::is_same_v<F, Fs>} + ...);
    static_assert(((count<Fs> == 1) && ...), "a list of formats names the same format twice");

    template <class F> static constexpr bool contains = count<F> == 1;

    /// The position of F in the list.
    template <class F>
    static constexpr std::size_t index_of = [] {
        static_assert(contains<F>, "this format is not in the list of formats");
        std::size_t index = 0;
        static_cast<void>(((std::is_same_v<F, Fs> ? false : (++index, true)) && ...));
        return index;
    }();

    /// The run-time twins, in the list's order.
    static constexpr format_info infos[sizeof...(Fs)] = {info_of<Fs>...};

    /// The position of the first format with a GGUF type id; `size` where none has it.
    static constexpr std::size_t index_of_gguf_type(std::uint32_t id) noexcept {
        std::size_t index = 0;
        while (index < size && infos[index].gguf_type != id) ++index;
        return index;
    }
    /// The position of the format with a name; `size` where none has it.
    static constexpr std::size_t index_of_name(std::string_view name) noexcept {
        std::size_t index = 0;
        while (index < size && infos[index].name != name) ++index;
        return index;
    }

    /// Calls f(std::type_identity<F>{}) for each format, in order.
    ///
    ///     tern::all_formats::for_each([]<class F>(std::type_identity<F>) { std::cout << F::name << '\n'; });
    template <class Function> static constexpr void for_each(Function f) { (f(std::type_identity<Fs>{}), ...); }
};

/// Every format that tern brings.
using all_formats = formats<f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, mxfp4>;

/// The format with a GGUF type id among all_formats, or null. find_gguf_type (gguf_types.hpp) names those that tern
/// knows and cannot compute with.
constexpr const format_info* find_by_gguf_type(std::uint32_t id) noexcept {
    const std::size_t index = all_formats::index_of_gguf_type(id);
    return index < all_formats::size ? &all_formats::infos[index] : nullptr;
}

} // namespace tern
