// Choosing a format at run time among those of a list: once per call of an operator, never per element.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/format/formats.hpp>

namespace tern {

namespace detail {

template <class List> struct format_visitor;

template <class First, class... Rest> struct format_visitor<formats<First, Rest...>> {
    template <class Fn> static decltype(auto) visit(std::size_t index, Fn&& fn) {
        if constexpr (sizeof...(Rest) == 0) {
            return fn.template operator()<First>();
        } else {
            using result = decltype(fn.template operator()<First>());
            using call = result (*)(std::remove_reference_t<Fn>&);
            static constexpr call table[] = {&one<First, result, std::remove_reference_t<Fn>>,
                                             &one<Rest, result, std::remove_reference_t<Fn>>...};
            if (index > sizeof...(Rest)) throw shape_error("no format has index " + std::to_string(index));
            return table[index](fn);
        }
    }

private:
    template <class F, class Result, class Fn> static Result one(Fn& fn) { return fn.template operator()<F>(); }
};

} // namespace detail

/// Calls fn.template operator()<F>() for the format at `index` of a list. A list of one is a direct call.
///
///     tern::visit_format<tern::all_formats>(i, []<tern::format F>() { return F::name; });
template <class List, class Fn> decltype(auto) visit_format(std::size_t index, Fn&& fn) {
    return detail::format_visitor<List>::visit(index, std::forward<Fn>(fn));
}

} // namespace tern
